"""Forks without end, some two hundred times a second: deaf daemons, some of which fork on.

It has a bound, so that a keeper that fails at it does not take the machine along.
"""

import os
import signal
import time

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(600):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        if number not in (49, 99):
            signal.pause()
    if number == 100:
        print("ready", flush=True)
    time.sleep(0.005)

"""Ignores every polite request to end, and so does its child."""

import os
import signal

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork():
    print("ready", flush=True)
while True:
    signal.pause()

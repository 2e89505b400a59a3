"""Leaves children of every kind behind and exits with 7, or stays if told to.

Plain, in a group of their own, in a session of their own, and as daemons with two forks in between and all streams
closed; each kind once polite and once deaf to every request.
"""

import os
import signal
import sys
from collections.abc import Callable

heard, told = os.pipe()


def daemonise() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    for fd in range(3):
        os.close(fd)


def child(become: Callable[[], None], deaf: bool) -> None:
    if os.fork():
        return
    become()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if deaf else ():
        signal.signal(number, signal.SIG_IGN)
    os.write(told, b".")
    while True:
        signal.pause()


KINDS = (lambda: None, os.setpgrp, os.setsid, daemonise)
for kind in KINDS:
    child(kind, deaf=False)
    child(kind, deaf=True)
ready = b""
while len(ready) < 2 * len(KINDS):
    ready += os.read(heard, 100)
print("ready", flush=True)
if sys.argv[1:] == ["stay"]:
    signal.pause()
sys.exit(7)

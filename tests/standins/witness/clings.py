"""Clings to life in the way it is told: daemonises, forgets its environment, is deaf, stops itself, or forks on and on.

usage: clings.py MARK KIND. Every process of it has MARK in its command line. Bounded, so that a keeper that fails at it
does not take the machine along.
"""

import os
import signal
import sys
import time

MARK, KIND = sys.argv[1:3]
LIFE = 120


def deaf() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def stay() -> None:
    end = time.monotonic() + LIFE
    while time.monotonic() < end:
        time.sleep(0.2)
    os._exit(0)


def daemon(*, bare: bool = False) -> None:
    """A grandchild in a session of its own, streams closed; with `bare` also without the environment."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    deaf()
    for fd in range(3):
        os.close(fd)
    if bare:
        os.execve(sys.executable, [sys.executable, "-S", "-E", "-c", f"import time; time.sleep({LIFE})", MARK], {})
    stay()


def forks() -> None:
    deaf()
    for _ in range(400):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            stay()
        time.sleep(0.03)


def stopped() -> None:
    deaf()
    os.kill(os.getpid(), signal.SIGSTOP)


def leaves() -> None:
    daemon()
    daemon(bare=True)
    os.write(1, b"left\n")
    os._exit(0)


def bare() -> None:
    daemon(bare=True)


KINDS = {"daemon": daemon, "bare": bare, "deaf": deaf, "stopped": stopped, "forks": forks, "leaves": leaves}
os.write(1, b"ready\n")
KINDS[KIND]()
stay()

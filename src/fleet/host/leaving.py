"""Directories for a while, and how a process leaves while its threads are at work in them.

A supervisor ends at once, without unwinding: its agents live on. Its threads may then be in the middle of a look at
what an agent left. None of them goes on with the answer of a program that was killed because we leave, none is cut off
while it writes, and no directory stays behind.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import NoReturn

THREADS_STOP_WITHIN_S = 2.0
PROGRAM_DIES_WITHIN_S = 1.0
_gate = threading.Condition()
_directories: dict[str, int] = {}  # each with the thread that works in it
_programs: set[subprocess.Popen[bytes]] = set()
_stopped: set[int] = set()  # the threads that do nothing more
_is_leaving = threading.Event()


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """A new directory of ours, gone after the block, and whenever this process ends in another way than by SIGKILL."""
    made = os.path.join(gettempdir(), f"{prefix}{os.urandom(6).hex()}")
    with _gate:
        _stop_thread_if_leaving()
        _directories[made] = threading.get_ident()  # before it is there: an interrupt may come at any moment
    try:
        os.mkdir(made, 0o700)
        yield Path(made)
    finally:
        rmtree(made, ignore_errors=True)
        with _gate:
            del _directories[made]
            _gate.notify_all()


@contextmanager
def ends_with_us(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have a program killed when we leave. Whoever waits for it does not live to see that."""
    with _gate:
        _programs.add(program)
        if _is_leaving.is_set():
            _kill(program)
        _stop_thread_if_leaving()
    try:
        yield
    finally:
        with _gate:
            _stop_thread_if_leaving()
            _programs.discard(program)


def leave(code: int) -> NoReturn:
    """End this process now, without unwinding."""
    with _gate:
        _is_leaving.set()
        for program in _programs:
            _kill(program)
        ours = threading.get_ident()
        _gate.wait_for(lambda: {*_directories.values()} <= {*_stopped, ours}, THREADS_STOP_WITHIN_S)
    for program in list(_programs):
        with suppress(subprocess.TimeoutExpired):
            program.wait(PROGRAM_DIES_WITHIN_S)  # until then it could still write
    _remove_directories()
    os._exit(code)


def _stop_thread_if_leaving() -> None:
    if _is_leaving.is_set():
        _stopped.add(threading.get_ident())
        _gate.notify_all()
        while True:
            _gate.wait()


def _kill(program: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(program.pid, signal.SIGKILL)


@atexit.register
def _remove_directories() -> None:
    """What an interrupt kept from being removed by the block that made it, too."""
    for made in list(_directories):
        rmtree(made, ignore_errors=True)

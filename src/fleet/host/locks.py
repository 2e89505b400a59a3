"""Locks that die with their holder: no stale lock, no process number that now belongs to somebody else."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.host.files import private_dir

# Who cannot look has not seen that nothing is there.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def take(path: Path, patience: float = 0.2) -> int | None:
    """Lock a file and give its descriptor, or None when another process has it for so many seconds.

    A child that inherits the descriptor keeps the lock for as long as it lives, whatever becomes of us.
    """
    private_dir(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if _wait(fd, patience):
        return fd
    os.close(fd)
    return None


@contextmanager
def turn(fd: int, patience: float = 1.0) -> Iterator[None]:
    """Have an open file to ourselves for a moment; OSError when another has it for so many seconds."""
    if not _wait(fd, patience, 0.001):
        raise OSError(errno.EAGAIN, f"somebody else has kept it locked for {patience:g} s")
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _wait(fd: int, patience: float, pause: float = 0.02) -> bool:
    """Lock a file, sooner or later: somebody who only looks holds it for a moment."""
    for _ in range(max(1, round(patience / pause))):
        if _flock(fd, fcntl.LOCK_EX):
            return True
        time.sleep(pause)
    return False


def release(fd: int) -> None:
    os.close(fd)


def held(path: Path) -> bool:
    """Whether some living process holds the lock; what is not a file of ours is no lock."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno in EXHAUSTED:
            raise
        return False
    try:
        return not _flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def holders(path: Path) -> list[int]:
    """The living processes that hold the lock, as far as /proc shows; a child may hold what its parent has taken."""
    wanted, found = os.path.realpath(path), []
    for pid in filter(str.isdigit, _names("/proc")):
        for fd in _names(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted and "lock:" in _text(f"/proc/{pid}/fdinfo/{fd}"):
                    found.append(int(pid))
                    break
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

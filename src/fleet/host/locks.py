"""Locks that die with their holder: no stale lock, no process number that now belongs to somebody else."""

from __future__ import annotations

import errno
import fcntl
import os
import time
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
    for _ in range(max(1, round(patience / 0.02))):  # somebody who only looks holds it for a moment
        if _flock(fd, fcntl.LOCK_EX):
            return fd
        time.sleep(0.02)
    os.close(fd)
    return None


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


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

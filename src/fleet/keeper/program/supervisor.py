"""What is told to the supervisor, and whether there is one: it may be gone, or another."""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import errno
import fcntl
import os

from fleet.keeper.program.kernel import NEVER

NUDGE_PAUSE = 0.05
LOOK_PAUSE = 30.0


class Events:
    """The way to tell the supervisor that there is something to look at. It may be deaf, dead or slow."""

    def __init__(self, fd: int) -> None:
        self.due = NEVER
        self._fd, self._last = fd, -NEVER

    def tell(self, what: bytes) -> None:
        try:
            os.write(self._fd, what)
        except BlockingIOError:
            pass  # so much lies there unread that one byte more would say nothing new

    def nudge(self, now: float) -> None:
        """Tell of new output soon: a chatty agent does not make a busy supervisor."""
        self.due = min(self.due, max(now, self._last + NUDGE_PAUSE))

    def flush(self, now: float) -> None:
        if self.due <= now:
            self.tell(b"o")
            self.due, self._last = NEVER, now


class Supervisor:
    """Whether anybody holds the supervisor's lock, looked at now and then."""

    def __init__(self, lock: bytes, patience: float, now: float) -> None:
        self._lock, self._patience, self._seen = lock, patience, now
        self._pause = max(0.01, min(LOOK_PAUSE, patience / 4))
        self.due = now + self._pause

    def missing(self, now: float) -> bool:
        """Whether there has been none for as long as we are to wait."""
        if now >= self.due:
            self.due = now + self._pause
            if held(self._lock):
                self._seen = now
        return now - self._seen >= self._patience


def held(lock: bytes) -> bool:
    try:
        fd = os.open(lock, os.O_RDONLY)
    except OSError as problem:
        return problem.errno not in (errno.ENOENT, errno.ENOTDIR)  # not being able to look is no proof of absence
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False

"""Commands for /bin/sh, with their output in a file and a moment by which they must have ended."""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.host import process
from fleet.host.run import end_group, stopping, tell

TICK = 0.05
MOST = 64 * 1024 * 1024
BEHIND = 256 * 1024  # of what is printed faster than anybody reads, only the end is heard
LONGEST = 65536
TOO_LONG = "it took too long"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. Without a code it was ended by us, for the reason given."""

    code: int | None
    seconds: float
    reason: str = ""


def shell(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    marks: Mapping[str, str],
    log: Path,
    deadline: float,
    hear: Callable[[bytes], None],
) -> Ended:
    """Run a command; what it prints goes to the end of the log, and line by line to whoever hears.

    Afterwards nothing of what it started is left, in a session of its own or not: the marks tell it from others.
    """
    began = time.monotonic()
    with open(log, "ab") as output, open(log, "rb", buffering=0) as reader:
        reader.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=cwd, env={**env, **marks}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
        lines = _Lines(hear)
        try:
            reason = _wait(child, deadline, lambda: lines.follow(reader))
        finally:
            if child.poll() is None:
                end_group(child)
            process.sweep(marks)
        lines.follow(reader)
        lines.close()
    tell(["/bin/sh", "-c", command], began, child.returncode)
    return Ended(None if reason else child.returncode, time.monotonic() - began, reason)


def _wait(child: subprocess.Popen[bytes], deadline: float, look: Callable[[], int]) -> str:
    """Wait for a process while its output is looked at; why it must be ended, or nothing."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(TICK)
            return ""
        if look() > MOST:
            return f"it printed more than {MOST // 1024**2} MiB"
        if time.monotonic() >= deadline:
            return TOO_LONG
        if stopping.is_set():
            return "it was stopped"


class _Lines:
    """Cuts output into lines as it comes; one without an end is cut where it grows too long."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear
        self._rest = b""

    def follow(self, reader: io.FileIO) -> int:
        """Hear what was added to a file; how large that is now."""
        size = os.fstat(reader.fileno()).st_size
        if size - reader.tell() > BEHIND:
            reader.seek(size - BEHIND)
            self._rest = b""
        *whole, self._rest = (self._rest + reader.read(BEHIND)).split(b"\n")
        if len(self._rest) > LONGEST:
            whole, self._rest = [*whole, self._rest], b""
        for line in whole:
            self._hear(line)
        return size

    def close(self) -> None:
        if self._rest:
            self._hear(self._rest)

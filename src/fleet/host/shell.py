"""Commands for /bin/sh, with their output in a file and a moment by which they must have ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleet.host import process
from fleet.host.run import end_group, tell

TICK = 0.05
MOST = 64 * 1024 * 1024
CHUNK = 65536


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
    with open(log, "ab") as output, open(log, "rb") as reader:
        reader.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=cwd, env={**env, **marks}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
        lines = _Lines(hear)
        try:
            reason = _wait(child, deadline, lambda: lines.add(reader.read(CHUNK)))
        finally:
            if child.poll() is None:
                end_group(child)
            process.sweep(marks)
        while chunk := reader.read(CHUNK):
            lines.add(chunk)
        lines.close()
    tell(["/bin/sh", "-c", command], began, child.returncode)
    return Ended(None if reason else child.returncode, time.monotonic() - began, reason)


def _wait(child: subprocess.Popen[bytes], deadline: float, look: Callable[[], int]) -> str:
    """Wait for a process while its output is looked at; why it must be ended, or nothing."""
    seen = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(TICK)
            return ""
        seen += look()
        if time.monotonic() >= deadline:
            return "it took too long"
        if seen > MOST:
            return f"it printed more than {MOST // 1024**2} MiB"


class _Lines:
    """Cuts output into lines as it comes; one without an end is cut where it grows too long."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear
        self._rest = b""

    def add(self, chunk: bytes) -> int:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > CHUNK:
            whole, self._rest = [*whole, self._rest], b""
        for line in whole:
            self._hear(line)
        return len(chunk)

    def close(self) -> None:
        if self._rest:
            self._hear(self._rest)

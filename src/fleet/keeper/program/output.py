"""What an agent says, on its way to the disk."""

from __future__ import annotations

import os

from fleet.keeper.program.kernel import CHUNK


class Output:
    """One stream of the agent on its way to the disk: each line cut to a length, the whole cut to a size.

    What does not fit or finds the disk full is dropped and counted, and the next line starts as a line of its own.
    """

    def __init__(self, name: str, limit: int, line: int) -> None:
        self.source = -1
        self.kept = self.dropped = 0
        self.full = self.ended = False
        self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._limit, self._line, self._room = limit, line, line
        self._lost = b""

    def fill(self) -> bool:
        """Move what can be read at once; False when there is nothing."""
        try:
            chunk = os.read(self.source, CHUNK)
        except BlockingIOError:
            return False
        self.ended = not chunk
        if chunk:
            self.take(chunk)
        return bool(chunk)

    def take(self, chunk: bytes) -> None:
        content = self._after_loss(self._cut_lines(chunk))
        room = self._limit - self.kept
        self.full = self.full or len(content) > room
        written = self._write(content[:room])
        self.kept += written
        self.dropped += max(0, len(chunk) - written)

    def _cut_lines(self, chunk: bytes) -> bytes:
        if len(chunk) <= self._room:
            tail = len(chunk) - chunk.rfind(b"\n") - 1
            self._room = (self._room if tail == len(chunk) else self._line) - tail
            return chunk
        first, *others = chunk.split(b"\n")
        lines = [first[: self._room], *[other[: self._line] for other in others]]
        self._room = (self._line if others else self._room) - len(lines[-1])
        return b"\n".join(lines)

    def _after_loss(self, content: bytes) -> bytes:
        """After a write that failed, begin at the next end of a line, so that no two halves become one."""
        if not self._lost or not content:
            return content
        content = self._lost + content
        end = content.find(b"\n")
        self._lost = b"" if end >= 0 else content[-1:]
        return content[end:] if end >= 0 else b""

    def _write(self, content: bytes) -> int:
        done = 0
        try:
            while done < len(content):
                done += os.write(self._file, content[done:] if done else content)
        except OSError:
            self._lost = content[-1:]
        return done

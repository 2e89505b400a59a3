"""Records that only grow: one JSON object a line, whole or not there."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleet.host import files, locks

TAIL = 64 * 1024
RECENT = 1024 * 1024
Record = Mapping[str, object]


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as problem:
        if problem.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        files.put_aside(path)
        return os.open(path, flags, 0o600)


def _is_ours(fd: int) -> bool:
    facts = os.fstat(fd)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


class Journal:
    """A file of JSON lines. Several may write to it, each in its turn: whoever does sees first what others wrote since,
    and removes what a crash tore off in the middle.
    """

    def __init__(self, path: Path) -> None:
        """Open the file. What an agent put in its place, a link or a pipe, is put aside, and a new file is begun."""
        self._fd = _open(path)
        if not _is_ours(self._fd):
            os.close(self._fd)
            files.put_aside(path)
            self._fd = _open(path)
        self._end = 0  # of the last line that we know
        self.last: Record = {}
        try:
            with locks.turn(self._fd):
                self._catch_up()
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, records: Sequence[Record], *, numbered: bool = False) -> None:
        """Add records in one write; when the disk is full, none of them, and OSError. The same when somebody who is no
        writer of ours keeps the file locked. Numbered, each gets the id after the one before it.
        """
        if not records:
            return
        with locks.turn(self._fd):
            self._catch_up()
            if numbered:
                before = self.last.get("id")
                first = before + 1 if isinstance(before, int) else 1
                records = [{"id": first + n} | dict(record) for n, record in enumerate(records)]
            data = b"".join(json.dumps(record, ensure_ascii=False, default=str).encode() + b"\n" for record in records)
            self._write(data)
            self.last = records[-1]

    def recent(self) -> Iterator[Record]:
        """The records at the end of the file, the last one first; those of the last megabyte."""
        start = max(0, self._end - RECENT)
        lines = os.pread(self._fd, self._end - start, start).split(b"\n")
        for line in reversed(lines):
            yield _read(line)

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        if written != len(data):
            os.ftruncate(self._fd, self._end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end += written

    def _catch_up(self) -> None:
        """Know the end of the file, without a line that was torn there."""
        size = self.size
        if size == self._end:
            return
        whole = self._behind_newline(size)
        if whole < size:
            os.ftruncate(self._fd, whole)
        self._end = whole
        start = self._behind_newline(whole - 1) if whole else 0
        self.last = _read(os.pread(self._fd, whole - start, start)) if whole - start <= RECENT else {}

    def _behind_newline(self, end: int) -> int:
        """Where the last line begins of what is before the end."""
        while end > 0:
            start = max(0, end - TAIL)
            found = os.pread(self._fd, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0


def _read(line: bytes) -> Record:
    """A record; nothing when the line is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""Records that only grow: one JSON object a line, whole or not there."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.host import files

TAIL = 64 * 1024
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
    """A file of JSON lines with one writer. What a crash tore off in the middle is removed when it is opened again."""

    def __init__(self, path: Path) -> None:
        """Open the file. What an agent put in its place, a link or a pipe, is put aside, and a new file is begun."""
        self._fd = _open(path)
        if not _is_ours(self._fd):
            os.close(self._fd)
            files.put_aside(path)
            self._fd = _open(path)
        self.last = self._mend()

    def append(self, records: Sequence[Record]) -> None:
        """Add records in one write; when the disk is full, none of them, and OSError."""
        data = b"".join(json.dumps(record, ensure_ascii=False, default=str).encode() + b"\n" for record in records)
        before = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, before)
            raise
        if written != len(data):
            os.ftruncate(self._fd, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if records:
            self.last = records[-1]

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)

    def _mend(self) -> Record:
        """Cut a torn line off the end; the last whole record, or nothing."""
        size = os.fstat(self._fd).st_size
        start = max(0, size - TAIL)
        tail = os.pread(self._fd, TAIL, start)
        whole = tail.rfind(b"\n") + 1
        if whole < len(tail):
            os.ftruncate(self._fd, start + whole)
        lines = tail[:whole].splitlines()
        try:
            last = json.loads(lines[-1]) if lines else {}
        except ValueError:
            return {}
        return last if isinstance(last, dict) else {}

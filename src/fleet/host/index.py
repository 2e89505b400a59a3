"""Git's index of a working tree, copied so that a look at the tree reads no more files than it has to.

Git notes of each file when it was written, but compares whole seconds. So it reads every file again that was written in
the second in which the index was: in a worktree that was just made these are all. The index has the fractions too, and
we compare them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

from fleet.host import files

LARGEST = 1024**3
LARGEST_READ = 64 * 1024**2  # bytes: some half a million files
SECOND = 1_000_000_000
TICK = SECOND // 50  # longer than any kernel's clock stands still: what is written meanwhile has the same time
HEADER = struct.Struct("!4sII")
ENTRY = struct.Struct("!4I4xI12xI20xH")  # when it changed and was written, its inode, its size, its flags
EXTENSION = struct.Struct("!4sI")
EPOCH = bytes(4)
EXTENDED = 0x4000
LONG_PATH = 0xFFF  # or longer
WIDTH = 0xFFFFFFFF
HASH = 20
LINK = b"link"  # the rest of it is in another file

Noted = tuple[int, int, int, int, int, int]


def copy(index: Path, to: Path, top: Path | None = None) -> None:
    """Copy an index with its time. With the tree that it is of, files that are as it noted them are not read again."""
    try:
        facts = (
            index.lstat()
        )  # before it is read: of one that is written anew meanwhile, the earlier time is the safe one
    except FileNotFoundError:
        return
    content = files.read(index, limit=LARGEST)
    if content is None:
        return
    certain = None if top is None else without_doubt(content, facts.st_mtime_ns, os.fsencode(top))
    files.write(to, certain or content)
    os.utime(to, ns=(facts.st_atime_ns, facts.st_mtime_ns + (SECOND if certain else 0)))


def without_doubt(content: bytes, written: int, top: bytes) -> bytes | None:
    """An index in which nothing is in doubt because of when it was written: a file that is as noted, to the fraction,
    is what it was; of every other one it is noted that it changed long ago, so git reads it. (The size and the time of
    writing stay: others compare those.) None for an index that we do not know.

    Not seen is who writes to a file twice within one tick of the clock, while a git that works for longer reads it in
    between; and who goes on writing to memory that a file is mapped to, which moves no time.
    """
    if len(content) > LARGEST_READ or _sum(content[:-HASH]) != content[-HASH:]:
        return None
    found = bytearray(content)
    try:
        for at, noted, path in _in_doubt(content, written // SECOND):
            if not _is_certain(noted, written - TICK, top + b"/" + path):
                found[at : at + len(EPOCH)] = EPOCH
    except (struct.error, ValueError):
        return None
    found[-HASH:] = _sum(found[:-HASH])
    return bytes(found)


def _sum(content: bytes | bytearray) -> bytes:
    return sha1(content, usedforsecurity=False).digest()


def _in_doubt(content: bytes, second: int) -> Iterator[tuple[int, Noted, bytes]]:
    """Each file that was written or changed in that second or later: where its entry is, what is noted, its path."""
    mark, version, count = HEADER.unpack_from(content)
    if mark != b"DIRC" or version not in (2, 3):
        raise ValueError(version)
    at = HEADER.size
    for _ in range(count):
        *noted, flags = ENTRY.unpack_from(content, at)
        start = at + ENTRY.size + (2 if flags & EXTENDED else 0)
        end = content.index(b"\0", start) if flags & LONG_PATH == LONG_PATH else start + (flags & LONG_PATH)
        if noted[0] >= second or noted[2] >= second:
            yield at, tuple(noted), content[start:end]
        at += (end - at + 8) & ~7
    while at < len(content) - HASH:
        name, size = EXTENSION.unpack_from(content, at)
        if name == LINK:
            raise ValueError(name)
        at += EXTENSION.size + size


def _is_certain(noted: Noted, before: int, path: bytes) -> bool:
    """Whether a file is as noted, and was written before that moment. Some file systems know no fractions."""
    changed, changed_ns, written, written_ns, inode, size = noted
    time = written * SECOND + written_ns
    if max(time, changed * SECOND + changed_ns) >= before or not changed_ns:
        return False
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return False
    return (
        facts.st_mtime_ns == time
        and facts.st_ctime_ns == changed * SECOND + changed_ns
        and facts.st_size & WIDTH == size
        and facts.st_ino & WIDTH == inode
    )

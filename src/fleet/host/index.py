"""Git's index of a working tree, copied so that a look at the tree reads no more files than it has to.

Git notes of each file when it was written, but compares whole seconds. So it reads every file again that was written in
the second in which the index was: in a worktree that was just made these are all. The index has the fractions too, and
we compare them.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

from fleet.host import files

LARGEST = 1024**3
LARGEST_READ = 64 * 1024**2  # bytes: some half a million files
SECOND = 1_000_000_000
TICK = SECOND // 50  # longer than any kernel's clock stands still: what is written meanwhile has the same time
LATE = SECOND // 100  # by how much that clock may be behind
HEADER = struct.Struct("!4sII")
ENTRY = struct.Struct("!4I4x2I8xI20sH")  # when it changed and was written, its inode, mode, size, blob and flags
MORE = struct.Struct("!H")
EXTENSION = struct.Struct("!4sI")
EPOCH = bytes(4)
UNCHANGED, EXTENDED, LONG_PATH = 0x8000, 0x4000, 0xFFF  # flags: said to be so; two more bytes of them; or longer
LEFT_OUT = 0x4000  # in those two bytes: the tree is said to be without it
REPOSITORY = 0o160000
WIDTH = 0xFFFFFFFF
HASH = 20
NO_HASH = bytes(HASH)  # of who wants to be faster: `index.skipHash`


class Noted(NamedTuple):
    """What an index says of one path."""

    path: bytes
    mode: int
    size: int
    blob: bytes
    stage: int
    is_hidden: bool  # git is told not to look at it
    is_left_out: bool  # because the tree is without it


class Links:
    """Which paths of a tree lead through a link: nothing that git has is beyond one."""

    def __init__(self, is_link: Callable[[bytes], bool]) -> None:
        self._is_link = is_link
        self._known = {b"": False}

    def lead_to(self, path: bytes) -> bool:
        at = path.rpartition(b"/")[0]
        found = self._known.get(at)
        return self._find(at) if found is None else found

    def _find(self, at: bytes) -> bool:
        steps = []
        while at not in self._known:
            steps.append(at)
            at = at.rpartition(b"/")[0]
        found = self._known[at]
        for one in reversed(steps):
            found = self._known[one] = found or self._is_link(one)
        return found


def copy(index: Path, to: Path) -> None:
    """Copy an index with its time."""
    try:
        facts = index.lstat()  # first: of one that is written anew meanwhile, the earlier time is the safe one
    except FileNotFoundError:
        return
    content = files.read(index, limit=LARGEST)
    if content is not None:
        files.write(to, content)
        os.utime(to, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@contextmanager
def of_the_same_time(index: Path) -> Iterator[None]:
    """Keep the time of an index that is written in another form meanwhile, if there is one."""
    facts = index.stat() if index.exists() else None
    yield
    if facts is not None:
        os.utime(index, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def settle(index: Path, top: Path) -> None:
    """Let git read no file again merely because of when a copy of an index was written."""
    _compare(index, top, None, is_whole=False)


def differing(index: Path, top: Path, since: float | None = None) -> list[Noted] | None:
    """What may be otherwise than a copy of an index has it, and every repository; git will read all of it. What was
    touched since some moment is part of it: an agent can write what is noted, but not when a file changed. None for
    an index that we do not know.
    """
    return _compare(index, top, since, is_whole=True)


def _compare(index: Path, top: Path, since: float | None, *, is_whole: bool) -> list[Noted] | None:
    try:
        facts, content = index.lstat(), files.read(index, limit=LARGEST)
    except FileNotFoundError:
        return None
    until = None if since is None else int(since * SECOND) - LATE
    found = look(content or b"", facts.st_mtime_ns, top, until, is_whole=is_whole)
    if found is None:
        return None
    certain, noted = found
    files.write(index, certain)
    os.utime(index, ns=(facts.st_atime_ns, facts.st_mtime_ns + SECOND))
    return noted


def look(
    content: bytes, written: int, top: Path, until: int | None = None, *, is_whole: bool
) -> tuple[bytes, list[Noted]] | None:
    """An index in which nothing is in doubt because of when it was written, and what is not as noted, to the fraction,
    or was touched later than a moment. Of that it says that it changed long ago, so git reads it. (The size and the
    time of writing stay: others compare those.) Unless it is to be the whole, only what git itself would doubt is
    looked at. None for an index that we do not know.

    Not seen is who writes to a file twice within one tick of the clock, while a git that works for longer reads it in
    between; and who goes on writing to memory that a file is mapped to, which moves no time.
    """
    if len(content) > LARGEST_READ or content[-HASH:] not in (_sum(content[:-HASH]), NO_HASH):
        return None
    try:
        at_top = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        found, end = _not_as_noted(content, written, at_top, until, is_whole=is_whole)
    except (struct.error, ValueError):
        return None
    finally:
        os.close(at_top)
    made = bytearray(content[:end])  # git believes what comes after, such as which trees it had made of these files
    for at in found:
        made[at : at + len(EPOCH)] = EPOCH
    return bytes(made + _sum(made)), [_noted(content, at) for at in found]


def _sum(content: bytes | bytearray) -> bytes:
    return sha1(content, usedforsecurity=False).digest()


def _not_as_noted(
    content: bytes, written: int, top: int, until: int | None, *, is_whole: bool
) -> tuple[list[int], int]:
    """Where the entries are of what is not as noted, and of every repository; and where they end. Of the others there
    may be hundreds of thousands, so nothing is made of them.
    """
    mark, version, count = HEADER.unpack_from(content)
    if mark != b"DIRC" or version not in (2, 3):
        raise ValueError(version)
    second, sure, at = written // SECOND, written - TICK, HEADER.size
    links = Links(partial(_is_link, top=top))
    found = []
    for _ in range(count):
        changed, changed_ns, wrote, wrote_ns, inode, mode, size, _blob, flags = ENTRY.unpack_from(content, at)
        start = at + ENTRY.size + (MORE.size if flags & EXTENDED else 0)
        end = content.index(b"\0", start)
        if end - start != flags & LONG_PATH != LONG_PATH:
            raise ValueError(at)
        in_doubt = changed >= second or wrote >= second
        if in_doubt or is_whole:
            last, last_written = changed * SECOND + changed_ns, wrote * SECOND + wrote_ns
            path = content[start:end]
            facts = _facts(path, top)
            if (
                facts is None
                or links.lead_to(path)
                or facts.st_ctime_ns != last
                or facts.st_mtime_ns != last_written
                or facts.st_size & WIDTH != size
                or facts.st_ino & WIDTH != inode
                or mode == REPOSITORY
                or (until is not None and last >= until)
                or (in_doubt and (last >= sure or last_written >= sure or not changed_ns))  # some know no fractions
            ):
                found.append(at)
        at += (end - at + 8) & ~7
    _must_be_known(content, at)
    return found, at


def _must_be_known(content: bytes, at: int) -> None:
    """What comes after the entries may be left out, unless it says that they are not all."""
    while at < len(content) - HASH:
        name, size = EXTENSION.unpack_from(content, at)
        if name[:1].islower():  # such as `link`
            raise ValueError(name)
        at += EXTENSION.size + size
    if at != len(content) - HASH:
        raise ValueError(at)


def _is_link(path: bytes, top: int) -> bool:
    facts = _facts(path, top)
    return facts is not None and stat.S_ISLNK(facts.st_mode)


def _facts(path: bytes, top: int) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=top, follow_symlinks=False)
    except (OSError, ValueError):
        return None


def _noted(content: bytes, at: int) -> Noted:
    *_, mode, size, blob, flags = ENTRY.unpack_from(content, at)
    start, more = at + ENTRY.size, 0
    if flags & EXTENDED:
        (more,) = MORE.unpack_from(content, start)
        start += MORE.size
    path, is_left_out = content[start : content.index(b"\0", start)], bool(more & LEFT_OUT)
    return Noted(path, mode, size, blob, flags >> 12 & 3, bool(flags & UNCHANGED) or is_left_out, is_left_out)

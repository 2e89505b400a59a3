"""The objects of a git repository, known by what they hold: whoever can write to one can put any bytes under any name,
and git reads them without a word.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet.core import FleetError

TREE, SUBMODULE, LINK, FILE = b"40000", b"160000", b"120000", b"100"  # a file's mode begins so
ENTRIES = {size: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL) for size in (20, 32)}
PIECE = 1024 * 1024
LONG = 64  # digits of a name, where git uses the newer hash


class Item(NamedTuple):
    """One path of a tree."""

    mode: bytes
    name: str
    path: bytes


Said = tuple[bytes, bytes, bytes]  # the same as a tree says it: mode, path, name


class Forged(FleetError):
    """An object is not what it is called."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: somebody forged an object of the repository", hint="git fsck")


def name_of(kind: bytes, size: int, pieces: Iterable[bytes], like: str) -> str:
    """The name of an object with this content, in the hash of another name."""
    made = hashlib.sha256() if len(like) == LONG else hashlib.sha1(usedforsecurity=False)
    made.update(b"%s %d\0" % (kind, size))
    for piece in pieces:
        made.update(piece)
    return made.hexdigest()


def is_file(item: Item, top: Path) -> bool:
    """Whether the file or the link of that path, below a directory of ours, is what a tree says."""
    at = os.path.join(os.fsencode(top), item.path)
    try:
        if stat.S_ISLNK(os.lstat(at).st_mode) != (item.mode == LINK):
            return False
        return (_of_link(at, item.name) if item.mode == LINK else _of_file(at, item.name)) == item.name
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def _of_link(at: bytes, like: str) -> str:
    target = os.readlink(at)
    return name_of(b"blob", len(target), [target], like)


def _of_file(at: bytes, like: str) -> str:
    with open(at, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return name_of(b"blob", size, iter(lambda: file.read(PIECE), b""), like)


def read_batch(out: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """What `git cat-file --batch` says: name, kind and content of each object that is there."""
    at = 0
    while at < len(out):
        end = out.find(b"\n", at)
        if end < 0:  # cut off
            return
        facts, at = out[at:end].split(b" "), end + 1
        if len(facts) == 3:  # one that is missing has no content
            size = int(facts[2])
            if at + size > len(out):  # cut off
                return
            yield facts[0].decode(), facts[1], out[at : at + size]
            at += size + 1


def must_be(kind: bytes, name: str, content: bytes) -> None:
    """Refuse what is not what it is called."""
    if name_of(kind, len(content), [content], name) != name:
        raise Forged(f"the {kind.decode()} {name} is not what it is called")


def known(out: bytes) -> dict[str, bytes]:
    """What `git cat-file --batch` says that objects hold, each of which is what it is called."""
    found = {}
    for name, kind, content in read_batch(out):
        must_be(kind, name, content)
        found[name] = content
    return found


def walk(commit: str, steps: Sequence[str], found: Mapping[str, bytes]) -> Item | None:
    """What a commit has under a path, by objects that are what they are called; None when it, or that, is not there."""
    if commit not in found:
        return None
    name, item = found[commit].partition(b"\n")[0].decode().removeprefix("tree "), None
    for step in steps:
        if name not in found:
            raise Forged(f"the tree {name} is not there, or not what it is called")
        inside = {path: (mode, blob) for mode, path, blob in read_tree(name, found[name])}
        if os.fsencode(step) not in inside:
            return None
        mode, blob = inside[os.fsencode(step)]
        name = blob.hex()
        item = Item(mode, name, os.fsencode(step))
    return item


def leaves(tree: str, found: Mapping[str, bytes]) -> Iterator[Said]:
    """Every file, link and submodule of a tree, by trees that are what they are called."""
    waiting = [(b"", tree)]
    while waiting:
        above, name = waiting.pop()
        if name not in found:
            raise Forged(f"the tree {name} is not there, or not what it is called")
        for mode, path, blob in read_tree(name, found[name]):
            if mode.lstrip(b"0") == TREE:
                waiting.append((b"%s%s/" % (above, path), blob.hex()))
            else:
                yield mode, above + path, blob


def read_tree(name: str, content: bytes) -> list[Said]:
    """What a tree says, with modes as they stand there."""
    size = len(name) // 2
    said = ENTRIES[size].findall(content)
    if sum(len(mode) + len(path) + size + 2 for mode, path, _ in said) != len(content):
        raise Forged(f"the tree {name} makes no sense")
    return said


def mode_of(said: bytes) -> bytes:
    """A mode as git has it nowadays: in old trees stands what else a system knew of a file."""
    if not said.startswith(FILE):
        return said
    return b"100755" if int(said, 8) & 0o100 else b"100644"

"""The objects of a git repository, known by what they hold: whoever can write to one can put any bytes under any name,
and git reads them without a word.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet.core import FleetError

TREE, SUBMODULE, LINK, FILE = b"040000", b"160000", b"120000", b"100"  # a file's mode begins so
LISTED = re.compile(rb"([0-7]+) [a-z]+ ([0-9a-f]+)\t([^\0]+)\0")
PIECE = 1024 * 1024
LONG = 64  # digits of a name, where git uses the newer hash


class Item(NamedTuple):
    """One path of a tree."""

    mode: bytes
    name: str
    path: bytes


Listed = tuple[bytes, bytes, bytes]  # the same, as git says it


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


def read_listing(out: bytes) -> list[Listed]:
    """What `git ls-tree -r -t -z` says."""
    return LISTED.findall(out)


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
        inside = {one.path: one for one in read_tree(found[name], len(name) // 2)}
        item = inside.get(os.fsencode(step))
        if item is None:
            return None
        name = item.name
    return item


def must_hold(tree: str, items: Iterable[Listed], ask: Callable[[list[str]], dict[str, bytes]]) -> None:
    """Refuse a listing of a tree that is not all of it, or of another one. Old trees have modes that git does not tell
    as they stand there: those few are asked for as they are, and what is answered has been looked at already.
    """
    inside: dict[bytes, list[bytes]] = {b"": []}
    trees = {b"": tree}
    for mode, name, path in items:
        parent, _, last = path.rpartition(b"/")
        inside.setdefault(parent, []).append(b"%s %s\0%s" % (mode.lstrip(b"0"), last, unhexlify(name)))
        if mode == TREE:
            trees[path] = name.decode()
    odd = {}
    for path, called in trees.items():
        content = b"".join(inside.get(path, ()))
        if name_of(b"tree", len(content), [content], called) != called:
            odd[called] = content
    raw = ask(sorted(odd)) if odd else {}
    for called, content in odd.items():
        if called not in raw or _without_modes(raw[called], called) != _without_modes(content, called):
            raise Forged(f"the tree {called} is not what it is called")


def _without_modes(content: bytes, like: str) -> list[tuple[str, bytes]]:
    return [(one.name, one.path) for one in read_tree(content, len(like) // 2)]


def read_tree(content: bytes, size: int) -> Iterator[Item]:
    """What a tree says, with modes as they stand there; a name has so many bytes."""
    at = 0
    while 0 <= at < len(content) and (end := content.find(b"\0", at)) > 0:
        mode, _, path = content[at:end].partition(b" ")
        yield Item(mode, content[end + 1 : end + 1 + size].hex(), path)
        at = end + 1 + size

"""What was found, as the words for `git fast-import` that make one commit of it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.core.text import clean
from fleet.host import repository
from fleet.places.base import Place
from fleet.places.salvage.find import Finds

PIECE = 1024 * 1024
EMPTY = b"blob\nmark :1\ndata 0\n\n"  # a file that is to be added later stands in the index as this one
USUAL = (0o644, 0o755)
# Git takes no path that could lead into a repository's own files, on any file system.
GIT_LIKE = re.compile(rb"(^|/)(\.git|git~[0-9]+|\.git[. :].*)(/|$)", re.IGNORECASE)


def stream(place: Place, finds: Finds, ref: bytes, task: str) -> Iterator[bytes]:
    """The words for `git fast-import` that make the commit."""
    now = repository.now()
    facts = {"branch": place.branch, "base": place.base, "head": finds.head, "path": str(place.path), "at": now,
             "task": task, "kind": place.kind.value, "size": finds.size, "mark": finds.mark}  # fmt: skip
    message = f"Saved from {clean(str(place.path))}\n\n{json.dumps(facts)}\n".encode()
    yield EMPTY
    yield b"commit %s\n" % ref
    yield b"committer fleet <fleet@localhost> %d +0000\n" % int(now)
    yield b"data %d\n%s\n" % (len(message), message)
    parents = [*([finds.head] if finds.head else []), *(one for one in finds.parents if one != finds.head)]
    for number, parent in enumerate(parents):
        yield b"%s %s\n" % (b"merge" if number else b"from", parent.encode())
    if parents:
        yield b"deleteall\n"
    keeper = Keeper(place.path)
    yield from _index(finds)
    for path in finds.inside:
        yield from keeper.file(b"files/", path, place.path / os.fsdecode(path))
    for path, where in finds.state:
        yield from keeper.file(b"git/", path, where)
    keeper.facts["gone"] = [os.fsdecode(one) for one in finds.gone]
    keeper.facts["empty"] = [os.fsdecode(one) for one in finds.empty]
    content = json.dumps(keeper.facts).encode()
    yield b"M 100644 inline facts.json\ndata %d\n%s\ndone\n" % (len(content), content)


def _index(finds: Finds) -> Iterator[bytes]:
    """What the index says, each stage of a conflict apart."""
    for entry in finds.entries:
        if entry.is_tracked and not GIT_LIKE.search(entry.path):
            stage = b"staged/" if entry.stage == 0 else b"staged-%d/" % entry.stage
            yield b"M %s %s %s\n" % (entry.mode.encode(), entry.blob.encode(), quoted(stage + entry.path))


class Keeper:
    """Writes files down as they are, and remembers what git cannot."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self.facts: dict[str, object] = {"odd": {}, "modes": {}}

    def file(self, folder: bytes, path: bytes, where: Path) -> Iterator[bytes]:
        try:
            facts = where.lstat()
            if stat.S_ISLNK(facts.st_mode):
                yield from self._written(folder, path, b"120000", [os.fsencode(os.readlink(where))], None)
                return
            fd = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as problem:
            raise FleetError(
                f"{clean(str(where))} cannot be read: {problem.strerror}", hint=f"ls -la {clean(str(where.parent))}"
            ) from problem
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return
            mode = stat.S_IMODE(facts.st_mode)
            if mode not in USUAL:
                modes = self.facts["modes"]
                assert isinstance(modes, dict)
                modes[os.fsdecode(folder + path)] = mode
            kind = b"100755" if mode & 0o100 else b"100644"
            pieces = _exactly(file.fileno(), facts.st_size, where)
            yield from self._written(folder, path, kind, pieces, facts.st_size)

    def _written(
        self, folder: bytes, path: bytes, mode: bytes, pieces: Iterator[bytes] | list[bytes], size: int | None
    ) -> Iterator[bytes]:
        name = folder + path
        if GIT_LIKE.search(path):
            odd = self.facts["odd"]
            assert isinstance(odd, dict)
            name = b"odd/%d" % len(odd)
            odd[name.decode().removeprefix("odd/")] = os.fsdecode(folder + path)
        length = len(pieces[0]) if size is None and isinstance(pieces, list) else size
        yield b"M %s inline %s\ndata %d\n" % (mode, quoted(name), length or 0)
        yield from pieces
        yield b"\n"


def _exactly(fd: int, size: int, where: Path) -> Iterator[bytes]:
    """So many bytes of a file; one that shrinks meanwhile is still being written."""
    left = size
    while left:
        piece = os.read(fd, min(PIECE, left))
        if not piece:
            raise Unavailable(f"{clean(str(where))} is being written to", hint="end what writes there, then try again")
        left -= len(piece)
        yield piece


def quoted(path: bytes) -> bytes:
    """A path as fast-import reads it, whatever bytes it has."""
    plain = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + plain + b'"'

"""A clean checkout of a tree: what would land and nothing else, made from objects alone in a directory of ours."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fleet.core import FleetError
from fleet.core.text import clean, sayable
from fleet.host import files, repository
from fleet.host.git import Repository
from fleet.host.repository import Workshop

CHECKOUTS = "checkouts"
LONGEST_TEXT = 64 * 1024


def check_out(common: Path, tree: str, at: Path, *, base: str | None = None, put_back: Collection[str] = ()) -> None:
    """Write a tree into a new directory, with no link followed. Submodules are empty directories.

    The paths that are put back are as the base has them: with its content, or not there.
    """
    files.private_dir(at.parent)
    repository.remove_tree(at)
    at.mkdir(mode=0o700)
    with repository.workshop(Repository(at, common / "fleet-has-no-index", common)) as shop:
        what = f"the tree {tree} cannot be checked out"
        shop.do("read-tree", "--end-of-options", tree, what=what)
        if put_back and base is not None:
            info = _restored(shop, base, sorted(put_back))
            shop.do("update-index", "-z", "--index-info", stdin=info, what=what)
        shop.do("checkout-index", "--all", "--force", "--quiet", tree=True, at=at, what=what)


def _restored(shop: Workshop, base: str, paths: Sequence[str]) -> bytes:
    """The lines that make an index have these paths as a tree has them."""
    names = [os.fsencode(path) for path in paths]
    out = shop.do("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", base)
    wanted, had = set(names), {}
    for line in out.split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if path in wanted:
            mode, _, blob = facts.split(b" ")
            had[path] = b"%s %s 0\t%s\0" % (mode, blob, path)
    gone = b"".join(b"0 %s\t%s\0" % (b"0" * len(base), path) for path in names if path not in had)
    return gone + b"".join(had.values())


def texts(found: Repository, objects: Path, tree: str, paths: Sequence[str]) -> dict[str, str]:
    """What files of a tree say; without those that are large, or no files."""
    asked = [path for path in paths if "\n" not in path]
    if not asked:
        return {}
    with repository.workshop(found, objects) as shop:
        listed = shop.do("cat-file", "--batch-check", stdin=_lines(f"{tree}:{path}" for path in asked))
        facts = [line.split(b" ") for line in listed.split(b"\n")]
        blobs = {
            path: name[0].decode()
            for path, name in zip(asked, facts, strict=False)
            if name[1:2] == [b"blob"] and name[2].isdigit() and int(name[2]) <= LONGEST_TEXT
        }
        return {path: shop.do("cat-file", "blob", name).decode(errors="replace") for path, name in blobs.items()}


def _lines(lines: Iterable[str]) -> bytes:
    return b"".join(line.encode(errors="surrogateescape") + b"\n" for line in lines)


def inner(at: Path, relative: PurePosixPath) -> Path:
    """A directory of a checkout, made where it is missing; one that a link of the tree leads out of is refused."""
    found = at
    for step in relative.parts:
        found = found / step
        if not os.path.lexists(found):
            found.mkdir(mode=0o700)
        if found.is_symlink() or not found.is_dir() or step == "..":
            raise FleetError(f"{clean(sayable(str(relative)))} is no directory of what it left")
    return found


def lend(at: Path, project: Path, paths: Sequence[str]) -> list[Path]:
    """Let the checkout have what git ignores, from a working tree outside; what was lent. Nothing is replaced by it."""
    lent = []
    for path in paths:
        steps = PurePosixPath(path).parts
        source, target = project.joinpath(*steps), at.joinpath(*steps)
        if not steps or ".." in steps or PurePosixPath(path).is_absolute() or not source.exists():
            continue
        inner(at, PurePosixPath(*steps[:-1]))
        if not os.path.lexists(target):
            target.symlink_to(source)
            lent.append(source)
    return lent


def leftovers(home: Path, running: Collection[str]) -> Iterator[Path]:
    """Checkouts of attempts that nobody carries through any more."""
    with suppress(OSError):
        for one in (home / CHECKOUTS).iterdir():
            if one.name.rpartition("-")[0] not in running:
                yield one

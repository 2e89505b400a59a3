"""A clean checkout of a tree: what would land and nothing else, made from objects alone in a directory of ours."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fleet.core import FleetError
from fleet.core.text import clean, sayable
from fleet.host import files, repository
from fleet.host.git import Repository
from fleet.host.objects import SUBMODULE, Forged, Item, is_file

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
        items = {one.path: one for one in shop.listing(tree, what)}
        if put_back and base is not None:
            names = {os.fsencode(path) for path in put_back}
            items = _restored(items, names, {one.path: one for one in shop.listing(base, what) if one.path in names})
        info = b"".join(b"%s %s 0\t%s\0" % (one.mode, one.name.encode(), path) for path, one in items.items())
        shop.do("update-index", "-z", "--index-info", stdin=info, what=what)
        shop.do("checkout-index", "--all", "--force", "--quiet", tree=True, at=at, what=what)
    for one in items.values():
        if one.mode != SUBMODULE and not is_file(one, at):
            path = clean(sayable(os.fsdecode(one.path)))
            raise Forged(f"{path} is not the file that the tree {tree} has")


def _restored(items: Mapping[bytes, Item], paths: Collection[bytes], had: Mapping[bytes, Item]) -> dict[bytes, Item]:
    """A tree with these paths as another one had them; where a file and a directory are in each other's way, theirs
    stays.
    """
    above = {parent for path in had for parent in _parents(path)}
    kept = {
        path: one
        for path, one in items.items()
        if path not in paths and path not in above and not any(parent in had for parent in _parents(path))
    }
    return kept | dict(had)


def _parents(path: bytes) -> list[bytes]:
    steps = path.split(b"/")
    return [b"/".join(steps[:count]) for count in range(1, len(steps))]


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
        said = shop.contents(dict.fromkeys(blobs.values())) if blobs else {}
        return {path: said[name].decode(errors="replace") for path, name in blobs.items() if name in said}


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
    """Let the checkout have what git ignores, from a working tree outside; what was lent. It takes the place of what
    stands there: who could commit that could otherwise bring a program of its own.
    """
    lent = []
    for path in paths:
        steps = PurePosixPath(path).parts
        source, target = project.joinpath(*steps), at.joinpath(*steps)
        if not steps or ".." in steps or PurePosixPath(path).is_absolute() or not source.exists():
            continue
        inner(at, PurePosixPath(*steps[:-1]))
        repository.remove_tree(target)
        target.symlink_to(source)
        lent.append(source)
    return lent


def leftovers(home: Path, running: Collection[str]) -> Iterator[Path]:
    """Checkouts of attempts that nobody carries through any more."""
    with suppress(OSError):
        for one in (home / CHECKOUTS).iterdir():
            if one.name.rpartition("-")[0] not in running:
                yield one

"""What a directory looked like: enough to tell afterwards whether anything was done in it."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.core.text import sayable
from fleet.host import files, git

MOST = 5_000

Mark = tuple[int, int]  # size and time of the last change
Marks = dict[str, Mark]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Marks of the files that could show an effect: in a repository those not committed, elsewhere all of them.

    None stands for "too many to look at" or "git could not say": then nobody may claim to know what changed.
    """

    head: str | None = None
    files: Marks | None = None
    artifacts: Marks | None = field(default_factory=dict)
    refs: dict[str, str] | None = None  # branches and tags of the user's repository, where an agent can move them


def look(cwd: Path, artifacts: Path) -> Snapshot:
    repository = git.find(cwd)
    notes = walk(artifacts)
    if repository is None:
        return Snapshot(None, walk(cwd), notes)
    tip = git.head(repository).commit
    with git.mirror(repository) as ours:
        dirty = ours.dirty(tip)
    return Snapshot(tip, None if dirty is None else _marks(repository.top, dirty), notes)


def changed(before: Marks | None, after: Marks | None) -> list[str] | None:
    """Paths that came, went or changed; None when it cannot be known."""
    if before is None or after is None:
        return None
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def walk(root: Path) -> Marks | None:
    """Every file below a directory, links not followed."""
    found: Marks = {}
    for directory, folders, names in files.walk(str(root)):
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in (*names, *links):
            path = os.path.join(directory, name)
            mark = _mark(path)
            if mark is not None:
                found[sayable(os.path.relpath(path, root))] = mark
            if len(found) > MOST:
                return None
    return found


def _marks(top: Path, paths: list[str]) -> Marks | None:
    """Marks of dirty paths; git names a new directory once, so its files are looked at one by one."""
    found: Marks = {}
    for path in paths:
        if path.endswith("/"):
            below = walk(top / path)
            if below is None:
                return None
            found |= {sayable(path) + name: mark for name, mark in below.items()}
        else:
            found[sayable(path)] = _mark(str(top / path)) or (-1, 0)
        if len(found) > MOST:
            return None
    return found


def _mark(path: str) -> Mark | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns

"""What an agent has touched so far, seen from outside while it works: enough to flag it, not to judge it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.evidence.tree import ENTRIES
from fleet.host import git

MOST = 20_000
NOTHING = "000000"


def touched(repository: git.Repository, began: str | None, before: Collection[str]) -> list[Change] | None:
    """What differs from the commit that the agent found, committed or not, but for what differed before it came; None
    when git could not say. A renamed file is one that came and one that went.
    """
    tip = git.head(repository).commit
    with git.mirror(repository) as ours:
        standing = ours.standing(tip)
        moved = tip is not None and began is not None and tip != began
        committed = ours.between(began or "", tip or "") if moved else ""
    if standing is None or committed is None:
        return None
    found = merged(between(committed), list(standing_changes(standing)))
    return [_seen(repository.top, change) for change in found if change.path not in before]


def merged(committed: Iterator[Change], standing: list[Change]) -> list[Change]:
    """What stands there goes before what was committed; what came with a commit and is gone again is nothing."""
    found = {change.path: change for change in committed}
    for change in standing:
        earlier = found.get(change.path)
        if earlier is not None and earlier.change is ChangeKind.ADDED:
            if change.change is ChangeKind.DELETED:
                del found[change.path]
                continue
            change = replace(change, change=ChangeKind.ADDED)
        found[change.path] = change
    return list(found.values())


def between(raw: str) -> Iterator[Change]:
    """The changes of `git diff-tree --raw -z`: a line of facts, then the path."""
    parts = raw.split("\0")
    for facts, path in zip(parts[::2], parts[1::2], strict=False):
        old, new, *_ = facts.lstrip(":").split()
        yield _change(path, old, new)


def standing_changes(status: str) -> Iterator[Change]:
    """The changes of `git status --porcelain=v2 -z`."""
    for entry in status.split("\0")[:MOST]:
        match entry[:1]:
            case "1":
                _, _, _, head, _, tree, _, _, path = entry.split(" ", 8)
                yield _change(path, head, tree)
            case "u":
                yield Change(entry.split(" ", 10)[-1])
            case "?":
                yield Change(entry[2:], change=ChangeKind.ADDED)


def _change(path: str, old: str, new: str) -> Change:
    kind = ChangeKind.ADDED if old == NOTHING else ChangeKind.DELETED if new == NOTHING else ChangeKind.MODIFIED
    entry = ENTRIES.get(old if new == NOTHING else new, EntryKind.FILE)
    return Change(path, change=kind, entry=entry, old_mode=old, mode=new)


def _seen(top: Path, change: Change) -> Change:
    """The change with where a link leads: git does not say what a file is that it does not have."""
    if change.change is ChangeKind.DELETED:
        return change
    try:
        is_link = stat.S_ISLNK(os.lstat(top / change.path).st_mode)
        return replace(change, entry=EntryKind.SYMLINK, target=os.readlink(top / change.path)) if is_link else change
    except (OSError, ValueError):
        return change

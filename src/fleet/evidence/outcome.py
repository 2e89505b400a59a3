"""What came of an attempt in a repository, from the tree that it found and the tree that it left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet.core.frozen import dataclass
from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.core.text import sayable
from fleet.evidence.receipt import SHOWN, Commit, Result
from fleet.evidence.snapshot import Marks, changed
from fleet.evidence.tree import Stand, Trees


@dataclass(frozen=True, slots=True)
class Began:
    """What an attempt found: its commit and its tree; and the tree that the whole result is compared with."""

    head: str | None
    tree: str
    base: str


def outcome(
    trees: Trees, began: Began, stand: Stand, before: Marks | None, after: Marks | None
) -> tuple[Result, list[Change]]:
    """What is found, with everything that would land. Of the result only a part may be listed: it is for people."""
    own = trees.changes(began.tree, stand.tree)
    landing = own if began.base == began.tree else trees.changes(began.base, stand.tree)
    pending: set[str] = set()
    if own and not stand.is_committed:
        pending = set(_paths(own if stand.committed == began.tree else trees.changes(stand.committed, stand.tree)))
    moved = stand.head is not None and stand.head != began.head
    left = [path for path in _paths(own) if path in pending]
    gone = [] if moved else [path for path in _paths(own) if path not in pending]
    artifacts = changed(before, after)
    result = Result(
        base=began.head,
        head=stand.head,
        commits=_commits(trees, began.head, stand.head) if moved and stand.head else [],
        changes=[shown(one) for one in landing[:SHOWN]],
        uncommitted=[sayable(path) for path in left[:SHOWN]],
        artifacts=None if artifacts is None else artifacts[:SHOWN],
        gone=[sayable(path) for path in gone[:SHOWN]],
        base_tree=began.base,
        tree=stand.tree,
        totals=totals(landing),
    )
    return result, landing


def shown(change: Change) -> Change:
    """A change whose names everybody can store and show."""
    old, target = change.old_path, change.target
    return replace(
        change,
        path=sayable(change.path),
        old_path=None if old is None else sayable(old),
        target=None if target is None else sayable(target),
    )


def totals(changes: Sequence[Change]) -> dict[str, int]:
    """How much differs, counted over all of it."""
    return {
        "files": len(changes),
        "added": sum(one.added or 0 for one in changes),
        "removed": sum(one.removed or 0 for one in changes),
        "deleted": sum(one.change is ChangeKind.DELETED for one in changes),
        "renamed": sum(one.change is ChangeKind.RENAMED for one in changes),
        "modes": sum(_is_mode_change(one) for one in changes),
        "symlinks": sum(one.entry is EntryKind.SYMLINK for one in changes),
        "submodules": sum(one.entry is EntryKind.SUBMODULE for one in changes),
    }


def _is_mode_change(one: Change) -> bool:
    return one.old_mode is not None and one.mode is not None and one.old_mode != one.mode


def _paths(changes: Iterable[Change]) -> list[str]:
    """Every path that changes speak of, what was renamed at both ends."""
    return sorted({path for one in changes for path in (one.path, one.old_path) if path is not None})


def _commits(trees: Trees, base: str | None, tip: str) -> list[Commit]:
    return [Commit(name, sayable(subject)) for name, subject in trees.commits(base, tip)]

"""The commit that an attempt begins from, made of the tip of a branch and of the results that it does not have.

One commit that has all the others is the base itself. Several are merged, two at a time in a fixed order, and the base
is a commit that names them. The same commits give the same base, so a step that was cut off can be done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.core.work import StandsOn
from fleet.host import repository
from fleet.host.git import Repository
from fleet.host.repository import Merges
from fleet.results.words import join_names, named_commit, stands_on_text

BASE = "refs/fleet/base/"
MAX_NAMED_FILES = 5


class NoBase(FleetError):
    """The results that a task waits for cannot be brought together, so it waits for a person."""


@dataclass(frozen=True, slots=True)
class Base:
    commit: str
    stands_on: tuple[StandsOn, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A result that did not merge with what stood there, and the files."""

    merged: tuple[StandsOn, ...]
    result: StandsOn
    files: tuple[str, ...]


def build_base(common: Path, tip: StandsOn, results: Sequence[StandsOn], task: str) -> Base:
    """The base of a task's attempt. Results that do not merge are a NoBase, which names them and their files."""
    if not results:
        return Base(tip.commit, (tip,))
    found = Repository(common, common / "fleet-has-no-index", common)
    with repository.workshop(found, write_to=common / "objects") as shop:
        merges = Merges(shop, common)
        for one in results:
            if not merges.is_there(one.commit):
                raise NoBase(
                    f"the result of {named_commit(one)} is not in {clean(str(common))} any more",
                    hint=f"fleet retry {one.name}, then: fleet retry {task}",
                )
        return _build(merges, tip, results, task)


def _build(merges: Merges, tip: StandsOn, results: Sequence[StandsOn], task: str) -> Base:
    apart = merges.independent([tip.commit, *(one.commit for one in results)])
    first = {one.commit: one for one in reversed([tip, *results])}  # one name for each commit
    parts = [first[commit] for commit in dict.fromkeys([tip.commit, *(r.commit for r in results)]) if commit in apart]
    merges.heed_attributes(tip.commit)
    made = _merge(merges, parts)
    if isinstance(made, Conflict) and len(parts) > 2:
        again = _merge(merges, [parts[0], *reversed(parts[1:])])  # whether there is a conflict can depend on the order
        made = made if isinstance(again, Conflict) else again
    if isinstance(made, Conflict):
        raise _explained(_narrowed(merges, made), tip, task)
    commit, brought = made
    stands_on = [_placed(merges, one, tip, brought) for one in results]
    if len(brought) > 1:
        text = f"Base of {task}: {stands_on_text([*stands_on, tip])}\n"
        commit = merges.commit(merges.tree_of(commit), [one.commit for one in brought], text)
    return Base(commit, (*stands_on, tip))


def _merge(merges: Merges, parts: Sequence[StandsOn]) -> tuple[str, list[StandsOn]] | Conflict:
    """One commit with all of them, and those that brought something: what others have done already brings nothing."""
    current, brought = parts[0].commit, [parts[0]]
    for one in parts[1:]:
        merged = merges.merge(current, one.commit)
        if merged.conflicts:
            return Conflict(tuple(brought), one, merged.conflicts)
        if merged.tree != merges.tree_of(current):
            current = merges.commit(merged.tree, [current, one.commit], f"{one.name}\n")
            brought.append(one)
    return current, brought


def _placed(merges: Merges, one: StandsOn, tip: StandsOn, brought: Sequence[StandsOn]) -> StandsOn:
    """A result with the name of what has all of it: the branch, or another result that is merged."""
    if one in brought:
        return one
    has = [other for other in (tip, *brought) if merges.has(other.commit, one.commit)]
    return replace(one, within=(has or [tip])[0].name)


def _narrowed(merges: Merges, found: Conflict) -> Conflict:
    """The same with the one other that it conflicts with, if there is one that it does not merge with alone."""
    for other in found.merged:
        merged = merges.merge(other.commit, found.result.commit)
        if merged.conflicts:
            return Conflict((other,), found.result, merged.conflicts)
    return found


def _explained(found: Conflict, tip: StandsOn, task: str) -> NoBase:
    more = f" and {len(found.files) - MAX_NAMED_FILES} more" if len(found.files) > MAX_NAMED_FILES else ""
    files = f"{', '.join(found.files[:MAX_NAMED_FILES])}{more}"
    who = join_names([named_commit(one) for one in (*found.merged, found.result)])
    sides = [one for one in (*found.merged, found.result) if one.attempt]
    merge = ", ".join(f"git merge {one.branch or one.commit}" for one in sides)
    return NoBase(
        clean(f"{who} do not merge: both change {files}", 1000),
        hint=f"bring them into {tip.name} by hand ({merge}), then: fleet retry {task}",
    )

"""Branches and tags of a repository that moved while an agent ran: a fact, and by whom nobody can tell."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from fleet.core.frozen import dataclass

BRANCHES = "refs/heads/"
SHORT = 12


@dataclass(frozen=True, slots=True)
class Moved:
    """A branch or a tag that names something else than before, with what it named. None: it was not there."""

    ref: str
    old: str | None
    new: str | None


def moved(before: Mapping[str, str], after: Mapping[str, str], explained: Collection[str] = ()) -> list[Moved]:
    """What differs, but for the branches that somebody is known to have worked on."""
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    own = {f"{BRANCHES}{branch}" for branch in explained}
    return [Moved(name, before.get(name), after.get(name)) for name in names if name not in own]


def said(one: Moved) -> str:
    """What became of it, in a few words."""
    if one.old is None:
        return f"{one.ref} is new, at {(one.new or '')[:SHORT]}"
    if one.new is None:
        return f"{one.ref} is gone, was at {one.old[:SHORT]}"
    return f"{one.ref} was at {one.old[:SHORT]}, is at {one.new[:SHORT]}"


def way_back(one: Moved, repository: str) -> str:
    """The command that sets it back, as long as nobody has moved it again."""
    words = ["-d", one.ref, one.new or ""] if one.old is None else [one.ref, one.old, one.new or ""]
    return shlex.join(["git", "-C", repository, "update-ref", "--no-deref", *words])

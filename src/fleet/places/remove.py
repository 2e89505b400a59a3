"""Removing a place: after it was saved, and only as it stood then."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.core.work import PlaceKind
from fleet.host import repository
from fleet.places import clone, record, worktree
from fleet.places.base import Place
from fleet.places.paths import Project, origin

if TYPE_CHECKING:
    from fleet.places.salvage import Saved

ASIDE = ".removing-"


class Left(FleetError):
    """A place is removed, and something of it that the user may not delete is left."""


def remove(place: Place, saved: Saved | None) -> bool:
    """Remove a place as it was saved, with its entry in git; whether its branch, which held nothing, went too.

    Bears being cut off and called again: what was saved is moved aside in one step, before anything is deleted. What
    cannot be deleted is left there, and is a Left after everything else is done.
    """
    if place.kind is PlaceKind.INPLACE:
        raise FleetError(f"{place.path} is not a place that fleet made, and is not removed")
    with record.alone_if_known(place.path):
        said = record.read(place.path)
        project = origin(place)
        if said is None and os.path.lexists(place.path) and not _is_ours(project, place):
            raise FleetError(f"{place.path} is not a place that fleet made, and is not removed")
        left = clear(place, saved)
        worktree.forget(project.common, place.path)
        if place.kind is PlaceKind.CLONE:
            clone.let_go(project, place.path)
        branch_too = said is not None and said.own_branch and _without_branch(project, place)
        record.forget(place.path)
    if left:
        raise Left(left[0].message, left[0].hint)
    return branch_too


def clear(place: Place, saved: Saved | None) -> list[repository.Stuck]:
    """Remove the directory of a place as it was saved, for whoever is alone with it; what could not be deleted."""
    if place.path.is_file() and not place.path.is_symlink():
        at = clean(str(place.path))
        raise FleetError(
            f"{at} is a file, and no place any more", hint=f"mv {shlex.quote(at)} {shlex.quote(at + '.aside')}"
        )
    left, aside = _tidied(place.path)  # what a call left that was cut off
    if os.path.lexists(place.path):
        _move_away(place, saved, aside)
        left += _removed(aside)
    return left


def leftovers(root: Path) -> list[Path]:
    """What is left under a root of places that were removed."""
    with suppress(OSError):
        return sorted(root.glob(f"{ASIDE}*"))
    return []


def finish(left: Path) -> None:
    """Remove what is left of a place."""
    repository.remove_tree(left)


def _is_ours(project: Project, place: Place) -> bool:
    """Whether git knows a place that nothing is written down of: agents can remove what stands beside it."""
    if place.kind is PlaceKind.CLONE:
        return clone.is_known(project, place.path)
    return any(where == place.path for _, where, _ in repository.linked(project.common))


def _tidied(path: Path) -> tuple[list[repository.Stuck], Path]:
    """What still cannot be deleted of what was moved aside before, and the next name that is free."""
    left, number = [], 1
    while os.path.lexists(aside := path.with_name(f"{ASIDE}{path.name}{f'.{number}' if number > 1 else ''}")):
        stuck = _removed(aside)
        left += stuck
        number += 1 if stuck else 0
    return left, aside


def _removed(aside: Path) -> list[repository.Stuck]:
    try:
        repository.remove_tree(aside)
    except repository.Stuck as problem:
        return [problem]
    return []


def _move_away(place: Place, saved: Saved | None, aside: Path) -> None:
    from fleet.places import salvage  # what nobody pays for who removes nothing

    if not salvage.is_as_saved(place, saved):
        raise FleetError(
            f"something was written in {clean(str(place.path))} after it was saved",
            hint="end what works there, then try again",
        )
    try:
        os.rename(place.path, aside)
    except OSError as problem:
        raise repository.Stuck(place.path, problem) from problem


def _without_branch(project: Project, place: Place) -> bool:
    """Delete the branch when it was made with the place and holds no commit beyond its base."""
    if place.branch is None or place.base is None or place.kind is not PlaceKind.WORKTREE:
        return False
    if repository.ref(project.common, f"refs/heads/{place.branch}") != place.base:
        return False
    done = repository.ask(project.common, "update-ref", "-d", f"refs/heads/{place.branch}", place.base)
    return done.code == 0

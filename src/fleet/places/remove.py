"""Removing a place: after it was saved, and only as it stood then."""

from __future__ import annotations

import os
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.core.work import PlaceKind
from fleet.host import repository
from fleet.places import clone, record, salvage, worktree
from fleet.places.base import Place
from fleet.places.paths import Project, origin
from fleet.places.salvage import Saved

ASIDE = ".removing-"


def remove(place: Place, saved: Saved | None, without: tuple[str, ...] = ()) -> bool:
    """Remove a place as it was saved, with its entry in git; whether its branch, which held nothing, went too.

    What was left out of the save, because it must not get into git, is left out here too. Bears being cut off and
    called again: what was saved is moved aside in one step, before anything is deleted.
    """
    if place.kind is PlaceKind.INPLACE:
        raise FleetError(f"{place.path} is not a place that fleet made, and is not removed")
    with record.alone(place.path):
        said = record.read(place.path)
        project = origin(place)
        aside = place.path.with_name(f"{ASIDE}{place.path.name}")
        if said is None and os.path.lexists(place.path):
            raise FleetError(f"{place.path} is not a place that fleet made, and is not removed")
        repository.remove_tree(aside)  # left by a call that was cut off
        if os.path.lexists(place.path):
            _move_away(place, saved, aside, without, made=said is not None and said.made)
            repository.remove_tree(aside)
        worktree.forget(project.common, place.path)
        if place.kind is PlaceKind.CLONE:
            clone.let_go(project, place.path)
        branch_too = said is not None and said.own_branch and _without_branch(project, place)
        record.forget(place.path)
        return branch_too


def _move_away(place: Place, saved: Saved | None, aside: Path, without: tuple[str, ...], *, made: bool) -> None:
    if made and not salvage.is_as_saved(place, saved, without):
        raise FleetError(
            f"something was written in {clean(str(place.path))} after it was saved",
            hint="end what works there, then try again",
        )
    os.rename(place.path, aside)


def _without_branch(project: Project, place: Place) -> bool:
    """Delete the branch when it was made with the place and holds no commit beyond its base."""
    if place.branch is None or place.base is None or place.kind is not PlaceKind.WORKTREE:
        return False
    if repository.ref(project.common, f"refs/heads/{place.branch}") != place.base:
        return False
    done = repository.ask(project.common, "update-ref", "-d", f"refs/heads/{place.branch}", place.base)
    return done.code == 0

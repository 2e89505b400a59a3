"""The branch of an attempt, made to name exactly what was judged, so that `git merge fleet/t7` brings all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fleet import places
from fleet.core import FleetError
from fleet.core.text import clean
from fleet.core.work import Attempt, PlaceKind
from fleet.host import git, repository
from fleet.places import Place
from fleet.supervisor.place import place_of


def name_result(attempt: Attempt, landing: str | None) -> None:
    """Move an attempt's own branch to its result, unless it is there already. A branch that has commits which were not
    judged is left alone, and that is an error. What works in place has no branch of its own.
    """
    project = places.project(Path(attempt.repository)) if attempt.repository else None
    if landing is None or project is None or not attempt.branch or attempt.place is PlaceKind.INPLACE:
        return
    ref = f"refs/heads/{attempt.branch}"
    tip = repository.ref(project.common, ref)
    if tip == landing:
        return
    if tip is not None and repository.ask(project.common, "merge-base", "--is-ancestor", tip, landing).code:
        raise FleetError(
            f"the branch {clean(attempt.branch)} has commits that were not judged, and stays where it is",
            hint=f"git merge {landing}",
        )
    place = place_of(attempt)
    words = ("update-ref", "-m", f"fleet: the result of {attempt.id}", ref, landing, tip or "0" * len(landing))
    repository.do(project.common, *words, what=f"{clean(attempt.branch)} cannot be moved")
    if place is not None and place.path.is_dir():
        _follow(place, landing)


def _follow(place: Place, landing: str) -> None:
    """Let what a place knows of its branch be true: the index of a worktree, and what was collected from a clone. Its
    files stand as they were judged.
    """
    if place.kind is PlaceKind.CLONE:
        with places.record.alone(place.path):
            said = places.record.read(place.path)
            if said is not None:
                places.record.write(place.path, replace(said, collected=landing))
        return
    found = git.find(place.path)
    if found is not None and found.top == place.path and git.head(found).branch == place.branch:
        repository.ask(found.own, "read-tree", "-m", landing)

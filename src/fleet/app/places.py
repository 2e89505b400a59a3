"""Places as people see them: what is in one, what was saved of one that is gone, and which may go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet import places
from fleet.app.tasks import Desk
from fleet.config.workspace import project_workspace
from fleet.core import FleetError, NotFound
from fleet.core.task import Status, Task
from fleet.core.text import clean
from fleet.core.work import Attempt
from fleet.host import repository
from fleet.places import Place, Project, salvage
from fleet.places.difference import branch_difference, difference, is_merged, tip_of
from fleet.places.salvage import Content, Kept
from fleet.supervisor.place import place_of

LONG = 7 * 24 * 3600.0  # seconds after which an attempt ended long ago


def here(cwd: Path) -> Project:
    """The repository that a person stands in."""
    found = places.project(cwd)
    if found is None:
        raise NotFound(f"{clean(str(cwd))} is in no git repository", hint="go to the project: cd …")
    return found


def kept(cwd: Path) -> list[Kept]:
    return salvage.all(here(cwd))


def show(cwd: Path, name: str) -> Content:
    return salvage.show(here(cwd), name)


def restore(cwd: Path, name: str, to: Path | None, branch: str | None) -> tuple[Kept, Path]:
    """Bring a salvage back, in a directory of that name unless another is given."""
    project = here(cwd)
    where = (to or Path(name)).absolute()
    return salvage.restore(project, name, where, branch), where


def drop(cwd: Path, name: str) -> Kept:
    return salvage.drop(here(cwd), name)


def compare(desk: Desk, cwd: Path, name: str, *, stat: bool) -> bytes:
    """What a branch, a task or an attempt has against its base, with what is not committed."""
    place = _named(desk, cwd, name)
    if place.path.is_dir():
        return difference(place, stat=stat)
    project = places.project(place.repository) if place.repository else None
    tip = repository.ref(project.common, f"refs/heads/{place.branch}") if project else None
    if project is None or tip is None or place.base is None:
        raise NotFound(f"the place of {clean(name)} is gone: {clean(str(place.path))}", hint="fleet salvage list")
    return branch_difference(project, place.base, tip, stat=stat)


def _named(desk: Desk, cwd: Path, name: str) -> Place:
    """The place that is meant: by the branch of one in this project, by a task, or by one attempt."""
    project = places.project(cwd)
    if project is not None:
        for place in places.known(_root(desk.home, project, cwd)):
            if place.branch == name:
                return place
    attempt = _attempt(desk, name)
    if attempt is None or not attempt.cwd:
        raise NotFound(f"there is no place of a branch, a task or an attempt {clean(name)!r}", hint="fleet tasks --all")
    first = desk.ledger.of(attempt.task)[0]  # what came before the first attempt is where the task began
    plain = Place(Path(attempt.cwd), attempt.branch, first.base if first.cwd == attempt.cwd else attempt.base)
    return place_of(attempt) or plain


def _attempt(desk: Desk, name: str) -> Attempt | None:
    last = desk.ledger.last_of([name]).get(name)
    if last is not None:
        return last
    try:
        return desk.ledger.get(name)
    except FleetError:
        return None


def _root(home: Path, project: Project, cwd: Path) -> Path:
    workspace = project_workspace(project.top if not project.is_bare else cwd)
    return places.root_for(home, project, workspace.worktree_root if workspace else None)


@dataclass(frozen=True, slots=True)
class Removable:
    """A place that nobody needs any more, and why."""

    place: Place
    why: str
    task: str
    size: int | None
    changed: int | None  # files that are not committed; they are saved first
    ahead: int | None


@dataclass(frozen=True, slots=True)
class Removed:
    path: str
    salvage: str | None
    branch_too: bool
    problem: str | None = None


def removable(desk: Desk, cwd: Path) -> list[Removable]:
    """The places of merged branches, of attempts that ended long ago, and what nothing knows of any more."""
    found = [(place, *_judged(desk, place, attempts)) for place, attempts in _with_attempts(desk, cwd)]
    offered = [(place, why, task) for place, why, task in found if why is not None]
    conditions = places.conditions([place for place, _, _ in offered])
    return [
        Removable(place, why, task, places.size(place.path), now.changed, now.ahead)
        for (place, why, task), now in zip(offered, conditions, strict=True)
    ]


def _with_attempts(desk: Desk, cwd: Path) -> Iterator[tuple[Place, Attempt | None]]:
    """Every place of this home, and of the project one stands in, with the last attempt that worked there."""
    by_path = _by_path(desk.ledger.last_of_each())
    roots = set((desk.home / places.PLACES).glob("*"))
    project = places.project(cwd)
    if project is not None:
        roots.add(_root(desk.home, project, cwd))
    for root in sorted(roots):
        for place in places.known(root):
            yield place, by_path.get(place.path)


def _by_path(attempts: Mapping[str, Attempt]) -> dict[Path, Attempt]:
    found: dict[Path, Attempt] = {}
    for attempt in attempts.values():
        place = place_of(attempt)
        if place is not None:
            found[place.path] = attempt
    return found


def _judged(desk: Desk, place: Place, attempt: Attempt | None) -> tuple[str | None, str]:
    """Why a place may go, or None; and whose it was."""
    if attempt is None:
        return _orphan(place), ""
    status = _status(desk, attempt.task)
    ended = attempt.ended or attempt.created
    why = judge(attempt, status, there=place.path.is_dir(), merged=_is_merged(place), ago=time.time() - ended)
    return why, attempt.task


def judge(attempt: Attempt, status: Status | None, *, there: bool, merged: bool, ago: float) -> str | None:
    """Why the place of a task may go; None as long as somebody may come back to it."""
    if attempt.verdict is None or status in (Status.OPEN, Status.IN_PROGRESS):
        return None
    if status is Status.BLOCKED and ago <= LONG:
        return None
    if not there:
        return "its directory is gone"
    if merged:
        return "its branch is merged"
    if status is None:
        return "its task is gone"
    return f"its last attempt ended {int(ago // 86400)} days ago" if ago > LONG else None


def _orphan(place: Place) -> str | None:
    if not place.path.is_dir():
        return "its directory is gone"
    said = places.record.read(place.path)
    if said is not None and not said.made:
        return "it was never finished"
    return "its branch is merged" if _is_merged(place) else "no task or attempt knows it"


def _is_merged(place: Place) -> bool:
    """Whether commits were made on the branch, and all of them are in the main repository's own."""
    project = places.project(place.repository) if place.repository else None
    tip = tip_of(place)
    return project is not None and tip is not None and tip != place.base and is_merged(project, tip)


def _status(desk: Desk, task: str) -> Status | None:
    try:
        found: Task = desk.tracker.get(task)
    except NotFound:
        return None
    return found.status


def clean_up(desk: Desk, offered: list[Removable], cap: int | None) -> Iterator[Removed]:
    """Save, then remove, each in turn; one that cannot be is said, and the others go on."""
    for one in offered:
        try:
            yield _clean(desk, one, cap)
        except FleetError as problem:
            yield Removed(str(one.place.path), None, branch_too=False, problem=problem.message)


def _clean(desk: Desk, one: Removable, cap: int | None) -> Removed:
    last = desk.ledger.last_of([one.task]).get(one.task) if one.task else None
    if last is not None and last.verdict is None:  # it began again while somebody thought about it
        raise FleetError(f"{one.task} is being worked on again")
    name = one.task or one.place.branch or one.place.path.name
    saved = salvage.save(one.place, name, cap=cap, task=one.task)
    branch_too = places.remove(one.place, saved)
    return Removed(str(one.place.path), saved.name if saved else None, branch_too)

"""Places as people see them: what is in one, what was saved of one that is gone, and which may go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fleet import places
from fleet.app.sites import find_any, open_site
from fleet.app.tasks import Desk
from fleet.config.workspace import project_workspace
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.task import Status, Task
from fleet.core.text import clean, sayable
from fleet.core.work import Attempt, PlaceKind
from fleet.evidence.ledger import Ledger
from fleet.host import files, repository
from fleet.places import Place, Project, salvage
from fleet.places.difference import Difference, branch_difference, difference, is_merged, tip_of
from fleet.places.salvage import Content, Kept, Saved
from fleet.supervisor.place import place_of

LONG = 7 * 24 * 3600.0  # seconds after which an attempt ended long ago


def here(cwd: Path) -> Project:
    """The repository that a person stands in."""
    found = places.project(cwd)
    if found is None:
        raise NotFound(f"{clean(str(cwd))} is in no git repository", hint="go to the project: cd …")
    return found


def kept(cwd: Path) -> list[tuple[Path, Kept]]:
    """What was saved in the repository that a person stands in; outside of one in all that attempts worked in."""
    return [(project.top, one) for project in _projects(cwd) for one in salvage.all(project)]


def _projects(cwd: Path) -> list[Project]:
    here = places.project(cwd)
    return known_projects(Ledger(files.home().absolute())) if here is None else [here]


def known_projects(ledger: Ledger) -> list[Project]:
    """The repositories that attempts of this home had places of, as far as they are still there."""
    tops = dict.fromkeys(one.repository for one in ledger.all() if one.repository)
    found = (places.project(Path(top)) for top in tops)
    return list({project.common: project for project in found if project is not None}.values())


def show(cwd: Path, name: str) -> Content:
    return salvage.show(*_meant(cwd, name))


def restore(cwd: Path, name: str, to: Path | None, branch: str | None) -> tuple[Kept, Path]:
    """Bring a salvage back, beside the repository unless a directory is given: in it, git would see it."""
    project, known = _meant(cwd, name)
    where = to.resolve() if to is not None else project.top.with_name(f"{project.name}-{known}")
    return salvage.restore(project, known, where, branch), where


def drop(cwd: Path, name: str) -> Kept:
    return salvage.drop(*_meant(cwd, name))


def _meant(cwd: Path, name: str) -> tuple[Project, str]:
    """The repository and which of its salvage is meant, as in `kept`: a branch may lack its prefix."""
    projects, found = _projects(cwd), []
    if not projects:
        here(cwd)  # says what is missing
    for project in projects:
        try:
            found.append((project, salvage.find(project, name, _prefix(project, cwd)).name))
        except NotFound:
            if len(projects) == 1:
                raise
    if len(found) > 1:
        where = ", ".join(clean(str(project.top)) for project, _ in found)
        raise BadConfig(f"{clean(name)} was saved in several repositories: {where}", hint="cd to one of them")
    if not found:
        raise NotFound(f"there is no salvage {clean(name)!r} in any repository of this home", hint="fleet salvage list")
    return found[0]


def _prefix(project: Project, cwd: Path) -> str:
    """What the branches of a project begin with."""
    with suppress(BadConfig):  # what was saved is there whatever became of fleet.yaml
        workspace = project_workspace(project.top if not project.is_bare else cwd)
        return workspace.branch_prefix if workspace else ""
    return ""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a place has against its base; of one that is gone, what its branch has."""

    place: Place
    there: bool
    difference: Difference


def compare(desk: Desk, cwd: Path, name: str, *, stat: bool) -> Compared:
    """What a branch, a task or an attempt has against its base, with what is not committed."""
    place = _place(desk, _attempt(desk, cwd, name))
    if place.path.is_dir():
        return Compared(place, True, difference(place, stat=stat))
    project = places.project(place.repository) if place.repository else None
    tip = repository.ref(project.common, f"refs/heads/{place.branch}") if project else None
    if project is None or tip is None or place.base is None:
        raise NotFound(f"the place of {clean(name)} is gone: {clean(str(place.path))}", hint="fleet salvage list")
    return Compared(place, False, branch_difference(project, place.base, tip, stat=stat))


def _attempt(desk: Desk, cwd: Path, name: str) -> Attempt:
    """Whom a name means, as for every other command; outside of a project by a task, or by any attempt."""
    nobody = NotFound(f"there is no branch, task or attempt {clean(name)!r} with a place", hint="fleet tasks --all")
    found = None
    if sayable(name) != name:  # nobody is called what nobody can write down
        raise nobody
    with suppress(NotFound):
        found = find_any(open_site(cwd), name)
    with suppress(FleetError):
        found = found or desk.ledger.last_of([name]).get(name) or desk.ledger.get(name)
    if found is None or not found.cwd:
        raise nobody
    return found


def _place(desk: Desk, attempt: Attempt) -> Place:
    """The place of an attempt, as it is written down or as the ledger has it."""
    known = place_of(attempt)
    if known is not None:
        return known
    first = desk.ledger.of(attempt.task)[0]  # what came before the first attempt is where the task began
    base = first.base if first.cwd == attempt.cwd else attempt.base
    whole = Path(attempt.repository) if attempt.repository else None
    return Place(Path(attempt.cwd), attempt.branch, base, attempt.place, whole)


def _root(home: Path, project: Project, cwd: Path) -> Path:
    workspace = project_workspace(project.top if not project.is_bare else cwd)
    return places.root_for(home, project, workspace.worktree_root if workspace else None)


@dataclass(frozen=True, slots=True)
class Standing:
    """A place, whether it may go, and why or why not."""

    place: Place
    may_go: bool
    why: str
    task: str = ""
    size: int | None = None
    changed: int | None = None  # files that are not committed; they are saved first
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    path: str
    salvage: str | None
    branch_too: bool
    problem: str | None = None
    hint: str | None = None


def standing(desk: Desk, cwd: Path) -> list[Standing]:
    """Every place, first those that may go: of merged branches, of attempts that ended long ago, and leftovers."""
    roots = place_roots(desk, cwd)
    found = [_judged(desk, place, attempt) for place, attempt in with_attempts(desk, roots)]
    conditions = places.conditions([one.place for one in found])
    whole = [
        replace(one, size=places.size(one.place.path), changed=now.changed, ahead=now.ahead)
        for one, now in zip(found, conditions, strict=True)
    ]
    left = [
        Standing(Place(path), True, "its removal was cut off", size=places.size(path), changed=0, ahead=0)
        for root in roots
        for path in places.leftovers(root)
    ]
    return sorted([*whole, *left], key=lambda one: not one.may_go)


def place_roots(desk: Desk, cwd: Path) -> list[Path]:
    """Where places are: in this home, and where the project one stands in wants them."""
    roots = set((desk.home / places.PLACES).glob("*"))
    project = places.project(cwd)
    if project is not None:
        with suppress(BadConfig):  # of a broken fleet.yaml the places in this home can be cleaned up all the same
            roots.add(_root(desk.home, project, cwd))
    return sorted(roots)


def with_attempts(desk: Desk, roots: Sequence[Path]) -> Iterator[tuple[Place, Attempt | None]]:
    """Every place, with the last attempt that worked there."""
    by_path = _by_path(desk.ledger.last_of_each())
    for root in roots:
        for place in places.known(root):
            yield place, by_path.get(place.path)


def _by_path(attempts: Mapping[str, Attempt]) -> dict[Path, Attempt]:
    found: dict[Path, Attempt] = {}
    for attempt in attempts.values():
        place = place_of(attempt)
        if place is not None:
            found[place.path] = attempt
    return found


def _judged(desk: Desk, place: Place, attempt: Attempt | None) -> Standing:
    if attempt is None:
        return Standing(place, True, _orphan(place))
    status = status_of(desk, attempt.task)
    ended = attempt.ended or attempt.created
    there, merged = place.path.is_dir(), _is_merged(place)
    may_go, why = judge(attempt, status, there=there, merged=merged, ago=time.time() - ended)
    return Standing(place, may_go, why, attempt.task)


def judge(attempt: Attempt, status: Status | None, *, there: bool, merged: bool, ago: float) -> tuple[bool, str]:
    """Whether the place of a task may go, and why; it stays as long as somebody may come back to it."""
    if attempt.verdict is None:
        return False, "its agent has not been ended" if attempt.interactive else "it is being worked on"
    if status in (Status.OPEN, Status.IN_PROGRESS):
        return False, "its task is not done"
    if status is Status.BLOCKED and ago <= LONG:
        return False, "its task waits for you"
    for may_go, why in ((not there, "its directory is gone"), (merged, "its branch is merged"),
                        (status is None, "its task is gone")):  # fmt: skip
        if may_go:
            return True, why
    return ago > LONG, f"its last attempt ended {days(ago)} ago"


def days(seconds: float) -> str:
    days = int(seconds // 86400)
    return "less than a day" if not days else f"{days} day{'' if days == 1 else 's'}"


def _orphan(place: Place) -> str:
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


def status_of(desk: Desk, task: str) -> Status | None:
    try:
        found: Task = desk.tracker.get(task)
    except NotFound:
        return None
    return found.status


def clean_up(desk: Desk, offered: Sequence[Standing], cap: int | None) -> Iterator[Removed]:
    """Save, then remove, each in turn; one that cannot be is said, and the others go on."""
    for one in offered:
        try:
            yield _clean(desk, one, cap)
        except FleetError as problem:
            yield Removed(str(one.place.path), None, False, problem.message, problem.hint)


def _clean(desk: Desk, one: Standing, cap: int | None) -> Removed:
    if one.place.kind is PlaceKind.INPLACE:
        places.finish(one.place.path)
        return Removed(str(one.place.path), None, branch_too=False)
    last = desk.ledger.last_of([one.task]).get(one.task) if one.task else None
    if last is not None and last.verdict is None:  # it began again while somebody thought about it
        raise FleetError(f"{one.task} is being worked on again")
    saved, branch_too = remove_place(one.place, one.task, cap)
    return Removed(str(one.place.path), saved.name if saved else None, branch_too)


def remove_place(place: Place, task: str, cap: int | None) -> tuple[Saved | None, bool]:
    """Save a place and remove it; what was saved, and whether its branch, which held nothing, went too."""
    saved = salvage.save(place, task or place.branch or place.path.name, cap=cap, task=task)
    return saved, places.remove(place, saved)

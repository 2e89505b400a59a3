"""What an attempt stands on: made once, when the first attempt in a place is prepared, and kept by those that go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fleet import places, tracker
from fleet.config.workspace import project_onto
from fleet.core import FleetError, NotFound
from fleet.core.task import Spec, Status, Task, is_cancelled
from fleet.core.text import clean
from fleet.core.work import Attempt, PlaceKind, StandsOn, Verdict
from fleet.evidence.ledger import Ledger
from fleet.evidence.receipt import load_receipt
from fleet.evidence.tree import point
from fleet.host import repository
from fleet.landing.record import Landings
from fleet.places import Place, Project
from fleet.results import (
    BASE,
    Chosen,
    Dependency,
    NoBase,
    build_base,
    choose_onto,
    choose_results,
    is_made_anew,
    no_longer,
)
from fleet.results.words import named_commit
from fleet.supervisor.choice import attempt_directory
from fleet.supervisor.house import House
from fleet.supervisor.place import Around
from fleet.tracker import Tracker

NO_BRANCH = "HEAD"  # what stands in for the branch of a directory that has none checked out


def stand(house: House, attempt: Attempt, task: Task, around: Around, earlier: Sequence[Attempt]) -> Attempt:
    """The attempt with the commit that it begins from, and with what that is made of; it is kept under a ref.

    Done again, it finds what was decided the first time. Results that cannot be brought together are a NoBase.
    """
    known = house.ledger.get(attempt.id)
    if known.fresh:
        return _as_in(attempt, known, fresh=True)
    last = next((one for one in reversed(earlier) if one.base is not None), None)
    if around.kind is PlaceKind.INPLACE:
        return _in_place(house, attempt, task, around)
    if last is not None and not is_made_anew(last, around.kind):
        return _as_in(attempt, last, fresh=False)
    if around.project is None or around.here.base is None:
        return attempt  # there can be no such place, and whoever makes it says why
    stands = on_results(house, attempt, task, around.project, _tip(around.spec, around.project, around.here))
    house.ledger.save(stands)
    return stands


def on_results(house: House, attempt: Attempt, task: Task, project: Project, tip: StandsOn) -> Attempt:
    """The attempt with a base made anew of a tip and of all that its task waits for; a ref keeps what is made."""
    chosen = choose(house.home, house.tracker, house.ledger, task, project)
    there = _landed(house, project, tip, chosen.results)
    results = [one for one in chosen.results if one not in there]
    base = build_base(project.common, tip, results, task.id)
    if results:
        point(project.common, f"{BASE}{attempt.id}", base.commit)
    onto = "" if tip.name == NO_BRANCH else tip.name
    return replace(
        attempt, base=base.commit, onto=onto, only_after=dict(chosen.only_after), fresh=True,
        stands_on=(*(replace(one, within=tip.name) for one in there), *base.stands_on),
    )  # fmt: skip


def _landed(house: House, project: Project, tip: StandsOn, results: Sequence[StandsOn]) -> list[StandsOn]:
    """The results that were landed on the branch, and are there still: as one commit of another name, perhaps."""
    landings = Landings(house.home).landed_attempts() if results else {}
    found = []
    for one in results:
        landing = landings.get(one.attempt)
        if landing is not None and (landing.repository, landing.branch) == (str(project.common), tip.name):
            commit = next(result.landed for result in landing.results if result.attempt == one.attempt)
            done = repository.ask(project.common, "merge-base", "--is-ancestor", commit, tip.commit)
            found += [one] if done.code == 0 else []
    return found


def _as_in(attempt: Attempt, known: Attempt, *, fresh: bool) -> Attempt:
    return replace(
        attempt, base=known.base, onto=known.onto, stands_on=known.stands_on, only_after=known.only_after, fresh=fresh
    )


def _tip(spec: Spec, project: Project, here: Place) -> StandsOn:
    """The tip of the branch that the task is meant for, as it is now; of a directory without a branch its commit."""
    onto = choose_onto(spec, project_onto(Path(spec.cwd)), here.branch)
    return StandsOn(NO_BRANCH, here.base or "") if onto is None else tip_of(project, onto)


def tip_of(project: Project, onto: str) -> StandsOn:
    """A branch that work is meant for, as it is now."""
    tip = repository.ref(project.common, f"refs/heads/{onto}")
    if tip is None:
        raise NotFound(
            f"there is no branch {clean(onto)} in {clean(str(project.top))}, for which the work is meant",
            hint="git branch --all",
        )
    return StandsOn(onto, tip)


def _in_place(house: House, attempt: Attempt, task: Task, around: Around) -> Attempt:
    """A directory of the user's is left as it is: what a task there waits for has to stand in it already."""
    here, cwd = around.here, around.spec.cwd
    if around.spec.onto and here.branch != around.spec.onto:
        raise FleetError(
            f"the task is meant for {clean(around.spec.onto)}, and {clean(cwd)} has {clean(here.branch or 'no branch')}"
            " checked out, where it is to work in place",
            hint="fleet add --place worktree …",
        )
    chosen = choose(house.home, house.tracker, house.ledger, task, around.project)
    if not chosen.results or around.project is None or here.base is None:
        return replace(attempt, onto=here.branch or "", only_after=dict(chosen.only_after))
    for one in chosen.results:
        if not _stands_in(house, one, cwd, here.base, around.project):
            raise NoBase(
                f"it works in place, and {clean(cwd)} does not have the result of {named_commit(one)}",
                hint=f"git -C {clean(cwd)} merge {one.branch or one.commit}, then: fleet retry {task.id}",
            )
    tip = StandsOn(here.branch or NO_BRANCH, here.base)
    results = (replace(one, within=tip.name) for one in chosen.results)
    return replace(attempt, onto=here.branch or "", stands_on=(*results, tip), only_after=dict(chosen.only_after))


def _stands_in(house: House, one: StandsOn, cwd: str, head: str, project: Project) -> bool:
    """Whether a directory has a result: it was made there, or it is in what is checked out."""
    made = house.ledger.get(one.attempt)
    if made.place is PlaceKind.INPLACE and os.path.realpath(made.cwd) == os.path.realpath(cwd):
        return True
    return repository.ask(project.common, "merge-base", "--is-ancestor", one.commit, head).code == 0


def choose(home: Path, desk: Tracker, ledger: Ledger, task: Task, project: Project | None) -> Chosen:
    """The results that a task stands on, of all that it waits for, as things are now."""
    if not task.after:
        return Chosen()
    found = dependencies(home, desk, ledger, task)
    return choose_results(found, project.common if project else None)


def dependencies(home: Path, desk: Tracker, ledger: Ledger, task: Task) -> list[Dependency]:
    """Every task that one waits for, directly or through others; what others wait for comes first."""
    tasks = _waited_for(desk, task)
    lasts = ledger.last_of([one.id for one in tasks])
    return [_dependency(home, one, lasts.get(one.id)) for one in tasks]


def _waited_for(desk: Tracker, task: Task) -> list[Task]:
    found: dict[str, Task] = {}
    order: list[Task] = []

    def visit(one: Task) -> None:
        for name in sorted(one.after, key=_by_number):
            if name not in found:
                try:
                    found[name] = desk.get(name)
                except NotFound:  # somebody removed it: then it orders nothing either
                    continue
                visit(found[name])
                order.append(found[name])

    visit(task)
    return order


def _by_number(name: str) -> tuple[int, str]:
    """t2 before t10."""
    return len(name), name


def _dependency(home: Path, task: Task, last: Attempt | None) -> Dependency:
    is_done = task.status is Status.CLOSED and not is_cancelled(task)
    if last is None or not is_done:
        return Dependency(task.id, is_done, _repository_of(home, task.id, last))
    receipt = load_receipt(attempt_directory(home, last) / "receipt.json")
    own = last.place is not PlaceKind.INPLACE
    return Dependency(
        task.id,
        repository=_repository_of(home, task.id, last),
        attempt=last.id,
        branch=(last.branch or "") if own else "",
        commit=receipt.result.landing if receipt else None,
        is_accepted=last.verdict is Verdict.ACCEPTED or last.accepted,
        proof=last.proof,
        directory="" if own else last.cwd,
    )


def _repository_of(home: Path, task: str, last: Attempt | None) -> Path | None:
    """Where git keeps what a task works on."""
    try:
        where = (last.repository or last.cwd) if last else tracker.spec.read(home, task).cwd
        found = places.project(Path(where)) if where else None
    except FleetError:
        return None
    return found.common if found else None


def outdated(home: Path, desk: Tracker, ledger: Ledger, attempt: Attempt) -> list[str]:
    """What an attempt stands on that is not its task's result any more: the task was opened again since."""
    names = [one.name for one in attempt.stands_on if one.attempt]
    if not names:
        return []
    lasts = ledger.last_of(names)
    now: dict[str, str | None] = {}
    for name in names:
        with suppress(NotFound):  # of a task that is gone nobody can tell more
            now[name] = _dependency(home, desk.get(name), lasts.get(name)).commit
    return no_longer(attempt.stands_on, now)

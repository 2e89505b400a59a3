"""Which results there are, what each is for whoever lands it, and which were landed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from fleet import places
from fleet.app.not_landed import still_landed
from fleet.app.sites import find_any, site_of
from fleet.core import FleetError, NotFound
from fleet.core.proof import Proof
from fleet.core.task import TASK_ID, Status, Task
from fleet.core.text import clean
from fleet.core.work import Attempt, State, Verdict
from fleet.evidence.receipt import Receipt, load_receipt
from fleet.landing.choose import Candidate, Standing
from fleet.places import Project
from fleet.supervisor.bases import outdated
from fleet.supervisor.house import House

WORKING = (State.STARTING, State.WORKING, State.ASKS)


def candidate_of(house: House, attempt: Attempt) -> Candidate:
    """The result of an attempt, as somebody sees it who wants it on a branch."""
    task = house.tracker.get(attempt.task)
    receipt = load_receipt(house.attempt_directory(attempt) / "receipt.json")
    if attempt.verdict is None and attempt.interactive:
        return _of_terminal(house, task, attempt)
    standing, why = judge_standing(task, attempt, receipt)
    result = receipt.result if receipt else None
    gone = outdated(house.home, house.tracker, house.ledger, attempt)
    found = _candidate(
        task, attempt, standing, why, result.landing if result else None, len(result.changes) if result else 0
    )
    return replace(found, no_longer=gone[0] if gone else "")


def judge_standing(task: Task, attempt: Attempt, receipt: Receipt | None) -> tuple[Standing, str]:
    """What an attempt's result is, and what was said of it."""
    why = attempt.reason or attempt.cause
    if attempt.verdict is None:
        return Standing.AT_WORK, ""
    if receipt is None or receipt.result.landing is None:
        return Standing.NO_RESULT, "it has left no change that git could keep"
    if attempt.accepted:
        return Standing.ACCEPTED, why
    if attempt.verdict is Verdict.CANCELLED and not attempt.interactive:
        return Standing.CANCELLED, task.reason or why
    if attempt.proof is Proof.REFUSED or (attempt.verdict is not Verdict.ACCEPTED and not attempt.interactive):
        return Standing.REFUSED, why
    return (Standing.VERIFIED if attempt.proof is Proof.VERIFIED else Standing.UNVERIFIED), why


def _of_terminal(house: House, task: Task, attempt: Attempt) -> Candidate:
    """The result of an agent in a terminal: what stands in its place now, unless it works on it."""
    from fleet.batches.look import look_at_terminal
    from fleet.batches.proof import what_stands
    from fleet.supervisor.heard import talker

    how = talker(house.find_coder, house.runtime, attempt)
    derived, _, _ = look_at_terminal(attempt, house.attempt_directory(attempt), how)
    if derived.state in WORKING:
        return _candidate(task, attempt, Standing.AT_WORK, "", None, 0)
    result = what_stands(house, attempt, keep=True)
    standing = Standing.UNVERIFIED if result.landing else Standing.NO_RESULT
    return _candidate(task, attempt, standing, result.problem or "", result.landing, len(result.changes))


def _candidate(task: Task, attempt: Attempt, standing: Standing, why: str, commit: str | None, files: int) -> Candidate:
    return Candidate(
        task=task.id,
        attempt=attempt.id,
        title=task.title,
        standing=standing,
        commit=commit or "",
        base=attempt.base or "",
        onto=attempt.onto,
        why=why,
        stands_on={one.name: one.attempt for one in attempt.stands_on if one.attempt and not one.within},
        after=task.after,
        priority=task.priority,
        files=files,
    )


def repository_of(attempt: Attempt) -> Project | None:
    """The repository of the user's that an attempt's result is kept in."""
    return places.project(Path(attempt.repository or attempt.cwd)) if attempt.repository or attempt.cwd else None


def open_results(house: House, project: Project) -> list[Candidate]:
    """Every result of a repository that was not landed yet."""
    landed = still_landed(house.home)
    tasks = {task.id: task for task in house.tracker.all()}
    found = []
    for one in house.ledger.last_of_each().values():
        task = tasks.get(one.task)
        if one.id in landed or one.verdict is None or task is None or task.status is not Status.CLOSED:
            continue
        where = repository_of(one)
        if where is not None and where.common == project.common:
            found.append(candidate_of(house, one))
    return found


def named_attempts(house: House, cwd: Path, names: Sequence[str], batch: str | None) -> list[Attempt]:
    """The attempts whose results a person means: the last one of a task, one attempt, a branch, or those of a batch."""
    found = [_named(house, cwd, name) for name in names]
    if batch is not None:
        of_batch = [one for one in house.ledger.last_of_each().values() if one.batch and fnmatchcase(one.batch, batch)]
        if not of_batch:
            raise NotFound(f"no batch is called {clean(batch)}", hint="fleet list")
        found += of_batch
    return list({one.id: one for one in found}.values())


def _named(house: House, cwd: Path, name: str) -> Attempt:
    if TASK_ID.match(name):
        with suppress(FleetError):
            return house.ledger.get(name)
        if known := house.ledger.of(name):
            return known[-1]
    with suppress(NotFound):
        task = house.tracker.get(name) if TASK_ID.match(name) else None
        if task is not None:
            raise FleetError(f"nobody has worked on {task.id} yet", hint=f"fleet show {task.id}")
    nobody = NotFound(f"there is no task, attempt or branch {clean(name)!r} with a result", hint="fleet tasks --all")
    project = places.project(cwd)
    if project is None:
        raise nobody
    try:
        return find_any(site_of(house, project), name)
    except NotFound:
        raise nobody from None

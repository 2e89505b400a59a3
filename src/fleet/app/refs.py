"""What git keeps of attempts, under refs/fleet: which of it may go, and that it was let go is written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleet import places
from fleet.app.places import days, status_of
from fleet.app.tasks import Desk
from fleet.core import FleetError
from fleet.core.task import Status
from fleet.core.work import Attempt, Verdict
from fleet.evidence.tree import FOUND, LANDING
from fleet.host import repository
from fleet.results import BASE
from fleet.supervisor.place import REPLACED


@dataclass(frozen=True, slots=True)
class Ref:
    """One ref of an attempt, whether it may go, and why or why not."""

    repository: Path  # where git keeps its things
    ref: str
    commit: str
    task: str
    attempt: str
    may_go: bool
    why: str


@dataclass(frozen=True, slots=True)
class LetGo:
    repository: str
    ref: str
    commit: str
    problem: str | None = None
    hint: str | None = None


def kept(desk: Desk, longest: float) -> list[Ref]:
    """The refs of this home's attempts in every repository, first those that may go; other homes' are theirs."""
    attempts = {one.id: one for one in desk.ledger.all()}
    tops = dict.fromkeys(one.repository or one.cwd for one in attempts.values() if one.began_tree)
    projects = [places.project(Path(top)) for top in tops]
    found = [
        _judged(desk, common, name, commit, attempts[_attempt(name)], longest)
        for common in dict.fromkeys(one.common for one in projects if one is not None)
        for name, commit in repository.refs(common, "refs/fleet/")
        if name.startswith((FOUND, LANDING, BASE, REPLACED)) and _attempt(name) in attempts
    ]
    return sorted(found, key=lambda one: not one.may_go)


def _attempt(ref: str) -> str:
    return ref.rpartition("/")[2]


def _judged(desk: Desk, common: Path, name: str, commit: str, attempt: Attempt, longest: float) -> Ref:
    ago = time.time() - (attempt.ended or attempt.created)
    landed = partial(_is_landed, common, commit) if name.startswith(LANDING) else lambda: True
    may_go, why = judge(attempt, status_of(desk, attempt.task), ago=ago, longest=longest, landed=landed)
    return Ref(common, name, commit, attempt.task, attempt.id, may_go, why)


def judge(
    attempt: Attempt, status: Status | None, *, ago: float, longest: float, landed: Callable[[], bool]
) -> tuple[bool, str]:
    """Whether a ref of an attempt may go, and why; what a task was done by stays until a branch has it."""
    if attempt.verdict is None:
        return False, "it is being worked on"
    if status not in (Status.CLOSED, None):
        return False, "its task is not done"
    if ago >= longest and attempt.verdict is Verdict.ACCEPTED and not landed():
        return False, "its task is done by it, and no branch has its commit"
    return ago >= longest, f"its attempt ended {days(ago)} ago"


def _is_landed(common: Path, commit: str) -> bool:
    asked = ("--count=1", "--format=%(refname)", "--contains", commit, "refs/heads/", "refs/remotes/")
    done = repository.ask(common, "for-each-ref", *asked)
    return done.code == 0 and bool(done.out.strip())


def let_go(desk: Desk, offered: Sequence[Ref]) -> Iterator[LetGo]:
    """Remove each in turn; one that cannot be is said, and the others go on."""
    for one in offered:
        try:
            _remove(desk, one)
            yield LetGo(str(one.repository), one.ref, one.commit)
        except FleetError as problem:
            yield LetGo(str(one.repository), one.ref, one.commit, problem.message, problem.hint)


def _remove(desk: Desk, one: Ref) -> None:
    """The ledger knows of it first: of a ref that went without, somebody else did it."""
    last = desk.ledger.last_of([one.task]).get(one.task)
    if last is not None and last.verdict is None:  # it began again while somebody thought about it
        raise FleetError(f"{one.task} is being worked on again")
    desk.ledger.let_go(one.attempt, one.ref, time.time())
    repository.do(one.repository, "update-ref", "-d", one.ref, one.commit, what=f"{one.ref} cannot be removed")

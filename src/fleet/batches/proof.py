"""What the evidence says of the work of an agent in a terminal: as it left it, and as it stands now."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleet import keeper, places
from fleet.core.frozen import dataclass
from fleet.core.proof import Proof
from fleet.core.work import Attempt
from fleet.evidence.receipt import Check, Process, Receipt, Result
from fleet.host import repository
from fleet.supervisor.house import House
from fleet.supervisor.result import look_at, nothing
from fleet.supervisor.trees import demands_of
from fleet.supervisor.verdict import Facts, prove

GONE, NOT_BEGUN = "its place is gone", "its agent has not begun"
NO_CHECKS = "nothing was given to check it with: add `checks:` to fleet.yaml"
TRIES = 3  # an agent at work may remove what was just seen


@dataclass(frozen=True, slots=True)
class Now:
    """What stands in the place of an agent that nobody has ended, judged as its receipt would be. It is none."""

    attempt: Attempt
    at: float
    alive: bool
    tip: str | None  # of its branch in the user's repository; a clone's own is not there yet
    result: Result
    checks: tuple[Check, ...]
    proof: Proof
    reason: str

    @property
    def holds(self) -> bool:
        return self.proof is not Proof.REFUSED


def proven(attempt: Attempt, result: Result, checks: Sequence[Check] = ()) -> tuple[Proof, str]:
    """What its result proves, and why in one sentence. Nobody waits for checks who ends an agent: that they were not
    run is not held against it. Whether it called a tool is not asked, since a person may have worked in its place.
    """
    asked = demands_of(attempt)
    unrun = NO_CHECKS
    if asked.checks:
        unrun = f"its checks were not run yet: fleet verify {shlex.quote(attempt.branch or attempt.task)} --run"
    lost = next((one for one in checks if one.lost), None)
    if lost is not None:
        checks, unrun = (), f"its check could not be run: {lost.cause}"
    return prove(Facts(Process("ended"), result, tuple(checks), demands=asked, unrun=unrun))


def what_stands(house: House, attempt: Attempt, *, keep: bool) -> Result:
    """What stands in its place; kept as the commit that would land, unless the agent goes on."""
    if attempt.started is None or not Path(attempt.cwd).is_dir():
        return replace(nothing(attempt), problem=GONE if attempt.started else NOT_BEGUN)
    return look_at(house, attempt, [], keep=keep)


def now(house: House, attempt: Attempt, *, run: bool) -> Now:
    """Judge what stands in the place at this moment. Nothing is written there, and no ref is made."""
    alive, at = keeper.is_alive(house.attempt_directory(attempt)), house.now()
    result = what_stands(house, attempt, keep=False)
    for _ in range(TRIES - 1 if alive else 0):
        if result.problem is not None:
            result = what_stands(house, attempt, keep=False)
    checks: tuple[Check, ...] = ()
    if run and result.tree is not None:
        from fleet.supervisor.verify import check_again

        checks = tuple(check_again(house, Receipt(attempt, Process("running"), result)))
    return Now(attempt, at, alive, _tip(attempt), result, checks, *proven(attempt, result, checks))


def _tip(attempt: Attempt) -> str | None:
    project = places.project(Path(attempt.repository))
    return repository.ref(project.common, f"refs/heads/{attempt.branch}") if project else None

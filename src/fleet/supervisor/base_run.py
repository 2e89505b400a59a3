"""Before the first agent of a task: its checks are run on what it begins with, once for all tasks that begin there.

A check that cannot start holds the task; of one that is red already its agent is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from fleet import keeper
from fleet.core import FleetError, NotFound
from fleet.core.frozen import dataclass
from fleet.core.proof import CheckSpec
from fleet.core.task import Status
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending
from fleet.evidence.cannot_start import Missing, Surroundings, missing, need_for, obstacle
from fleet.evidence.check_runs import CheckRuns
from fleet.evidence.receipt import Check, Result
from fleet.evidence.report import check_name
from fleet.evidence.tree import look_into
from fleet.host import repository
from fleet.places import Ground
from fleet.supervisor.aside import aside, at_leisure
from fleet.supervisor.choice import LOCK
from fleet.supervisor.house import House
from fleet.supervisor.trees import demands_of
from fleet.supervisor.verify import Run, end_checks, key_of, run_check, where_of

MAX_WAIT_S = 60.0  # for which an agent does not begin; then the checks go on beside it
LOOK_S = {"local": 0.5, "beads": 10.0}  # how often somebody looks meanwhile whether the task is still wanted
DIRECTORY = "base_checks"
BASE = "a clean checkout of what it began with"
ID_CHARS = 20  # of a run's key, that name its directory
MAX_RED_CHARS = 2000
LENDERS = {".venv": "bin", "venv": "bin", "env": "bin", "node_modules": ".bin"}
ATTEMPTS = "tasks/*/attempts/*"


@dataclass(frozen=True, slots=True)
class BaseRun:
    """What one check said of what an attempt began with; and why it could not start, if it could not."""

    check: Check
    obstacle: str = ""


class BaseRuns:
    """The runs of this supervisor: one for each check and tree at a time, however many attempts wait for it."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._store = CheckRuns(house.home)
        self._shared: dict[str, asyncio.Task[BaseRun]] = {}
        self._of_attempts: dict[str, asyncio.Task[list[BaseRun]]] = {}
        self._clearing: asyncio.Future[None] | None = None  # of what an earlier supervisor left

    async def wait(self, attempt: Attempt) -> bool:
        """Have the checks run, and wait for them, but not long; whether the task is still wanted then."""
        if not await aside(self._is_due, attempt):
            return True
        if self._clearing is None:
            self._clearing = asyncio.ensure_future(at_leisure(partial(clear_base_runs, self._house.home)))
        await asyncio.shield(self._clearing)
        runs = self._of_attempts[attempt.id] = asyncio.create_task(self._run_all(attempt))
        look_s = LOOK_S.get(self._house.tracker.name, 2.0)
        return await wait_for(runs, MAX_WAIT_S, look_s, partial(aside, self._is_wanted, attempt))

    def seen(self, attempt: Attempt) -> Attempt:
        """The attempt with what is known by now: it is held, or what was red is noted."""
        known = self._known(attempt.id)  # of an attempt that was taken over nothing, and what was noted stays
        return judged(attempt, known) if known and attempt.ending is None else attempt

    def checks(self, attempt: str) -> list[Check]:
        """What is known by now, as its receipt has it."""
        return [run.check for run in self._known(attempt)]

    def _known(self, attempt: str) -> list[BaseRun]:
        runs = self._of_attempts.get(attempt)
        return runs.result() if runs is not None and runs.done() and not runs.cancelled() else []

    def forget(self, attempt: str) -> None:
        """Nobody wants to know any more for this attempt; a run goes on for those that come."""
        runs = self._of_attempts.pop(attempt, None)
        if runs is not None:
            runs.cancel()

    def end(self) -> None:
        """End what runs: whoever supervises next runs it anew."""
        if self._shared:
            for directory in (self._house.home / DIRECTORY).glob(f"{ATTEMPTS}/check*"):
                with suppress(OSError):
                    keeper.abort(directory)

    def _is_due(self, attempt: Attempt) -> bool:
        """Whether no agent of the task has worked on it yet, since a person last opened it."""
        if attempt.base_tree is None or not _wanted_checks(attempt):
            return False
        hold = keeper.adopt(self._house.attempt_directory(attempt))
        if hold is not None:  # an earlier supervisor started its agent, and had no time to write it down
            hold.close()
            return False
        return all(one.started is None or one.forgiven for one in self._house.earlier(attempt))

    def _is_wanted(self, attempt: Attempt) -> bool:
        with suppress(NotFound):
            return self._house.tracker.get(attempt.task).status is not Status.CLOSED
        return False

    async def _run_all(self, attempt: Attempt) -> list[BaseRun]:
        """Every check in turn, up to the first that cannot start. What could not be looked at says nothing."""
        found: list[BaseRun] = []
        for spec in _wanted_checks(attempt):
            try:
                found.append(await self._run(attempt, spec))
            except (FleetError, OSError) as problem:
                facts = {"attempt": attempt.id, "text": clean(str(problem), 500)}
                self._house.log.say("base not checked", task=attempt.task, level="warning", **facts)
                continue
            if found[-1].obstacle:
                break
        return found

    async def _run(self, attempt: Attempt, spec: CheckSpec) -> BaseRun:
        ground, inner = await aside(where_of, attempt)
        key = await aside(key_of, self._house, ground, inner, attempt.base_tree or "", spec)
        if key not in self._shared:
            self._shared[key] = asyncio.create_task(self._find_or_run(attempt, spec, key))
            self._shared[key].add_done_callback(lambda _: self._shared.pop(key, None))
        run = await asyncio.shield(self._shared[key])
        if not run.obstacle:
            return run
        return replace(run, obstacle=await at_leisure(partial(obstacle_of, attempt, ground, inner, spec, run.check)))

    async def _find_or_run(self, attempt: Attempt, spec: CheckSpec, key: str) -> BaseRun:
        """What the check says: by the store, or run now and kept there, unless it could not start."""
        known = await aside(self._store.find, key)
        if known is not None:
            return BaseRun(known)
        run = BaseRun(await self._run_here(attempt, spec, key))
        if is_red(run):
            ground, inner = await aside(where_of, attempt)
            why = await at_leisure(partial(obstacle_of, attempt, ground, inner, spec, run.check))
            run = replace(run, obstacle=why)
        if not run.obstacle and (run.check.passed or is_red(run)):
            await aside(self._store.keep, key, run.check)
        return run

    async def _run_here(self, attempt: Attempt, spec: CheckSpec, key: str) -> Check:
        """One check, run in a home of its own inside ours, as if it were of an attempt of that name."""
        house, name = self._house, key[:ID_CHARS]
        apart = replace(house, home=house.home / DIRECTORY, also_hidden=(house.home,), lock=house.home / LOCK)
        alone = replace(attempt, id=name, task=name, number=1, checks=0)
        result = Result(attempt.base, attempt.base, [], [], None, None, tree=attempt.base_tree)
        house.log.say("base check begun", task=attempt.task, attempt=attempt.id, check=clean(spec.name or spec.run))
        try:
            check, _ = await run_check(apart, alone, result, Run(spec, BASE, 1), lambda known: None)
        finally:
            await at_leisure(partial(_end, apart, alone))
        house.log.say(
            "base checked", task=attempt.task, attempt=attempt.id, check=clean(spec.name or spec.run),
            passed=check.passed, cause=check.cause, seconds=check.seconds,
        )  # fmt: skip
        return check


async def wait_for(
    runs: asyncio.Task[list[BaseRun]], max_wait_s: float, look_s: float, is_wanted: Callable[[], Awaitable[bool]]
) -> bool:
    """Wait for runs, but not long: what is not done then goes on; False as soon as nobody wants them any more."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + max_wait_s
    while not runs.done() and (left := deadline - clock()) > 0:
        await asyncio.wait({runs}, timeout=min(left, look_s))
        if not runs.done() and not await is_wanted():
            return False
    return True


def judged(attempt: Attempt, runs: Sequence[BaseRun]) -> Attempt:
    """The attempt with what its checks said of what it began with."""
    for run in runs:
        if run.obstacle:
            which = check_name(run.check) if run.check.name else "the check"
            cause = f"{which} cannot start in a clean checkout: {run.obstacle}"
            return replace(attempt, ending=Ending.HELD, cause=cause)
    red = [f"{check_name(run.check)} failed: {run.check.failure or run.check.cause}" for run in runs if is_red(run)]
    return replace(attempt, red_before=clean("; ".join(red), MAX_RED_CHARS))


def is_red(run: BaseRun) -> bool:
    """Whether a check ran and failed; one that was cut off, or never ran, says nothing."""
    return not run.check.passed and not run.check.lost and run.check.seconds is not None


def clear_base_runs(home: Path) -> None:
    """End and remove what a supervisor left that was killed."""
    for directory in (home / DIRECTORY).glob(f"{ATTEMPTS}/check*"):
        keeper.abort(directory)
        keeper.rouse(directory, finally_end=True)
    with suppress(FleetError):
        repository.remove_tree(home / DIRECTORY)


def _wanted_checks(attempt: Attempt) -> list[CheckSpec]:
    return [one for one in demands_of(attempt).checks if one.before]


def _end(house: House, attempt: Attempt) -> None:
    end_checks(house, attempt)
    with suppress(FleetError):
        repository.remove_tree(house.task_directory(attempt.task))


def obstacle_of(attempt: Attempt, ground: Ground, inner: PurePosixPath, spec: CheckSpec, check: Check) -> str:
    """Why a check that failed could not start; empty when it could, or when the task could mend it."""
    found = missing(check.code, check.tail)
    if found is None or check.counts:
        return ""
    with look_into(ground.repository, ground.main / "objects") as trees:
        names = trees.names(attempt.base_tree or "")
    around = _surroundings(ground, inner, spec, found, names)
    return clean(obstacle(found, around, task=attempt.task, project=str(ground.top)), 1000)


def _surroundings(
    ground: Ground, inner: PurePosixPath, spec: CheckSpec, found: Missing, names: Sequence[str]
) -> Surroundings:
    lender = next((one for one in LENDERS if _lends(ground, one, found)), "")
    path = _normal(inner / found.name)
    if found.interpreter or "/" not in found.name:
        is_in_tree = any(found.name in (PurePosixPath(name).stem, *PurePosixPath(name).parts) for name in names)
        return Surroundings(is_in_tree, lender="" if lender in spec.needs else lender)
    if path is None:
        return Surroundings()
    ignored = _ignored(ground, path)
    need = need_for(path, ignored, names)
    is_there = (ground.top / need).exists()
    return Surroundings(path in names, bool(ignored), need, need in spec.needs, is_there)


def _normal(path: PurePosixPath) -> str | None:
    """A path from the top of the repository; None when it leads out."""
    steps: list[str] = []
    for step in path.parts:
        if step == "/" or (step == ".." and not steps):
            return None
        steps.pop() if step == ".." else steps.append(step)
    return "/".join(steps)


def _lends(ground: Ground, directory: str, found: Missing) -> bool:
    """Whether a directory that git ignores has a program of this name."""
    program = ground.top / directory / LENDERS[directory] / found.name
    return program.exists() and bool(_ignored(ground, str(program.relative_to(ground.top))))


def _ignored(ground: Ground, path: str) -> list[str]:
    """Of a path and the directories above it, those that git ignores in the project's own working tree."""
    steps = PurePosixPath(path).parts
    asked = ["/".join(steps[: count + 1]) + ("/" if count + 1 < len(steps) else "") for count in range(len(steps))]
    stdin = b"".join(one.encode(errors="surrogateescape") + b"\0" for one in asked)
    where = f"--work-tree={ground.top}"
    done = repository.ask(ground.main, where, "check-ignore", "-z", "--stdin", stdin=stdin, cwd=ground.top)
    return [one.rstrip("/") for one in done.out.decode(errors="surrogateescape").split("\0") if one]

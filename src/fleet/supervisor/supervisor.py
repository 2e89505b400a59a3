"""The supervisor: claims what is ready, carries it through, and lets go of it in order when it is told to stop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import uuid4

from fleet import tracker
from fleet.core import FleetError, NotFound
from fleet.core.task import Spec, Status, Task
from fleet.core.work import Attempt
from fleet.engine.base import Engine
from fleet.gates import Closed
from fleet.supervisor.admit import Admitted, Candidate, admit
from fleet.supervisor.aside import aside, widen
from fleet.supervisor.attempts import Attempts
from fleet.supervisor.choice import choose, where
from fleet.supervisor.heard import watch
from fleet.supervisor.house import House
from fleet.supervisor.rules import rules
from fleet.supervisor.verify import clear

LOOK_EVERY = {"local": 5.0, "beads": 15.0}  # people ring when they add something; bd takes a second a call
LOOK_SECONDS = 2.0
AT_LEAST = {"local": 4, "beads": 20}  # ready tasks that are looked at, beside two for each free slot
LEAST_PAUSE = 0.05
LET_GO = 2.0
TIDY_EVERY = 3600.0
FIRST_TIDY = 5.0  # while the engine is awake anyway
WATCH_EVERY = 5.0

Launch = Callable[[Attempts], Engine]


class Mode(Enum):
    """How long to go on: until stopped, for one pass, or until nothing is ready or running."""

    FOREVER = "forever"
    ONCE = "once"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at the queue found: who may start, and how long until somebody else may."""

    chosen: list[Candidate]
    waiting: int
    soonest: float
    closed: Closed | None = None  # what holds back everybody
    held: Mapping[str, Closed] = field(default_factory=dict)  # tasks that wait until a person has mended something


class Supervisor:
    """One a home. Nothing it knows is only in its memory: killing it loses nothing."""

    def __init__(self, house: House, launch: Launch, mode: Mode, cannot_go_on: Callable[[str], None]) -> None:
        if house.tracker.name != "local":
            widen()
        self._house = house
        self._mode = mode
        self._attempts = Attempts(house, self._over, cannot_go_on)
        self._launch = launch
        self._running: dict[str, Attempt] = {}
        self._carried: set[str] = set()  # the engine has them, or has had them
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hindrance = ""
        self._held = ""  # what was said last of tasks that are held
        self.left_held: Mapping[str, Closed] = {}  # tasks, when it came to its end
        self._tidy_at = asyncio.get_running_loop().time() + FIRST_TIDY
        self._watch_at = 0.0
        self._failing = False
        self._complaint = ""
        self._passed = False  # the one pass of --once has been made

    # ---- from outside

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> bool:
        """Claim nothing more and let go; True when this was the first time of asking."""
        first = not self._stopping.is_set()
        self._stopping.set()
        self._woken.set()
        return first

    async def run(self) -> None:
        engine = self._launch(self._attempts)
        while not self._stopping.is_set() and not await self._tried(self._take_over(engine)):
            await _first_of(self._stopping.wait(), LOOK_SECONDS)
        while not self._stopping.is_set():
            self._woken.clear()
            looked = None if self._passed else await self._pass(engine)
            if self._is_done(looked):
                self._attempts.leave()
                return
            await _first_of(self._woken.wait(), looked.soonest if looked else LOOK_SECONDS)
        await self._let_go()

    # ---- taking over what an earlier supervisor left

    async def _take_over(self, engine: Engine) -> None:
        """Go on with every attempt that was begun, and free every task whose claim came to nothing."""
        unsettled = {attempt.id: attempt for attempt in await aside(self._house.ledger.unsettled)}
        interrupted = await engine.interrupted()
        found = [await aside(self._house.ledger.get, name) for name in interrupted - unsettled.keys()]
        await aside(clear, self._house, unsettled.keys())
        for attempt in [*unsettled.values(), *found]:
            if attempt.id not in self._carried:  # else this is not the first time of asking
                self._running[attempt.id] = attempt
                self._house.log.say("took over", task=attempt.task, attempt=attempt.id)
        await self._reconcile(engine)

    async def _reconcile(self, engine: Engine) -> None:
        """Start what was written down and not started, and free what was claimed and not written down.

        Done at first, and again after every failure: a call may fail and have been done all the same.
        """
        for attempt in await aside(self._house.ledger.unsettled):
            if attempt.id not in self._carried:
                self._running[attempt.id] = attempt
        for name in self._running.keys() - self._carried:
            await self._carry(engine, name)
        await self._free_claims()

    async def _carry(self, engine: Engine, name: str) -> None:
        await engine.start(name)
        self._carried.add(name)

    async def _free_claims(self) -> None:
        busy = {attempt.task for attempt in self._running.values()}
        for task in await aside(self._house.tracker.unfinished):
            if is_stranded(task, busy, self._house.actor):
                await aside(self._house.tracker.release, task.id, "its claim came to nothing")
                self._house.log.say("claim freed", task=task.id)

    # ---- one pass

    async def _pass(self, engine: Engine) -> Looked | None:
        """Start what may start. A tracker that fails is reported and asked again later; it ends nothing."""
        self._refresh()
        try:
            await self._tidy(engine)
            await self._watch()
            if self._failing:
                await self._reconcile(engine)
                self._failing = False
            if self._stopping.is_set() or len(self._running) >= self._house.runtime.max_concurrent:
                return None
            looked = await aside(self._look)
            self._report(looked.closed)
            for candidate in looked.chosen:
                if self._stopping.is_set():
                    break
                await self._begin(engine, candidate)
        except (FleetError, OSError) as problem:
            self._complain(problem if isinstance(problem, FleetError) else FleetError(str(problem)))
            return None
        self._failing = False
        self._complaint = ""
        self._passed = self._mode is Mode.ONCE
        return looked

    async def _tidy(self, engine: Engine) -> None:
        """Once an hour, let the engine forget what is long over."""
        now = asyncio.get_running_loop().time()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_EVERY
            await engine.forget()

    async def _watch(self) -> None:
        """Every few seconds, look after the agents that people talk to: their limits are kept too."""
        now = asyncio.get_running_loop().time()
        if now >= self._watch_at:
            self._watch_at = now + WATCH_EVERY
            await aside(watch, self._house)

    def _refresh(self) -> None:
        change = self._house.settings.refresh()
        if change.problem is not None:
            self._house.log.say("settings not taken", level="warning", text=change.problem.message)
        elif change.changed:
            self._house.log.say("settings taken", max_concurrent=change.after.max_concurrent)

    def _report(self, closed: Closed | None) -> None:
        """Say what holds back everybody, when that changes."""
        hindrance = closed.cause if closed else ""
        if hindrance != self._hindrance:
            self._hindrance = hindrance
            self._house.log.say(
                "claims stopped" if hindrance else "claims go on", level="warning", cause=hindrance or None
            )

    def _report_held(self, held: Mapping[str, Closed], *, is_last: bool) -> None:
        """Say which tasks wait for a person, when that changes; at the end it is said anyway."""
        said = sums_of_held(held)
        if said and said != self._held and not is_last:
            self._house.log.say("tasks held", level="warning", text=said, tasks=" ".join(held))
        self._held = said

    def _look(self) -> Looked:
        """Ask the tracker what is ready, in growing bites until enough is found that may start."""
        house, now = self._house, self._house.now()
        running = [self._attempts.current.get(name, attempt) for name, attempt in list(self._running.items())]
        runtime = house.runtime
        free = runtime.max_concurrent - len(running)
        limit = AT_LEAST.get(house.tracker.name, 20) + 2 * free
        law, before = rules(house.home, runtime, now), 0
        while True:
            tasks = house.tracker.ready(limit, runtime.ageing)
            found = admit(self._candidates(tasks), running, law, now)
            chosen = len(found.chosen)
            if chosen >= free or 0 < chosen == before or law.closed or len(tasks) < limit:
                break  # there is no room for more, or a larger bite brought nobody more, or that was all
            before, limit = chosen, limit * 4
        busy = {attempt.task for attempt in running} & {task.id for task in tasks}  # open again, and about to be let go
        waiting = len(found.chosen) + len(found.waiting) + len(busy)
        held = {name: closed for name, closed in found.waiting.items() if closed.cure}
        barred = {one.coder for ones in law.accounts.values() for one in ones if one.cure}
        if not barred & {attempt.coder for attempt in running}:  # else it is not known yet who is held
            self._report_held(held, is_last=self._mode is Mode.DRAIN and not running)
        return Looked(found.chosen, waiting, self._soonest(found, now), law.closed, held)

    def _soonest(self, found: Admitted, now: float) -> float:
        """Seconds until somebody who waits now may be let in, as far as that is known."""
        known = [closed.until - now for closed in found.waiting.values() if closed.until is not None]
        usual = LOOK_EVERY.get(self._house.tracker.name, LOOK_SECONDS)
        return max(LEAST_PAUSE, min([*known, usual]))

    def _spec(self, task: Task) -> Spec | None:
        """How a task is to be worked on. Without one it is claimed all the same, and fails with the reason."""
        try:
            return tracker.spec.read(self._house.home, task.id)
        except FleetError:
            return None

    def _candidates(self, tasks: Sequence[Task]) -> Iterator[Candidate]:
        """The tasks that are ours to work on, each looked up when its turn comes: often there is room for one."""
        lasts = self._house.ledger.last_of([task.id for task in tasks])
        for task in tasks:
            spec = self._spec(task)
            if is_talked_to(spec):
                continue
            choice = choose(spec, self._house.coder, self._house.runtime)
            last = lasts.get(task.id)
            yield Candidate(
                task, choice.coder, choice.model, last, choice.own_coder, choice.own_model,
                where(spec), choice.account,
            )  # fmt: skip

    async def _begin(self, engine: Engine, candidate: Candidate) -> None:
        """Claim one task and begin an attempt at it: first the tracker, then the ledger, then the engine."""
        task = candidate.task.id
        attempt = await aside(self._claim, candidate)
        if attempt is None:
            return
        self._running[attempt.id] = attempt
        self._attempts.current[attempt.id] = attempt
        self._house.log.say(
            "claimed",
            task=task,
            attempt=attempt.id,
            coder=attempt.coder,
            model=attempt.model,
            account=attempt.account or None,
        )
        await self._carry(engine, attempt.id)

    def _claim(self, candidate: Candidate) -> Attempt | None:
        house = self._house
        try:
            if not house.tracker.claim(candidate.task.id, house.actor):
                return None
        except NotFound:
            return None
        first = Attempt(
            id="",
            task=candidate.task.id,
            number=0,
            coder=candidate.coder,
            model=candidate.model,
            cwd=candidate.cwd or "",
            actor=house.actor,
            created=house.now(),
            own_coder=candidate.own_coder,
            own_model=candidate.own_model,
            account=candidate.account or "",
            nonce=str(uuid4()),
        )
        return house.ledger.begin(first)

    def _over(self, name: str) -> None:
        self._running.pop(name, None)
        self._carried.add(name)  # even one that we had not heard of: it is never to be carried again
        self._woken.set()

    async def _tried(self, something: Awaitable[None]) -> bool:
        """Whether it could be done; what failed is said, and tried again later."""
        try:
            await something
        except FleetError as problem:
            self._complain(problem)
            return False
        return True

    def _complain(self, problem: FleetError) -> None:
        """Say what fails: once, however long it goes on."""
        if not self._failing or problem.message != self._complaint:
            self._house.log.say("tracker failed", level="error", text=problem.message)
        self._failing, self._complaint = True, problem.message

    # ---- the end

    def _is_done(self, looked: Looked | None) -> bool:
        if self._running or self._mode is Mode.FOREVER or self._failing:
            return False
        if looked is not None and looked.waiting == len(looked.held):
            self.left_held = looked.held
            return True
        return self._passed

    async def _let_go(self) -> None:
        """Let short steps come to their end; agents live on, and the next supervisor adopts them."""
        self._attempts.leave()
        clock = asyncio.get_running_loop().time
        deadline = clock() + LET_GO
        while self._attempts.settling and (left := deadline - clock()) > 0:
            self._woken.clear()
            await _first_of(self._woken.wait(), left)
        self._house.log.say("let go", agents=len(self._running))


def sums_of_held(held: Mapping[str, Closed]) -> str:
    """For each reason how many tasks are held, and what a person does about it."""
    counted = Counter((closed.cause, closed.cure) for closed in held.values())
    return "; ".join(
        f"{cause}: {count} task{' is' if count == 1 else 's are'} held. {cure}"
        for (cause, cure), count in sorted(counted.items())
    )


def is_talked_to(spec: Spec | None) -> bool:
    """Whether a person began the task in a terminal: then nobody else is to work on it."""
    return spec is not None and bool(spec.interactive)


def is_stranded(task: Task, busy: set[str], actor: str) -> bool:
    """Whether a task is claimed by an earlier supervisor of this home that never began an attempt."""
    ours = task.assignee.rpartition("-")[0] == actor.rpartition("-")[0]
    return task.status is Status.IN_PROGRESS and ours and task.id not in busy


async def _first_of(waiting: Awaitable[object], seconds: float) -> bool:
    """Wait for something, but not for ever; whether it came."""
    try:
        await asyncio.wait_for(waiting, seconds)
    except TimeoutError:
        return False
    return True

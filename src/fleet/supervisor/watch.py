"""Agents watched from outside, all of them in one look every few seconds: what each does, and what is to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import msgspec

from fleet.coders.base import ASK_GRACE
from fleet.core.life import Action, Life, LifeState, Policy
from fleet.core.liveness import Facts, Habit, Prompt, Since, Toil, assess, decide
from fleet.core.text import clean, sayable
from fleet.core.work import Attempt, Event, EventKind
from fleet.evidence import requests
from fleet.host import files
from fleet.host.vitals import Vitals, vitals
from fleet.supervisor.aside import aside, called_off
from fleet.supervisor.house import House
from fleet.supervisor.transcript import CHATTER

OFTEN, SELDOM, SLOWER = 2.0, 5.0, 1.3  # seconds between two looks; longer each time while nothing changes
SOONEST = 0.5
AWAY = 30.0  # seconds; who comes to look that late was away itself, and blames nobody
BUSY = 0.05  # of a core; below that an agent that only waits may be, too
TALK = 1024  # bytes a second, likewise
MUCH_CPU, MUCH_IO = 0.1, 65536  # of a core, bytes a second; beyond that somebody works, if it lasts
LIMITED_FOR = 600.0  # seconds that a provider is believed to let an agent wait, when it does not say for how long
LIMITED = 429
WORDS = 200  # characters
MOST_CALLS = 1000  # that have not come back and are kept in mind; no agent makes so many at once


@dataclass(frozen=True, slots=True)
class News:
    """What an agent does now, by the clock of the wall; and what is to be done about it."""

    life: Life
    action: Action


@dataclass(frozen=True, slots=True)
class Ground:
    """Where an agent's keeper writes; and how long the agent may wait for a person."""

    directory: Path
    patience: float

    @classmethod
    def of(cls, house: House, attempt: Attempt) -> Ground:
        return cls(house.attempt_directory(attempt), house.runtime.ask_wait + ASK_GRACE)


class Watched:
    """One agent: what it said, what its processes were seen to do, and what follows from both."""

    def __init__(self, attempt: Attempt, ground: Ground, policy: Policy, now: float, wall: float) -> None:
        """Its time begins `now`, which is `wall` to everybody else."""
        self.policy, self.attempt = policy, attempt.id
        self.stirred = asyncio.Event()
        self.news: News | None = None
        self.keeper: int | None = None
        self.problem = ""
        self._ground = ground
        self._offset = wall - now  # from this clock to that of the wall
        began = (attempt.started or wall) - self._offset
        dispatched = None if attempt.dispatched is None else attempt.dispatched - self._offset
        self._facts = Facts(started=min(began, now), dispatched=dispatched, heard=now)
        self._life = attempt.life and replace(attempt.life, since=attempt.life.since - self._offset)
        self._calls: dict[str, tuple[Since, str]] = {}  # that have not come back, each with the print of what was given
        self._habit, self._strangers = Habit(), count()
        self._vitals: Vitals | None = None
        self._toil = Toil()
        self._prompt: Prompt | None = None
        self._looked = now
        self._asked: str | None = None  # the call for which it asked for leave, and waits
        self._limited_until = 0.0
        self._action = Action.LEAVE

    # ---- what it says

    def hear(self, attempt: Attempt, events: Sequence[Event], now: float) -> None:
        """Take in what it said. Half a line is a sign of life too, and no event."""
        last = events[-1].kind.value if events else self._facts.last
        self._facts = replace(self._facts, heard=now, last=last)
        for event in (one for one in events if one.kind not in CHATTER):
            self._called(event, now)
            self._permitted(event, now)
            if event.window is not None and event.window.exhausted and event.window.resets is not None:
                self._limited_until = event.window.resets - self._offset
        finished = (self._facts.finished or now) if attempt.finished else None
        person = self._facts.person or Since(now, attempt.asking or "")
        begun = self._facts.dispatched if attempt.dispatched is None else attempt.dispatched - self._offset
        self._facts = replace(
            self._facts,
            dispatched=begun,
            finished=finished,
            person=person if attempt.asking else None,
            limited=self._limited(attempt, now),
        )

    def called_before(self, calls: Iterable[tuple[str, str]], now: float) -> None:
        """Calls that had not come back when an earlier supervisor went away."""
        for call, what in calls:
            self._open(call, Since(now, what), None)

    def _open(self, call: str, since: Since, given: str | None) -> None:
        if call in self._calls or len(self._calls) < MOST_CALLS:
            self._calls[call] = (since, given or f"#{next(self._strangers)}")

    def _called(self, event: Event, now: float) -> None:
        """Open and close calls, and keep in mind what each came to."""
        call = event.call or event.tool or ""
        match event.kind:
            case EventKind.TOOL_CALLED:
                what = clean(": ".join(part for part in (event.tool, event.text) if part), WORDS) or "a tool"
                self._open(call, Since(now, what), event.given)
            case EventKind.TOOL_ENDED:
                begun, given = self._calls.pop(call, (Since(now), f"#{next(self._strangers)}"))
                self._habit = self._habit.after(f"{given} {event.ok} {event.text}", now)
                repeats, since = self._habit.repeats()
                self._facts = replace(self._facts, repeats=repeats, repeated=Since(since, begun.what))
            case EventKind.RESULT:
                self._calls.clear()

    def _permitted(self, event: Event, now: float) -> None:
        """Who was not permitted something waits for a person, until it goes on with something else."""
        if event.kind is EventKind.PERMISSION:
            what = clean(": ".join(part for part in (event.tool, event.text) if part), WORDS)
            said = "it was not permitted" if event.ok is False else "it asks for leave"
            self._facts = replace(self._facts, leave=Since(now, f"{said}: {what}"))
            self._asked = event.call if event.ok is None else None
            return
        answered = self._asked is not None and event.call == self._asked
        if event.kind is EventKind.TOOL_CALLED or (event.kind is EventKind.TOOL_ENDED and (answered or event.ok)):
            self._facts = replace(self._facts, leave=None)

    def _limited(self, attempt: Attempt, now: float) -> Since | None:
        if not attempt.limited and attempt.status != LIMITED:
            self._limited_until = 0.0
            return None
        if self._limited_until <= now:
            self._limited_until = now + LIMITED_FOR
        return self._facts.limited or Since(now, attempt.error or "its provider answered 429")

    # ---- what is seen of it

    def find_keeper(self) -> int | None:
        """The process above its tree, once that is known."""
        if self.keeper is None:
            try:
                found = msgspec.json.decode(files.read(self._ground.directory / "agent.json") or b"{}")
                self.keeper = int(found["keeper"])
            except Exception:  # whatever stands there, it is no keeper's record yet
                return None
        return self.keeper

    def look(self, found: Vitals | None, files: float | None, flight: float | None, now: float) -> bool:
        """Take in what was seen of it, and when its files last changed; whether anything had changed."""
        if now - self._looked > AWAY:
            self._forgive(now)
        passed, self._looked = max(SOONEST, now - self._looked), now
        changed = self._processes(found, passed, now) | self._files(files)
        self._attend(found, flight, now)
        facts = self._facts
        if facts.person is not None and now - facts.person.at > self._ground.patience:
            facts = replace(facts, person=None)
        if facts.limited is not None and now >= self._limited_until:
            facts = replace(facts, limited=None)
        self._facts = facts
        self.judge(flight, now)
        return changed

    def judge(self, flight: float | None, now: float) -> None:
        """Say what it does now; whoever follows it is stirred when that is something new."""
        request = None if flight is None else flight - self._offset
        tools = tuple(since for since, _ in self._calls.values())
        life = assess(replace(self._facts, tools=tools, request=request), self.policy, now)
        before = self._life
        if before is not None and before.state is life.state is LifeState.WORKING:
            life = replace(life, since=before.since)
        action = decide(life, self.policy, now)
        if before is None or (replace(before, signs=()), self._action) != (replace(life, signs=()), action):
            self.news = News(replace(life, since=round(life.since + self._offset, 3)), action)
            self.stirred.set()
        self._life, self._action = life, action

    def _forgive(self, now: float) -> None:
        facts = self._facts
        self._facts = replace(
            facts,
            heard=now,
            cpu=facts.cpu and now,
            io=facts.io and now,
            files=facts.files and now,
        )
        self._prompt = None

    def _processes(self, found: Vitals | None, passed: float, now: float) -> bool:
        before, self._vitals = self._vitals, found
        if found is None:
            return False
        facts, same = self._facts, before is not None and before.reader == found.reader
        used = found.cpu - before.cpu if before else 0.0
        moved = abs((found.io or 0) - (before.io or 0)) if before else 0
        cpu = before is None or found.processes != before.processes or used >= BUSY * passed
        io = before is None or moved >= TALK * passed
        much = used >= MUCH_CPU * passed or moved >= MUCH_IO * passed
        self._toil = self._toil.after(much, passed, self.policy.quiet, now)
        self._facts = replace(
            facts,
            cpu=now if cpu else facts.cpu,
            io=None if found.io is None else now if io or facts.io is None else facts.io,
            toils=self._toil.goes_on,
        )
        if not same or self._prompt is None:
            self._prompt = found.reader and Prompt(Since(now, clean(found.reader[1], 40)))
        return cpu or io or not same

    def _attend(self, found: Vitals | None, flight: float | None, now: float) -> None:
        """Say whether it waits at a terminal. Who waits for its model at our gateway does not; where it is the model's
        turn and nobody sees that, it takes longer to be sure.
        """
        facts, prompt = self._facts, self._prompt if found is not None else None
        if prompt is not None:
            spoke = now if flight is not None else facts.heard or facts.started
            models_turn = facts.last == EventKind.TOOL_ENDED and not self._calls
            stirred = now if models_turn else max(facts.cpu or 0.0, facts.io or 0.0)
            prompt = prompt.after(self._toil, spoke, stirred, self.policy.quiet, now)
        self._prompt, self._facts = prompt, replace(facts, terminal=prompt.held if prompt else None)

    def _files(self, changed: float | None) -> bool:
        before = self._facts.files
        files = changed if changed is None or before is None else max(changed, before)
        self._facts = replace(self._facts, files=files)
        return files != before


class Watch:
    """Looks at all agents that are followed, beside the loop, for as long as there are any.

    `changed` says when the files of an attempt last changed, by the loop's clock; None when nobody sees them.
    """

    def __init__(self, house: House, changed: Callable[[str], float | None]) -> None:
        self._house = house
        self._changed = changed
        self._watched: dict[str, Watched] = {}
        self._task: asyncio.Task[None] | None = None
        self._problem = ""

    def meet(self, attempt: Attempt, policy: Policy) -> Watched:
        """Watch one more, until it is let go."""
        clock, ground = asyncio.get_running_loop().time, Ground.of(self._house, attempt)
        found = Watched(attempt, ground, policy, clock(), self._house.now())
        self._watched[attempt.id] = found
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._go_on())
        return found

    async def let_go(self, watched: Watched) -> None:
        self._watched.pop(watched.attempt, None)
        task = self._task
        if not self._watched and task is not None:
            self._task = None
            await called_off(task)

    async def _go_on(self) -> None:
        pause = OFTEN
        await asyncio.sleep(SOONEST)  # who has ended by then, as many do that fail, need not be looked at
        while self._watched:
            changed = await self._look()
            pause = OFTEN if changed else min(SELDOM, pause * SLOWER)
            await asyncio.sleep(min(pause, *(soon(one.policy) for one in self._watched.values()), SELDOM))

    async def _look(self) -> bool:
        """One look at everybody. A machine that cannot tell now is no reason to think anything of anybody."""
        everybody = list(self._watched.values())
        try:
            seen = await aside(_see, everybody, self._house.home)
        except Exception as problem:  # whatever it is, it is looked again
            self._problem = self._unseen(problem, self._problem)
            return True
        now = asyncio.get_running_loop().time()
        changed = [self._look_at(one, facts, now) for one, facts in zip(everybody, seen, strict=True)]
        return any(changed)

    def _look_at(self, one: Watched, seen: Seen, now: float) -> bool:
        try:
            return one.look(seen[0], self._changed(one.attempt), seen[1], now)
        except Exception as problem:  # of one agent's making, and all others are to be watched on
            one.problem = self._unseen(problem, one.problem, attempt=one.attempt)
            return False

    def _unseen(self, problem: Exception, before: str, **facts: str) -> str:
        """Say once why there was no look; what was said."""
        why = sayable(f"{type(problem).__name__}: {problem}")
        if why != before:
            self._house.log.say("agents not watched", level="warning", text=why, **facts)
        return why


Seen = tuple[Vitals | None, float | None]


def _see(everybody: Sequence[Watched], home: Path) -> list[Seen]:
    """What is seen of each from outside. That our gateway has no request of one says nothing: it may ask another."""
    flying = requests.flying(home)
    keepers = [one.find_keeper() for one in everybody]
    found = vitals(keeper for keeper in keepers if keeper is not None)
    return [
        (None if keeper is None else found.get(keeper), flying.get(one.attempt))
        for keeper, one in zip(keepers, everybody, strict=True)
    ]


def soon(policy: Policy) -> float:
    """How often one must look to keep a short limit."""
    return max(SOONEST, policy.quiet / 2)

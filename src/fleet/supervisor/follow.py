"""Step two, while it lasts: an agent's output is read as it comes, and becomes events and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path

from fleet import keeper
from fleet.coders.base import ASK_GRACE
from fleet.core import FleetError, Unavailable
from fleet.core.dispatch import Beginning
from fleet.core.life import BREAK_OFF, Action, LifeState
from fleet.core.work import Attempt, Ending, Event, Limits
from fleet.supervisor.aside import aside
from fleet.supervisor.asked import waits
from fleet.supervisor.begun import beginning_of, begun, hindered
from fleet.supervisor.house import House
from fleet.supervisor.limits import Reached, Spent, full, nudged, overspent, spent, stuck
from fleet.supervisor.notes import Notes
from fleet.supervisor.provider import hear
from fleet.supervisor.spending import estimated, passed
from fleet.supervisor.start import beyond_nudging
from fleet.supervisor.transcript import Transcript, fold
from fleet.supervisor.watch import News, Watch, Watched

Reader = Callable[[bytes], list[Event]]

SAVE_EVERY = 1.0
LADDER = 30.0  # seconds; a keeper needs 17 at most to end an agent


async def follow(
    house: House, attempt: Attempt, hold: keeper.Hold, know: Callable[[Attempt], None], watch: Watch
) -> None:
    """Read what the agent says until its keeper is gone. `know` is told of everything new; the ledger once a second."""
    limits = attempt.limits or house.runtime.limits
    if attempt.ending is not None:
        hold.abort()  # an earlier supervisor had decided so, and may not have come as far as to say it
    watched = watch.meet(attempt, house.runtime.liveness.with_silence(limits.silence))
    try:
        with Notes(house, attempt) as notes:
            follower = Follower(house, attempt, hold, notes, watched)
            await follower.follow(know, limits)
    finally:
        await watch.let_go(watched)


class Follower:
    """One agent as it is followed: its output becomes events and figures, and what it does decides what is done."""

    def __init__(self, house: House, attempt: Attempt, hold: keeper.Hold, notes: Notes, watched: Watched) -> None:
        self.house, self.attempt, self.hold, self.notes, self.watched = house, attempt, hold, notes, watched
        self.directory = house.attempt_directory(attempt)
        self.clock = asyncio.get_running_loop().time
        self.excused = inf
        self.earlier: list[Attempt] = []

    async def follow(self, know: Callable[[Attempt], None], limits: Limits) -> None:
        house, clock = self.house, self.clock
        self.earlier, read, before, beginning = await aside(_known, house, self.attempt)
        overdue = Overdue(house, self.attempt, self.directory, clock() + limits.timeout)
        self.watched.called_before(self.notes.unreturned() if self.attempt.offset else (), clock())
        saved, known, over = 0.0, self.attempt, False
        with Transcript(self.directory / "stdout", self.attempt.offset) as transcript:
            while not over:
                due = min(overdue.at, saved + SAVE_EVERY if self.attempt is not known else overdue.at)
                news, reached = await heard(self.hold, due - clock(), self.watched.stirred), transcript.reach
                over = news is False
                if news is None and clock() >= overdue.at:
                    await overdue.rouse(clock())
                for piece in transcript.lines(last=over):
                    await self._digest(read, piece, beginning, before)
                    know(self.attempt)
                if news or transcript.reach != reached:
                    self.watched.hear(self.attempt, (), clock())
                    self.excused = inf
                if self.watched.news is not None and not over:
                    await self._live(limits)
                    know(self.attempt)
                if over:
                    self.attempt = await aside(hindered, self.attempt, self.directory, self.hold.exit)
                    self._note_hindrance()
                    know(self.attempt)
                if self.attempt is not known and (over or clock() - saved >= SAVE_EVERY):
                    saved, known = clock(), self.attempt
                    with suppress(Unavailable):  # figures only: they are saved again, and the transcript has them
                        await aside(house.ledger.save, self.attempt)

    async def _digest(self, read: Reader, piece: list[tuple[bytes, int]], beginning: Beginning, before: Spent) -> None:
        """Take in some lines, and end an agent that has reached a limit with them."""
        house, was = self.house, self.attempt
        self.attempt, events = await aside(_digest, house, was, read, piece, self.notes, beginning)
        self.watched.hear(self.attempt, events, self.clock())
        if was.dispatched is None and self.attempt.dispatched is not None:
            self.attempt = replace(self.attempt, hindrance=None, seen="")
            self.watched.judge(None, self.clock())
        self.attempt = await _keep_within(
            house, self.attempt, self.hold, await aside(_reached, house, self.attempt, before)
        )

    async def _live(self, limits: Limits) -> None:
        """Write down what the agent does now, and do what is to be done about it."""
        news, self.watched.news = self.watched.news, None
        assert news is not None
        self.watched.stirred.clear()
        if news.action is Action.NUDGE and news.life.state is not LifeState.LINGERING:
            news = await aside(_fitting, self.house, self.attempt, self.earlier, news)
        life, was = news.life, self.attempt.life
        asks = news.action is Action.ASK
        if asks and not (self.attempt.needs_you and was is not None and was.state is life.state):
            facts = {"attempt": self.attempt.id, "state": life.state, "text": life.why}
            self.house.log.say("needs you", task=self.attempt.task, level="warning", **facts)
        self.attempt = replace(self.attempt, life=life, needs_you=asks)
        if was is None or was.state is not life.state:
            record: dict[str, object] = {"kind": "life_changed", "state": life.state, "since": life.since}
            record |= {
                "why": life.why,
                "signs": life.signs,
                "action": news.action,
                "before": was.state if was is not None else None,
            }
            await aside(self.notes.append, [record])
            if life.state is LifeState.SILENT and self.attempt.dispatched is None:
                self.attempt = await aside(hindered, self.attempt, self.directory, None)
        if news.action in BREAK_OFF and not await self._is_excused(news):
            await self._end(news, limits)

    async def _is_excused(self, news: News) -> bool:
        """Whether a silent agent waits for a person, whom it asked in a file: then it may, for a while."""
        if news.life.state is not LifeState.SILENT or not await aside(waits, self.house, self.attempt):
            return False
        self.excused = min(self.excused, self.clock() + self.house.runtime.ask_wait + ASK_GRACE)
        if self.clock() >= self.excused:
            return False
        self.watched.hear(self.attempt, (), self.clock())  # it is looked at again after the same time
        return True

    async def _end(self, news: News, limits: Limits) -> None:
        reached = stuck(self.attempt, news.life, limits.silence, self.house.now())
        reached = nudged(reached) if news.action is Action.NUDGE else reached
        ended = self.attempt
        if news.action is Action.END and reached.ending is not Ending.FINISHED:
            ended = replace(ended, session=None)  # nobody is to go on with it
        self.attempt = await _keep_within(self.house, ended, self.hold, reached)

    def _note_hindrance(self) -> None:
        if self.attempt.hindrance is not None:
            facts = {"hindrance": self.attempt.hindrance, "text": self.attempt.seen}
            self.notes.append([{"kind": "not_begun", **facts}])


def _fitting(house: House, attempt: Attempt, earlier: list[Attempt], news: News) -> News:
    """News of an agent that is to be nudged: about one that cannot be, a person is asked, and told why."""
    try:
        resume = house.find_coder(attempt.coder, house.runtime).can.resume
    except FleetError:
        resume = False
    why = beyond_nudging(attempt, earlier, resume=resume)
    return News(replace(news.life, why=f"{news.life.why}; not nudged: {why}"), Action.ASK) if why else news


async def heard(hold: keeper.Hold, within: float, stirred: asyncio.Event | None = None) -> bool | None:
    """Wait a while for news of an agent: whether there is more; False once its keeper is gone, None without news.

    Whoever is stirred meanwhile waits no longer.
    """
    news = asyncio.ensure_future(hold.changed())
    waiting: list[asyncio.Future[bool]] = [news]
    if stirred is not None:
        waiting.append(asyncio.ensure_future(stirred.wait()))
    try:
        await asyncio.wait(waiting, timeout=max(0.0, within), return_when=asyncio.FIRST_COMPLETED)
        return news.result() if news.done() else None
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def reader(house: House, attempt: Attempt) -> Reader:
    """How the agent's lines are read. One whose coder is not declared any more goes on all the same, as plain text."""
    try:
        return house.find_coder(attempt.coder, house.runtime).read
    except FleetError:
        from fleet.coders.command import text

        return text


def _known(house: House, attempt: Attempt) -> tuple[list[Attempt], Reader, Spent, Beginning]:
    """What it is followed by: who came before, how its lines are read, what was spent, and what shows it has begun."""
    earlier = house.earlier(attempt)
    return earlier, reader(house, attempt), spent(earlier), beginning_of(house, attempt, earlier)


def _digest(
    house: House, attempt: Attempt, read: Reader, piece: list[tuple[bytes, int]], notes: Notes, beginning: Beginning
) -> tuple[Attempt, list[Event]]:
    """What some lines of output mean for the attempt, written down as events."""
    events = [(event, offset) for line, offset in piece if line for event in read(line)]
    notes.record(events)
    heard = replace(attempt, events=attempt.events + len(events), offset=piece[-1][1])
    if events:
        heard = replace(heard, last_event=house.now())
    for event, _ in events:
        heard = fold(heard, event)
    told = [event for event, _ in events]
    heard = begun(estimated(house, heard), told, beginning, house.now())
    hear(house, attempt, heard, told)
    return heard, told


def _reached(house: House, attempt: Attempt, before: Spent) -> Reached | None:
    """What an agent is to be ended for, after what it just said. One that has done its work is not."""
    if attempt.finished and attempt.error is None:
        return None
    reached = overspent(attempt, before) or passed(house, attempt)
    return reached if attempt.finished else reached or full(attempt, house.runtime.context_pressure_threshold_pct)


async def _keep_within(house: House, attempt: Attempt, hold: keeper.Hold, reached: Reached | None) -> Attempt:
    """End an agent that has reached a limit. Why is written down first: after a crash it is still known."""
    if reached is None or attempt.ending is not None:
        return attempt
    ended = replace(attempt, ending=reached.ending, cause=reached.cause)
    with suppress(Unavailable):
        await aside(house.ledger.save, ended)
    if hold.abort():
        facts = {"attempt": attempt.id, "ending": reached.ending, "cause": reached.cause}
        house.log.say("agent ended", task=attempt.task, **facts)
    return ended


class Overdue:
    """When a keeper should long have ended its agent. One that did not was stopped: it is let go on, then ended."""

    def __init__(self, house: House, attempt: Attempt, directory: Path, deadline: float) -> None:
        self._house = house
        self._attempt = attempt
        self._directory = directory
        self._warned = False
        self.at = deadline + LADDER

    async def rouse(self, now: float) -> None:
        await aside(keeper.rouse, self._directory, finally_end=self._warned)
        facts = {"attempt": self._attempt.id, "ended": self._warned}
        self._house.log.say("keeper does not answer", task=self._attempt.task, level="warning", **facts)
        self.at, self._warned = now + LADDER, True

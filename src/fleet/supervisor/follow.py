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
from fleet.core.work import Attempt, Event
from fleet.supervisor.aside import aside
from fleet.supervisor.asked import waits
from fleet.supervisor.house import House
from fleet.supervisor.limits import Reached, Spent, full, overspent, silent, spent
from fleet.supervisor.notes import Notes
from fleet.supervisor.provider import hear
from fleet.supervisor.spending import estimated, passed
from fleet.supervisor.transcript import Transcript, fold

Reader = Callable[[bytes], list[Event]]

SAVE_EVERY = 1.0
LADDER = 30.0  # seconds; a keeper needs 17 at most to end an agent
AWAY = 30.0  # seconds


async def follow(house: House, attempt: Attempt, hold: keeper.Hold, know: Callable[[Attempt], None]) -> None:
    """Read what the agent says until its keeper is gone. `know` is told of everything new; the ledger once a second."""
    read = await aside(reader, house, attempt)
    directory = house.attempt_directory(attempt)
    clock = asyncio.get_running_loop().time
    saved, unsaved, over, excused = 0.0, False, False, inf
    limits = attempt.limits or house.runtime.limits
    overdue = Overdue(house, attempt, directory, clock() + limits.timeout)
    quiet = Quiet(limits.silence, clock())
    before = spent(await aside(house.earlier, attempt))
    if attempt.ending is not None:
        hold.abort()  # an earlier supervisor had decided so, and may not have come as far as to say it
    with Notes(house, attempt) as notes, Transcript(directory / "stdout", attempt.offset) as transcript:
        while not over:
            due = min(overdue.at, quiet.at, saved + SAVE_EVERY if unsaved else overdue.at)
            news, reached = await heard(hold, due - clock()), transcript.reach
            over = news is False
            if news is None and clock() >= overdue.at:
                await overdue.rouse(clock())
            for piece in transcript.lines(last=over):
                attempt = await aside(_digest, house, attempt, read, piece, notes)
                attempt = await _keep_within(house, attempt, hold, await aside(_reached, house, attempt, before))
                know(attempt)
                unsaved = True
            lives = bool(over or news or transcript.reach != reached)
            excused = inf if lives else excused
            if not lives and clock() >= quiet.at and await aside(waits, house, attempt):
                excused = min(excused, clock() + house.runtime.ask_wait + ASK_GRACE)
                lives = clock() < excused
            if quiet.ends(clock(), heard=lives):
                attempt = await _keep_within(house, attempt, hold, silent(attempt, limits.silence or 0))
                know(attempt)
            if unsaved and (over or clock() - saved >= SAVE_EVERY):
                saved, unsaved = clock(), False
                with suppress(Unavailable):  # figures only: they are saved again, and the transcript has them
                    await aside(house.ledger.save, attempt)


async def heard(hold: keeper.Hold, within: float) -> bool | None:
    """Wait a while for news of an agent: whether there is more; False once its keeper is gone, None without news."""
    try:
        return await asyncio.wait_for(hold.changed(), max(0.0, within))
    except TimeoutError:
        return None


def reader(house: House, attempt: Attempt) -> Reader:
    """How the agent's lines are read. One whose coder is not declared any more goes on all the same, as plain text."""
    try:
        return house.find_coder(attempt.coder, house.runtime).read
    except FleetError:
        from fleet.coders.command import text

        return text


def _digest(house: House, attempt: Attempt, read: Reader, piece: list[tuple[bytes, int]], notes: Notes) -> Attempt:
    """What some lines of output mean for the attempt, written down as events."""
    events = [(event, offset) for line, offset in piece if line for event in read(line)]
    notes.record(events)
    heard = replace(attempt, events=attempt.events + len(events), offset=piece[-1][1])
    if events:
        heard = replace(heard, last_event=house.now())
    for event, _ in events:
        heard = fold(heard, event)
    heard = estimated(house, heard)
    hear(house, attempt, heard, [event for event, _ in events])
    return heard


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


class Quiet:
    """How long an agent has said nothing, by the loop's clock: it begins anew with each supervisor.

    A supervisor that comes to look much too late was away itself (stopped, starved), and does not blame the agent.
    """

    def __init__(self, limit: float | None, now: float) -> None:
        self._limit = limit
        self.at = inf if limit is None else now + limit

    def ends(self, now: float, *, heard: bool) -> bool:
        """Whether the limit is reached now; after that it does not count any more."""
        if self._limit is None:
            return False
        if heard or now - self.at > AWAY:
            self.at = now + self._limit
            return False
        if now < self.at:
            return False
        self._limit, self.at = None, inf
        return True


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

"""The end of step two for an agent whose context is full: its session is taken up once more, to write its notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

from fleet import keeper
from fleet.coders import Job, instructions
from fleet.core import FleetError, Unavailable
from fleet.core.task import Status
from fleet.core.work import Attempt, Ending
from fleet.host import files
from fleet.keeper import Cause
from fleet.supervisor.aside import aside
from fleet.supervisor.environment import marks
from fleet.supervisor.follow import Overdue, Reader, heard, reader
from fleet.supervisor.house import House
from fleet.supervisor.limits import left, lesser, overspent, spent
from fleet.supervisor.notes import note
from fleet.supervisor.provider import hear
from fleet.supervisor.spending import day_left, estimated
from fleet.supervisor.start import limited, start
from fleet.supervisor.transcript import Transcript, fold
from fleet.supervisor.watch import AWAY

NAME = "handover"  # its directory, in that of the attempt
SECONDS = 300.0
OUTPUT = 64 * 1024 * 1024
BEGUN, DONE = "begun", "done"


async def hand_over(house: House, attempt: Attempt, keep: Callable[[Attempt], None]) -> None:
    """Once an attempt: whatever becomes of it, the attempt has ended already, and a fresh one goes on."""
    if attempt.ending is not Ending.CONTEXT or attempt.handover not in (None, BEGUN):
        return
    directory = house.attempt_directory(attempt) / NAME
    try:
        if not await aside(_is_due, house, attempt):
            return
        attempt, hold = await aside(_begin, house, attempt, directory, keep)
    except Unavailable:
        raise
    except FleetError as problem:
        outcome = f"not begun: {problem.message}"
    else:
        attempt, outcome = await _listen(house, attempt, hold)
    house.log.say("handed over", task=attempt.task, attempt=attempt.id, text=outcome)
    note(house, attempt, "handed_over", text=outcome)
    await aside(keep, replace(attempt, handover=outcome))


def _is_due(house: House, attempt: Attempt) -> bool:
    """Whether it was we who ended it, it has a session to go on with, and nobody has closed its task."""
    seen = keeper.Hold(house.attempt_directory(attempt)).exit
    if attempt.session is None or seen is None or seen.cause is not Cause.CANCELLED or seen.survivors:
        return False
    can_resume = house.find_coder(attempt.coder, house.runtime).can.resume
    return can_resume and house.tracker.get(attempt.task).status is not Status.CLOSED


def _begin(
    house: House, attempt: Attempt, directory: Path, keep: Callable[[Attempt], None]
) -> tuple[Attempt, keeper.Hold]:
    """The session under a keeper of its own: the one that an earlier supervisor started, or a new one."""
    if attempt.handover is None:  # so what stands there is not ours
        files.fresh_dir(directory)
        attempt = replace(attempt, handover=BEGUN)
        keep(attempt)
    return attempt, keeper.hold(directory, _start(house, attempt))


def _start(house: House, attempt: Attempt) -> keeper.Start:
    """As the agent itself was started, but for what it is told, and for how long."""
    coder = house.find_coder(attempt.coder, house.runtime)
    declared = house.runtime.coders.get(attempt.coder)
    limits = attempt.limits or house.runtime.limits
    used = spent([*house.earlier(attempt), attempt])
    budget = lesser(left(limits, used), day_left(house, attempt)) if coder.can.budget else None
    prompt = instructions.hand_over(house.artifacts(attempt.task), attempt=attempt.id)
    args = tuple(declared.args) if declared else ()
    job = Job(prompt, Path(attempt.cwd), attempt.model, attempt.session, args, budget=budget)
    command, (_, begun) = coder.command(job), start(house, attempt, house.tracker.get(attempt.task))
    return replace(
        begun,
        argv=limited(house, attempt, command.argv),
        env={**command.env, **begun.env},
        stdin=command.stdin,
        timeout=min(SECONDS, limits.timeout),
        output=min(OUTPUT, limits.output),
    )


async def _listen(house: House, attempt: Attempt, hold: keeper.Hold) -> tuple[Attempt, str]:
    """Read what it says to its end. Nothing of it is kept before that: after a crash all of it is read again."""
    read, clock = await aside(reader, house, attempt), asyncio.get_running_loop().time
    quiet = Quiet((attempt.limits or house.runtime.limits).silence, clock())
    overdue = Overdue(house, attempt, hold.directory, clock() + SECONDS)
    before = spent(await aside(house.earlier, attempt))
    known, over = attempt, False
    try:
        with Transcript(hold.directory / "stdout") as transcript:
            while not over:
                news, reach = await heard(hold, min(quiet.at, overdue.at) - clock()), transcript.reach
                over = news is False
                if news is None and clock() >= overdue.at:
                    await overdue.rouse(clock())
                for piece in transcript.lines(last=over):
                    known = await aside(_digest, house, known, read, piece)
                said = bool(news) or transcript.reach != reach
                if quiet.ends(clock(), heard=said) or overspent(known, before) is not None:
                    hold.abort()
    finally:
        hold.close()
    return with_usage(attempt, known), await aside(_outcome, house, known, hold)


def _digest(house: House, known: Attempt, read: Reader, piece: list[tuple[bytes, int]]) -> Attempt:
    before, events = known, [event for line, _ in piece if line for event in read(line)]
    for event in events:
        known = fold(known, event)
    hear(house, before, known, events)
    return estimated(house, known)


def with_usage(attempt: Attempt, known: Attempt) -> Attempt:
    """The attempt with what its last turn used, and nothing else of it: how the attempt ended is settled.

    A turn that is told of as if it were all there was takes nothing away from what was counted before.
    """
    more = (known.tokens or 0) >= (attempt.tokens or 0)
    return replace(
        attempt,
        tokens=known.tokens if more else attempt.tokens,
        usage=known.usage if more else attempt.usage,
        estimate=known.estimate if more else attempt.estimate,
        cost=known.cost if attempt.cost is None else max(attempt.cost, known.cost or 0.0),
        thinks_with=known.thinks_with,
        session_tokens=known.session_tokens,
        session_usage=known.session_usage,
        session_cost=known.session_cost,
        peak_context=known.peak_context,
        context_limit=known.context_limit,
        context_from=known.context_from,
    )


def _outcome(house: House, known: Attempt, hold: keeper.Hold) -> str:
    """What became of it, in words."""
    if hold.exit is None:
        keeper.sweep(marks(house, known))
        return "lost: its keeper was killed"
    if hold.exit.cause is not Cause.EXITED:
        return f"cut off: {hold.exit.cause.value}"
    if hold.exit.code != 0 or known.error is not None:
        return f"failed: {known.error or f'exit {hold.exit.code}'}"
    return DONE


class Quiet:
    """How long an agent has said nothing, by the loop's clock: it begins anew with each supervisor. For the one turn of
    a hand-over, which has minutes at most, that is sign enough: all that it can lose are notes.

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

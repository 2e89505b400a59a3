"""Step two, while it lasts: an agent's output is read as it comes, and becomes events and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from fleet import keeper
from fleet.core import FleetError, Unavailable
from fleet.core.work import Attempt, Ending, Event
from fleet.evidence.journal import Journal
from fleet.supervisor.aside import aside
from fleet.supervisor.house import House
from fleet.supervisor.provider import hear
from fleet.supervisor.transcript import CHATTER, Told, Transcript, condense, fold

Reader = Callable[[bytes], list[Event]]

SAVE_EVERY = 1.0
LADDER = 30.0  # seconds; a keeper needs 17 at most to end an agent
MOST_EVENTS = 256 * 1024 * 1024


async def follow(house: House, attempt: Attempt, hold: keeper.Hold, know: Callable[[Attempt], None]) -> None:
    """Read what the agent says until its keeper is gone. `know` is told of everything new; the ledger once a second."""
    read = _reader(house, attempt)
    directory = house.attempt_directory(attempt)
    clock = asyncio.get_running_loop().time
    saved, unsaved, over = 0.0, False, False
    overdue = _Overdue(house, attempt, clock() + (attempt.limits or house.runtime.limits).timeout)
    with _Notes(house, attempt) as notes, Transcript(directory / "stdout", attempt.offset) as transcript:
        while not over:
            over = await _is_over(hold, min(overdue.at, saved + SAVE_EVERY if unsaved else overdue.at) - clock())
            if not over and clock() >= overdue.at:
                await overdue.rouse(clock())
            for piece in transcript.lines(last=over):
                attempt = _relieve(house, await aside(_digest, house, attempt, read, piece, notes), hold)
                know(attempt)
                unsaved = True
            if unsaved and (over or clock() - saved >= SAVE_EVERY):
                saved, unsaved = clock(), False
                with suppress(Unavailable):  # figures only: they are saved again, and the transcript has them
                    await aside(house.ledger.save, attempt)


def note(house: House, attempt: Attempt, kind: str, **facts: object) -> None:
    """Put one fact of the supervisor's own among the task's events."""
    with _Notes(house, attempt) as notes:
        notes.append([{"kind": kind} | facts])


async def _is_over(hold: keeper.Hold, within: float) -> bool:
    """Wait a while for news of an agent; whether its keeper is gone."""
    try:
        return not await asyncio.wait_for(hold.changed(), max(0.0, within))
    except TimeoutError:
        return False


def _reader(house: House, attempt: Attempt) -> Reader:
    """How the agent's lines are read. One whose coder is not declared any more goes on all the same, as plain text."""
    try:
        return house.find_coder(attempt.coder, house.runtime).read
    except FleetError:
        from fleet.coders.command import text

        return text


def _digest(house: House, attempt: Attempt, read: Reader, piece: list[tuple[bytes, int]], notes: _Notes) -> Attempt:
    """What some lines of output mean for the attempt, written down as events."""
    events = [(event, offset) for line, offset in piece if line for event in read(line)]
    notes.record(events)
    heard = replace(attempt, events=attempt.events + len(events), offset=piece[-1][1])
    if events:
        heard = replace(heard, last_event=house.now())
    for event, _ in events:
        heard = fold(heard, event)
    hear(house, attempt, heard, [event for event, _ in events])
    return heard


def _relieve(house: House, attempt: Attempt, hold: keeper.Hold) -> Attempt:
    """End an agent whose context is nearly full, before it begins to forget; a fresh session goes on."""
    share = attempt.context_share
    if attempt.finished or attempt.ending is Ending.CONTEXT:
        return attempt
    if share is None or share <= house.runtime.context_pressure_threshold_pct or not hold.abort():
        return attempt
    return replace(attempt, ending=Ending.CONTEXT, cause=f"its context was {share} % full")


class _Overdue:
    """When a keeper should long have ended its agent. One that did not was stopped: it is let go on, then ended."""

    def __init__(self, house: House, attempt: Attempt, deadline: float) -> None:
        self._house = house
        self._attempt = attempt
        self._warned = False
        self.at = deadline + LADDER

    async def rouse(self, now: float) -> None:
        directory = self._house.attempt_directory(self._attempt)
        await aside(keeper.rouse, directory, finally_end=self._warned)
        facts = {"attempt": self._attempt.id, "ended": self._warned}
        self._house.log.say("keeper does not answer", task=self._attempt.task, level="warning", **facts)
        self.at, self._warned = now + LADDER, True


class _Notes:
    """The task's events.jsonl. A file that cannot be written, since an agent can put anything there, stops nothing."""

    def __init__(self, house: House, attempt: Attempt) -> None:
        self._house = house
        self._attempt = attempt
        self._journal = _open(house, attempt.task)
        self._known = _reach(self._journal, attempt.id)

    def __enter__(self) -> _Notes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def record(self, events: list[Told]) -> None:
        """Write down events with the offset of their line; those of a line that is there already are left out.

        Of an agent that says too much, only what it did is kept in the end; its stdout has the rest.
        """
        fresh = condense([told for told in events if told[1] > self._known])
        if self._journal is not None and self._journal.size > MOST_EVENTS:
            fresh = [told for told in fresh if told[0].kind not in CHATTER]
        self.append([{"offset": offset} | _plain(event) for event, offset in fresh])

    def append(self, records: list[dict[str, object]]) -> None:
        if self._journal is None or not records:
            return
        last = self._journal.last.get("id")
        first = last + 1 if isinstance(last, int) else 1
        shared: dict[str, object] = {"at": round(self._house.now(), 3), "attempt": self._attempt.id}
        with suppress(OSError):  # the disk is full: the transcript and the ledger still have it
            self._journal.append([{"id": first + n} | shared | record for n, record in enumerate(records)])


def _open(house: House, task: str) -> Journal | None:
    path: Path = house.task_directory(task) / "events.jsonl"
    try:
        return Journal(path)
    except (OSError, FleetError) as problem:
        house.log.say("events not kept", task=task, level="warning", text=str(problem))
        return None


def _reach(journal: Journal | None, attempt: str) -> int:
    """How far into this attempt's output the task's events reach."""
    last = journal.last if journal is not None else {}
    offset = last.get("offset")
    return offset if last.get("attempt") == attempt and isinstance(offset, int) else -1


def _plain(event: Event) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(event).items() if value is not None}

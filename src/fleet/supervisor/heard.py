"""What an agent in a terminal told of itself: its signals, and its own record of what was said and used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fleet import keeper
from fleet.coders import Coder, Talker, talker_of
from fleet.config.runtime import Runtime
from fleet.core import FleetError
from fleet.core.talk import Signal
from fleet.core.work import Attempt
from fleet.host import files, locks
from fleet.supervisor.house import House
from fleet.supervisor.limits import Spent, overspent
from fleet.supervisor.notes import note_events
from fleet.supervisor.refused import hear_refused
from fleet.supervisor.spending import estimated, passed
from fleet.supervisor.transcript import Transcript, fold

SIGNALS = "signals.jsonl"
HEARD = "heard.lock"  # held by whoever writes down what is known of an attempt that people talk to
LONGEST = 1024 * 1024  # of what was told long ago, nobody asks
LATELY = 64 * 1024
MOST_RECORDS = 16  # an agent that names more is not followed into all of them
MOST_READ = 64 * 1024 * 1024  # of one file at one look: it may have no end


def talker(find_coder: Callable[[str, Runtime], Coder], runtime: Runtime, attempt: Attempt) -> Talker | None:
    """How to talk with the attempt's agent; None when its coder cannot be talked to, or is not declared any more."""
    try:
        return talker_of(find_coder(attempt.coder, runtime))
    except FleetError:
        return None


def signals(directory: Path, how: Talker | None) -> list[Signal]:
    """What the agent of this attempt told last, in the order it was told."""
    return Hearing(directory, how)()


class Hearing:
    """An agent's signals as they come: each call has those of the last one and what was told since.

    Its hooks tell most of it; that a person broke off a turn stands in its own transcript alone.
    """

    def __init__(self, directory: Path, how: Talker | None) -> None:
        self.how = how
        self._file = directory / SIGNALS
        self._heard: list[Signal] = []
        self._offsets: dict[Path, int] = {}

    def __call__(self) -> list[Signal]:
        told = self._read(self._file, LONGEST)
        names = (one.transcript for one in reversed([*self._heard, *told]) if one.transcript)
        transcript = Path(next(names, self._file))
        if transcript != self._file:
            last = self._heard[-1].at if self._heard else 0.0  # what comes to be read late is no news
            told += [signal for signal in self._read(transcript, LATELY) if signal.at >= last]
        self._heard += sorted(told, key=lambda signal: signal.at)
        return list(self._heard)

    def _read(self, path: Path, lately: int) -> list[Signal]:
        """What a file of the agent's tells since it was last read; the first time, lately."""
        how, found = self.how, list[Signal]()
        size = files.size(path)
        begin = self._offsets.get(path, max(0, size - lately))
        if how is None or size <= begin:  # nothing new, which is what most looks find
            return found
        with Transcript(path, begin) as source:
            with suppress(OSError):
                for piece in source.lines(most=MOST_READ):
                    found += [signal for line, _ in piece for signal in how.signals(line)]
            self._offsets[path] = source.offset
        return found


def catch_up(house: House, attempt: Attempt) -> Attempt:
    """The attempt with what its agent's own record says since it was last looked at: tokens, cost, tools, session; and
    what it was refused.
    """
    known = _read_records(house, hear_refused(house, attempt))
    if known != attempt:
        house.ledger.save(known)
    return known


def _read_records(house: House, attempt: Attempt) -> Attempt:
    how = talker(house.find_coder, house.runtime, attempt)
    told = signals(house.attempt_directory(attempt), how)
    sessions = [signal.session for signal in told if signal.session]
    transcripts = dict.fromkeys(signal.transcript for signal in reversed(told) if signal.transcript)
    if how is None or not told:
        return attempt
    known = replace(
        attempt,
        session=sessions[-1] if sessions else attempt.session,
        last_event=told[-1].at,
        dispatched=attempt.dispatched or told[0].at,  # the file is known to its own hooks alone
    )
    for transcript in reversed(list(transcripts)[:MOST_RECORDS]):
        known = _read_on(house, known, how, transcript)
    return known


def _read_on(house: House, attempt: Attempt, how: Talker, transcript: str) -> Attempt:
    """Take up one of the agent's records where it was left: each is counted from its own beginning, and once.

    It is the agent's file: a line that makes no sense says nothing, and neither does one that cannot be read.
    """
    with Transcript(Path(transcript), attempt.recalled.get(transcript, 0)) as source:
        with suppress(OSError):
            for piece in source.lines(most=MOST_READ):
                events = [(event, offset) for line, offset in piece for event in how.recall(line.rstrip())]
                if events:
                    note_events(house, attempt, events, transcript)
                for event, _ in events:
                    attempt = fold(attempt, event)
                attempt = replace(attempt, events=attempt.events + len(events))
        others = [(name, offset) for name, offset in attempt.recalled.items() if name != transcript]
        return replace(attempt, recalled=dict([*others[1 - MOST_RECORDS :], (transcript, source.offset)]))


def watch(house: House) -> None:
    """Read on in every agent's record, and end those that have reached a limit on tokens or cost.

    Their places stay, and why they were ended is written down first. One that cannot be looked at is in nobody's way.
    """
    for attempt in house.ledger.talked_to():
        if attempt.started is not None and attempt.ending is None:
            try:
                _watch(house, attempt)
            except (FleetError, OSError) as problem:
                facts = {"attempt": attempt.id, "text": str(problem)}
                house.log.say("agent not watched", task=attempt.task, level="warning", **facts)


def _watch(house: House, attempt: Attempt) -> None:
    with alone(house, attempt, 0.0) as now:
        if now is not None and now.ending is None:
            _keep_within(house, now)


def _keep_within(house: House, attempt: Attempt) -> None:
    known = estimated(house, catch_up(house, attempt))
    reached = overspent(known, Spent()) or passed(house, known)
    if reached is not None:
        house.ledger.save(replace(known, ending=reached.ending, cause=reached.cause))
        keeper.abort(house.attempt_directory(attempt))
        facts = {"attempt": attempt.id, "ending": reached.ending, "cause": reached.cause}
        house.log.say("agent ended", task=attempt.task, **facts)


@contextmanager
def alone(house: House, attempt: Attempt, patience: float) -> Iterator[Attempt | None]:
    """The attempt as it stands, while nobody else changes it; None when somebody does for so many seconds."""
    lock = locks.take(files.private_dir(house.attempt_directory(attempt)) / HEARD, patience)
    try:
        yield None if lock is None else house.ledger.get(attempt.id)
    finally:
        if lock is not None:
            locks.release(lock)

"""What an agent in a terminal told of itself: its signals, and its own record of what was said and used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from fleet.supervisor.transcript import Transcript, fold

SIGNALS = "signals.jsonl"
HEARD = "heard.lock"  # held by whoever writes down what is known of an attempt that people talk to
LONGEST = 1024 * 1024  # of what was told long ago, nobody asks
LATELY = 64 * 1024
MOST_RECORDS = 16  # an agent that names more is not followed into all of them
MOST_READ = 256 * 1024 * 1024  # of one record at one look: it may have no end


def talker(find_coder: Callable[[str, Runtime], Coder], runtime: Runtime, attempt: Attempt) -> Talker | None:
    """How to talk with the attempt's agent; None when its coder cannot be talked to, or is not declared any more."""
    try:
        return talker_of(find_coder(attempt.coder, runtime))
    except FleetError:
        return None


def signals(directory: Path, how: Talker | None) -> list[Signal]:
    """What the agent of this attempt told last, in the order it was told.

    Its hooks tell most of it; that a person broke off a turn stands in its own transcript alone.
    """
    if how is None:
        return []
    found = Hearing(directory, how)()
    transcript = next((one.transcript for one in reversed(found) if one.transcript), None)
    if transcript is not None and Path(transcript) != directory / SIGNALS:
        lines = (files.read_end(Path(transcript), LATELY) or b"").splitlines()
        found += [signal for line in lines for signal in how.signals(line)]
    return sorted(found, key=lambda signal: signal.at)


class Hearing:
    """An agent's signals as they come: each call has those of the last one and what was told since."""

    def __init__(self, directory: Path, how: Talker | None) -> None:
        self._file = directory / SIGNALS
        self._how = how
        self._heard: list[Signal] = []
        self._offset = max(0, files.size(self._file) - LONGEST)

    def __call__(self) -> list[Signal]:
        told = files.read_from(self._file, self._offset, LONGEST) or b""
        whole = told[: told.rfind(b"\n") + 1]
        self._offset += len(whole)
        if self._how is not None:
            self._heard += [signal for line in whole.splitlines() for signal in self._how.signals(line)]
        return list(self._heard)


def catch_up(house: House, attempt: Attempt) -> Attempt:
    """The attempt with what its agent's own record says since it was last looked at: tokens, cost, tools, session."""
    how = talker(house.find_coder, house.runtime, attempt)
    told = signals(house.attempt_directory(attempt), how)
    sessions = [signal.session for signal in told if signal.session]
    transcripts = dict.fromkeys(signal.transcript for signal in reversed(told) if signal.transcript)
    if how is None or not told:
        return attempt
    known = replace(attempt, session=sessions[-1] if sessions else attempt.session, last_event=told[-1].at)
    for transcript in reversed(list(transcripts)[:MOST_RECORDS]):
        known = _read_on(house, known, how, transcript)
    if known != attempt:
        house.ledger.save(known)
    return known


def _read_on(house: House, attempt: Attempt, how: Talker, transcript: str) -> Attempt:
    """Take up one of the agent's records where it was left: each is counted from its own beginning, and once.

    It is the agent's file: a line that makes no sense says nothing.
    """
    with Transcript(Path(transcript), attempt.recalled.get(transcript, 0)) as source:
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

    Their places stay, and why they were ended is written down first.
    """
    for attempt in house.ledger.talked_to():
        if attempt.started is not None and attempt.ending is None:
            with alone(house, attempt, 0.0) as now:
                if now is not None and now.ending is None:
                    _watch(house, now)


def _watch(house: House, attempt: Attempt) -> None:
    known = catch_up(house, attempt)
    reached = overspent(known, Spent())
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

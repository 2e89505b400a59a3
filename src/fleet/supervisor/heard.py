"""What an agent in a terminal told of itself: its signals, and its own record of what was said and used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fleet import keeper
from fleet.coders import Coder, Talker, talker_of
from fleet.config.runtime import Runtime
from fleet.core import FleetError
from fleet.core.talk import Signal
from fleet.core.work import Attempt
from fleet.host import files
from fleet.supervisor.house import House
from fleet.supervisor.limits import Spent, overspent
from fleet.supervisor.notes import note_events
from fleet.supervisor.transcript import fold

SIGNALS = "signals.jsonl"
LONGEST = 64 * 1024 * 1024
PIECE = 8 * 1024 * 1024


def talker(find_coder: Callable[[str, Runtime], Coder], runtime: Runtime, attempt: Attempt) -> Talker | None:
    """How to talk with the attempt's agent; None when its coder cannot be talked to, or is not declared any more."""
    try:
        return talker_of(find_coder(attempt.coder, runtime))
    except FleetError:
        return None


def signals(directory: Path, how: Talker | None) -> list[Signal]:
    """Everything the agent of this attempt told so far, in the order it was told."""
    if how is None:
        return []
    told = files.read_from(directory / SIGNALS, 0, LONGEST) or b""
    return [signal for line in told.splitlines() for signal in how.signals(line)]


def catch_up(house: House, attempt: Attempt) -> Attempt:
    """The attempt with what its agent's own record says since it was last looked at: tokens, cost, tools, session."""
    how = talker(house.find_coder, house.runtime, attempt)
    told = signals(house.attempt_directory(attempt), how)
    sessions = [signal.session for signal in told if signal.session]
    transcripts = [signal.transcript for signal in told if signal.transcript]
    if how is None or not told:
        return attempt
    known = replace(attempt, session=sessions[-1] if sessions else attempt.session, last_event=told[-1].at)
    if transcripts:
        known = _read_on(house, known, how, Path(transcripts[-1]))
    if known != attempt:
        house.ledger.save(known)
    return known


def _read_on(house: House, attempt: Attempt, how: Talker, transcript: Path) -> Attempt:
    """Take up the agent's record where it was left. It is the agent's file: a line that makes no sense says nothing."""
    piece = files.read_from(transcript, attempt.offset, PIECE) or b""
    whole = piece[: piece.rfind(b"\n") + 1]
    events, offset = [], attempt.offset
    for line in whole.splitlines(keepends=True):
        offset += len(line)
        events += [(event, offset) for event in how.recall(line.rstrip())]
    for event, _ in events:
        attempt = fold(attempt, event)
    if events:
        note_events(house, attempt, events)
    return replace(attempt, events=attempt.events + len(events), offset=offset)


def watch(house: House) -> None:
    """Read on in every agent's record, and end those that have reached a limit on tokens or cost.

    Their places stay, and why they were ended is written down first.
    """
    for attempt in house.ledger.talked_to():
        if attempt.started is None or attempt.ending is not None:
            continue
        known = catch_up(house, attempt)
        reached = overspent(known, Spent())
        if reached is not None:
            house.ledger.save(replace(known, ending=reached.ending, cause=reached.cause))
            keeper.abort(house.attempt_directory(attempt))
            facts = {"attempt": attempt.id, "ending": reached.ending, "cause": reached.cause}
            house.log.say("agent ended", task=attempt.task, **facts)

"""Whether an agent has begun: by what it shows, and why it has not when no model answered it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fleet import keeper
from fleet.core import FleetError
from fleet.core.dispatch import Beginning, Remains, begins, hindrance, tail
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending, Event, Hindrance
from fleet.host import files
from fleet.supervisor.house import House

TAIL = 4096  # bytes
LINES = 8
BY_HAND = (Ending.CANCELLED, Ending.TOKENS, Ending.COST, Ending.CONTEXT)


def beginning_of(house: House, attempt: Attempt, earlier: Sequence[Attempt]) -> Beginning:
    """By what the agent of an attempt shows that it has begun; of one that is not declared any more, words."""
    try:
        can = house.find_coder(attempt.coder, house.runtime).can
    except FleetError:
        return Beginning(words=True)
    sessions = (one.session for one in earlier if one.session is not None)
    names = (attempt.nonce, *sessions) if can.name and attempt.nonce else ()
    return Beginning(names, can.words)


def begun(attempt: Attempt, events: Iterable[Event], by: Beginning, now: float) -> Attempt:
    """The attempt, with when it was first shown that its agent has begun."""
    if attempt.dispatched is None and any(begins(event, by) for event in events):
        return replace(attempt, dispatched=now)
    return attempt


def hindered(attempt: Attempt, directory: Path, ended: keeper.Exit | None) -> Attempt:
    """The attempt with what keeps, or kept, its agent from beginning, if no model has answered it."""
    if attempt.turned or attempt.ending in BY_HAND:
        return attempt
    said = [*_last(directory / "stdout"), *_last(directory / "stderr"), *([attempt.error] if attempt.error else [])]
    remains = Remains(ended.code if ended else None, ended.error if ended else None, attempt.status, said)
    why = hindrance(remains)
    well = ended is not None and ended.code == 0 and attempt.error is None
    if (attempt.dispatched is not None and attempt.error is None) or (well and why is Hindrance.UNKNOWN):
        return attempt
    words = [line for line in said if not line.lstrip().startswith(("{", "["))]
    return replace(attempt, hindrance=why, seen="" if remains.error else clean(tail(words), 400))


def _last(path: Path) -> list[str]:
    """The last lines of what it printed; of a file that an agent put in its place, none."""
    try:
        text = (files.read_end(path, TAIL) or b"").decode(errors="replace")
        text = text if (files.size(path) or 0) <= TAIL else text.partition("\n")[2]  # no line without its beginning
    except OSError:
        return []
    return [clean(line, 500) for line in text.splitlines()[-LINES:]]

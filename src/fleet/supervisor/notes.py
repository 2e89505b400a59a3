"""The task's events.jsonl: what an agent said, and facts of the supervisor's own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.core.work import Attempt, Event, EventKind
from fleet.evidence.journal import Journal
from fleet.evidence.moved import Moved
from fleet.supervisor.house import House
from fleet.supervisor.limits import model_of
from fleet.supervisor.spending import not_kept
from fleet.supervisor.transcript import CHATTER, Told, condense

MOST_EVENTS = 256 * 1024 * 1024


def note(house: House, attempt: Attempt, kind: str, **facts: object) -> None:
    """Put one fact of the supervisor's own among the task's events."""
    with Notes(house, attempt) as notes:
        notes.append([{"kind": kind} | facts])


def note_events(house: House, attempt: Attempt, events: list[Told], transcript: str) -> None:
    """Put what an agent keeps in a record of its own among the task's events."""
    with Notes(house, attempt, transcript) as notes:
        notes.record(events)


def note_unkept(house: House, attempt: Attempt) -> None:
    """Say which limits cannot be kept, before the agent begins."""
    can = house.find_coder(attempt.coder, house.runtime).can
    model = model_of([*house.earlier(attempt), attempt]) or house.runtime.model
    for limit, why in not_kept(attempt.limits or house.runtime.limits, attempt.coder, can, model).items():
        house.log.say("limit not kept", task=attempt.task, level="warning", attempt=attempt.id, limit=limit, text=why)
        note(house, attempt, "limit_not_kept", limit=limit, text=why)


def note_unfenced(house: House, attempt: Attempt, why: str) -> None:
    """Say that an agent was not kept from the home."""
    house.log.say("agent not fenced", task=attempt.task, level="warning", attempt=attempt.id, text=why)
    note(house, attempt, "not_fenced", text=why)


def note_moved(house: House, attempt: Attempt, moved: Iterable[Moved]) -> None:
    """Say which branches and tags moved while an agent ran."""
    for one in moved:
        house.log.say("ref moved", task=attempt.task, attempt=attempt.id, ref=one.ref, old=one.old, new=one.new)


class Notes:
    """The task's events.jsonl. A file that cannot be written, since an agent can put anything there, stops nothing.

    Offsets are of the agent's output, or of the transcript that is named.
    """

    def __init__(self, house: House, attempt: Attempt, transcript: str | None = None) -> None:
        self._house = house
        self._attempt = attempt
        self._of: dict[str, object] = {} if transcript is None else {"transcript": transcript}
        self._journal = _open(house, attempt.task)
        self._known: int | None = None

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def record(self, events: list[Told]) -> None:
        """Write down events with the offset of their line; those of a line that is there already are left out.

        Of an agent that says too much, only what it did is kept in the end; its stdout has the rest.
        """
        if self._known is None:
            self._known = _reach(self._journal, attempt=self._attempt.id, transcript=self._of.get("transcript"))
        known = self._known
        fresh = condense([told for told in events if told[1] > known])
        if self._journal is not None and self._journal.size > MOST_EVENTS:
            fresh = [told for told in fresh if told[0].kind not in CHATTER]
        self.append([{"offset": offset} | self._of | _plain(event) for event, offset in fresh])

    def unreturned(self) -> list[tuple[str, str]]:
        """The calls of this attempt that have not come back, as far as the last megabyte of events tells."""
        found: dict[str, str] = {}
        for record in reversed(list(self._journal.recent())) if self._journal is not None else ():
            call = str(record.get("call") or record.get("tool") or "")
            if record.get("attempt") != self._attempt.id:
                continue
            if record.get("kind") == EventKind.TOOL_CALLED:
                found[call] = clean(f"{record.get('tool')}: {record.get('text')}", 200)
            elif record.get("kind") == EventKind.TOOL_ENDED:
                found.pop(call, None)
            elif record.get("kind") == EventKind.RESULT:
                found.clear()
        return list(found.items())

    def append(self, records: list[dict[str, object]]) -> None:
        if self._journal is None or not records:
            return
        shared: dict[str, object] = {"at": round(self._house.now(), 3), "attempt": self._attempt.id}
        with suppress(OSError):  # the disk is full: the transcript and the ledger still have it
            self._journal.append([shared | record for record in records], numbered=True)


def _open(house: House, task: str) -> Journal | None:
    path: Path = house.task_directory(task) / "events.jsonl"
    try:
        return Journal(path)
    except (OSError, FleetError) as problem:
        house.log.say("events not kept", task=task, level="warning", text=str(problem))
        return None


def _reach(journal: Journal | None, **source: object) -> int:
    """How far into this output of an attempt's the task's events reach. Others write there too, in between."""
    for record in journal.recent() if journal is not None else ():
        offset = record.get("offset")
        if isinstance(offset, int) and all(record.get(name) == value for name, value in source.items()):
            return offset
    return -1


def _plain(event: Event) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(event).items() if value is not None}

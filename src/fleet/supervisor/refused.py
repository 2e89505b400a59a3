"""What agents tried with the queue and were refused: their own words, made events."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from fleet.core.text import clean
from fleet.core.work import Attempt, Event, EventKind
from fleet.host import files
from fleet.supervisor.house import House
from fleet.supervisor.notes import note_events

REFUSED = "refused.jsonl"
LARGEST = 128 * 1024
MOST = 100  # of one attempt
LONGEST = 300


def hear_refused(house: House, attempt: Attempt) -> Attempt:
    """The attempt, with what it was refused since it was last looked at among its task's events."""
    path = house.attempt_directory(attempt) / REFUSED
    heard = attempt.recalled.get(REFUSED, 0)
    content = files.read_from(path, 0, LARGEST) or b""
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)[:MOST]
    events, end = [], 0
    for line in lines:
        end += len(line)
        if end > heard:
            events.append((Event(EventKind.REFUSED_COMMAND, command(line)), end))
    if not events:
        return attempt
    note_events(house, attempt, events, REFUSED)
    for event, _ in events:
        house.log.say("command refused", task=attempt.task, level="warning", attempt=attempt.id, text=event.text)
    return replace(attempt, recalled={**attempt.recalled, REFUSED: end})


def command(line: bytes) -> str:
    """The command in a line that anybody can have written."""
    try:
        said = json.loads(line)["command"]
        words = [str(word) for word in said] if isinstance(said, list) else [str(said)]
    except (ValueError, TypeError, KeyError, RecursionError):
        words = [line.decode(errors="replace")]
    return clean(shlex.join(words), LONGEST)

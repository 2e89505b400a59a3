"""An agent's output, read line by line as it grows, and folded into what is known of the attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from fleet.core.text import clean
from fleet.core.work import AGENT, Attempt, Event, EventKind, Usage
from fleet.host import files

CHUNK = 256 * 1024
MOST_LINES = 500
ASK = "ask_human"  # how the name of the tool ends, whatever an agent CLI puts before it
CHATTER = {EventKind.SAID, EventKind.OTHER}
LONG_RUN, ENDS = 50, 5
LONGEST_QUESTION = 4000  # characters
MOST_MODELS = 16  # of an attempt; what is used with more of them is counted under one name
OTHER_MODELS = "other models"
RECENT = 8  # requests; as many as subagents may be told of side by side
Told = tuple[Event, int]  # an event, and the offset behind the line that it was in
LONGEST = 8 * 1024 * 1024  # the keeper cuts lines far shorter; this only bounds what we hold in memory


class Transcript:
    """Reads whole lines from an offset on. The file may still be growing; what replaces it is not read."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._fd: int | None = None
        self._rest = b""
        self._skips = False  # the rest of a line that is too long to be kept
        self.offset = offset  # behind the last whole line that was given out

    @property
    def reach(self) -> int:
        """How far it was read, half a line included."""
        return self.offset + len(self._rest)

    def lines(self, *, last: bool = False, most: int | None = None) -> Iterator[list[tuple[bytes, int]]]:
        """What came since the last call, a bounded piece at a time: each line with the offset behind it.

        With `last`, a final line without a newline counts too; `most` bytes are read, however many there are.
        """
        if self._fd is None and not self._open():
            return
        assert self._fd is not None
        end = os.fstat(self._fd).st_size
        end = end if most is None else min(end, self.reach + most)
        while (at := self.offset + len(self._rest)) < end:
            chunk = os.pread(self._fd, min(CHUNK, end - at), at)
            if not chunk:
                break
            lines = self._split(chunk)
            for first in range(0, len(lines), MOST_LINES):
                yield lines[first : first + MOST_LINES]
        if last and self._rest:
            line, self._rest = self._rest, b""
            self.offset += len(line)
            yield [(line, self.offset)]

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _open(self) -> bool:
        """Open the file, if it is there. Who left off within a line had skipped its beginning, and skips the rest."""
        self._fd = files.open_regular(self._path)
        if self._fd is not None and self.offset:
            self._skips = os.pread(self._fd, 1, self.offset - 1) not in (b"\n", b"")
        return self._fd is not None

    def _split(self, chunk: bytes) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = []
        if self._skips:
            skipped, ended, chunk = chunk.partition(b"\n")
            self.offset += len(skipped) + len(ended)
            self._skips = not ended
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self.offset += len(line) + 1
            found.append((line, self.offset))
        if len(self._rest) > LONGEST:
            self.offset += len(self._rest)
            self._rest = b""
            self._skips = True
        return found


def condense(events: Sequence[Told]) -> list[Told]:
    """The same events, with every long run of plain words or of rubbish as one: its beginning and its end."""
    found: list[Told] = []
    for kind, run in groupby(events, key=lambda told: told[0].kind):
        told = list(run)
        if kind in CHATTER and len(told) > LONG_RUN:
            ends = [event.text or "" for event, _ in (*told[:ENDS], *told[-ENDS:])]
            between = f"… {len(told) - 2 * ENDS} more of these, in the attempt's stdout …"
            text = "\n".join([*ends[:ENDS], between, *ends[ENDS:]])
            told = [(replace(told[0][0], text=text), told[-1][1])]
        found += told
    return found


def fold(known: Attempt, event: Event) -> Attempt:
    """What an event adds to what is known of an attempt."""
    known = _provider(known, event)
    match event.kind:
        case EventKind.SESSION:
            return replace(
                known,
                session=event.session or known.session,
                thinks_with=_named(event.model) or known.thinks_with,
                **_context(event),
            )
        case EventKind.TOOL_CALLED:
            name = clean(event.tool or "unknown", 80)
            called = replace(known, finished=False, tools=known.tools | {name: known.tools.get(name, 0) + 1})
            return _asks(called, event) if name.endswith(ASK) else called
        case EventKind.TOOL_ENDED if known.asking is not None and event.call == known.asking_call:
            return replace(known, asking=None, asking_call=None)
        case EventKind.QUESTION:
            return replace(known, question=_also(known.question, event.text))
        case EventKind.USAGE:
            return _used(known, event)
        case EventKind.RESULT:
            return _result(known, event)
        case EventKind.ERROR:
            return replace(known, error=clean(event.text or "it did not say what", 500))
        case _:
            return known


def _provider(known: Attempt, event: Event) -> Attempt:
    """What an event says of whoever serves the model: it answers, it refuses, a window of it is used up. An answer ends
    what was refused before.
    """
    if _is_turn(event):
        known = replace(known, turned=True, status=None, limited=False)
    if event.status is not None:
        known = replace(known, status=event.status)
    if event.window is not None and event.window.exhausted:
        known = replace(known, limited=True)
    return known


def _is_turn(event: Event) -> bool:
    """Whether a model must have answered for this. Words alone show nothing: a program may speak for itself."""
    if event.kind is EventKind.RESULT:
        return event.ok is True
    return event.kind is EventKind.TOOL_CALLED or (event.kind is EventKind.USAGE and event.usage is not None)


def _also(asked: str | None, text: str | None) -> str:
    """What an agent asks, with what it has asked before."""
    words = (text or "").strip() or "it asks, and does not say what"
    return words if asked is None else f"{asked}\n\n{words}"[:LONGEST_QUESTION]


def _asks(attempt: Attempt, event: Event) -> Attempt:
    """The agent waits for a person, from now until this call ends. Who knows that can tell it from one that hangs."""
    return replace(attempt, asking=clean(" ".join((event.text or "it asks").split()), 300), asking_call=event.call)


def _used(attempt: Attempt, event: Event) -> Attempt:
    """What one request used; told with every piece of its answer, it counts once. Or how full the context is now."""
    usage = event.usage
    context = event.context if usage is None else None if event.aside else usage.prompt
    known = replace(
        attempt,
        cost=attempt.cost if event.spent is None else (attempt.cost or 0.0) + event.spent,
        peak_context=attempt.peak_context if context is None else max(attempt.peak_context or 0, context),
        **_context(event),
    )
    if usage is None:
        return known
    # what was spent since the last request is this one's, where the agent tells it so
    return _counted(known, event, replace(usage, cost=event.spent if usage.cost is None else usage.cost))


def _counted(attempt: Attempt, event: Event, usage: Usage) -> Attempt:
    """The attempt with the tokens of a request, as far as they were not counted before. One that is told again has
    read what it read, and written more.
    """
    request, total = event.call, usage.total
    before = attempt.recent.get(request or "", 0)
    recent = attempt.recent
    if request is not None:
        others = [(name, count) for name, count in recent.items() if name != request]
        recent = dict([*others[1 - RECENT :], (request, max(before, total))])
    more = max(0, total - before)
    return replace(
        attempt,
        tokens=(attempt.tokens or 0) + more,
        usage=_with(attempt.usage, _model(attempt, event), Usage(0, more) if before else usage),
        recent=recent,
    )


def _model(attempt: Attempt, event: Event) -> str:
    """Whose tokens an event tells of: the model that it names, else the attempt's."""
    return _named(event.model) or attempt.thinks_with or attempt.model or ""


def _named(model: str | None) -> str | None:
    return None if model is None else clean(model, 200)


def _with(known: dict[str, Usage], model: str, usage: Usage) -> dict[str, Usage]:
    name = model if model in known or len(known) < MOST_MODELS else OTHER_MODELS
    return known | {name: known[name].plus(usage) if name in known else usage}


def _context(event: Event) -> dict[str, Any]:
    """What an event says about how much the agent's model reads at once."""
    if event.context_limit is None:
        return {}
    return {"context_limit": event.context_limit, "context_from": AGENT}


def _result(attempt: Attempt, event: Event) -> Attempt:
    """The agent's own account of its session: totals overrule what was added up on the way.

    A session that is gone on with counts from its beginning, so what earlier attempts used of it is taken off.
    """
    failed = clean(event.text or "it did not say what", 500) if event.ok is False else None
    return replace(
        attempt,
        finished=True,
        error=failed,
        asking=None,
        asking_call=None,
        session=event.session or attempt.session,
        session_tokens=event.total.total if event.total else attempt.session_tokens,
        session_cost=event.cost if event.cost is not None else attempt.session_cost,
        session_usage=_session(attempt, event),
        tokens=_tokens(attempt, event),
        usage=_by_model(attempt, event),
        cost=max(0.0, event.cost - attempt.cost_before) if event.cost is not None else attempt.cost,
        **_context(event),
    )


def _tokens(attempt: Attempt, event: Event) -> int | None:
    """Of the attempt: out of the session's total, or with those of the turn that ended, whichever was told."""
    if event.total is not None:
        return max(0, event.total.total - attempt.tokens_before)
    return attempt.tokens if event.usage is None else (attempt.tokens or 0) + event.usage.total


def _session(attempt: Attempt, event: Event) -> dict[str, Usage]:
    """What the whole session used by model, as far as the agent has said."""
    if event.models:
        told: dict[str, Usage] = {}
        for model, usage in event.models.items():
            told = _with(told, clean(model, 200), usage)
        return told
    if event.total is not None and len(attempt.usage) <= 1:
        return {next(iter(attempt.usage), _model(attempt, event)): event.total}
    return attempt.session_usage


def _by_model(attempt: Attempt, event: Event) -> dict[str, Usage]:
    """Of the attempt: out of the session's, or with those of the turn that ended. Totals over several models at once
    say nothing of each, and leave what was added up.
    """
    if event.models or (event.total is not None and len(attempt.usage) <= 1):
        nothing, before = Usage(), attempt.usage_before
        rest = {name: used.minus(before.get(name, nothing)) for name, used in _session(attempt, event).items()}
        return {name: used for name, used in rest.items() if used.total or used.cost}
    if event.total is None and event.usage is not None:
        return _with(attempt.usage, _model(attempt, event), event.usage)
    return attempt.usage

"""Records of the log and of tasks as sentences: the local time, who, and what happened. All of it is pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

Record = Mapping[str, object]
MAX_FACT_CHARS = 500
LINE_BREAK = " ⏎ "
MAIN = ("text", "cause", "why", "problem", "reason")  # what a sentence says after its colon


def log_line(record: Record) -> str:
    """A record of a supervisor's log: `10:00:00  t1.1  settled (finished, accepted): 1 commit`."""
    facts = dict(record)
    at, event = facts.pop("at", None), str(facts.pop("event", "something happened"))
    level = facts.pop("level", "info")
    who = str(facts.pop("attempt", "") or facts.get("task", ""))
    facts.pop("task", None)
    mark = "" if level == "info" else f"{level}: "
    return "  ".join(part for part in (_time(at), who, mark + _sentence(event, facts)) if part)


def event_line(record: Record) -> str:
    """An event of a task: `10:00:00  t1.1  calls Bash: make check`."""
    kind = str(record.get("kind", "other"))
    words = _event_words(kind, record)
    return "  ".join(part for part in (_time(record.get("at")), str(record.get("attempt") or ""), words) if part)


def record_line(line: str, words: Callable[[Record], str]) -> str:
    """A line of a file in words; one that is no record stays as it is."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    return words(record) if isinstance(record, dict) else line


def _event_words(kind: str, record: Record) -> str:
    said = {
        "session_started": lambda: _sentence("its session began", _only(record, "model", "context_limit")),
        "said": lambda: f"says: {_one_line(record.get('text'))}",
        "tool_called": lambda: _with_text(f"calls {record.get('tool') or 'a tool'}", record),
        "tool_ended": lambda: _with_text(_tool_end(record), record),
        "usage": lambda: _usage(record),
        "result": lambda: _with_text("says that it failed" if record.get("ok") is False else "ended its turn", record),
        "question": lambda: f"asks you: {_one_line(record.get('text'))}",
        "permission": lambda: _with_text(_permission(record), record),
        "limited": lambda: _sentence("its provider tells its limits", _window(record)),
        "error": lambda: _with_text(f"error {record.get('status') or ''}".rstrip(), record),
        "refused_command": lambda: _with_text("was refused a command of the queue", record),
        "life_changed": lambda: _life(record),
        "not_begun": lambda: _with_text(f"did not begin ({record.get('hindrance')})", record),
        "settled": lambda: _sentence("settled", _only(record, "ending", "verdict", "cause")),
    }.get(kind)
    if said is not None:
        return said()
    rest = {name: value for name, value in record.items() if name not in ("id", "at", "attempt", "kind", "offset")}
    return _sentence(kind.replace("_", " "), rest)


def _tool_end(record: Record) -> str:
    return f"{record.get('tool') or 'its tool'} {'failed' if record.get('ok') is False else 'came back'}"


def _permission(record: Record) -> str:
    what = record.get("tool") or "a tool"
    return f"was denied {what}" if record.get("ok") is False else f"asks for leave to use {what}"


def _usage(record: Record) -> str:
    usage = record.get("usage")
    if not isinstance(usage, dict):
        return _sentence("tells its context", _only(record, "context", "context_limit", "spent"))
    cached = f", {usage['cache_read']} of them from a cache" if usage.get("cache_read") else ""
    return f"read {usage.get('prompt', 0)} tokens{cached}, wrote {usage.get('completion', 0)}"


def _window(record: Record) -> Record:
    window = record.get("window")
    return {name: value for name, value in window.items() if value is not None} if isinstance(window, dict) else {}


def _life(record: Record) -> str:
    why = record.get("why")
    return f"is {record.get('state')}" + (f": {_one_line(why)}" if why else "")


def _with_text(words: str, record: Record) -> str:
    text = _one_line(record.get("text"))
    return f"{words}: {text}" if text else words


def _sentence(event: str, facts: Record) -> str:
    """What happened, the facts of it in brackets, and what it says for itself after a colon."""
    known = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
    main = next((name for name in MAIN if name in known), None)
    text = _one_line(known.pop(main)) if main else ""
    bare = [str(known.pop(name)) for name in ("ending", "verdict") if name in known]
    beside = ", ".join([*bare, *(f"{name.replace('_', ' ')} {_one_line(value)}" for name, value in known.items())])
    return event + (f" ({beside})" if beside else "") + (f": {text}" if text else "")


def _only(record: Record, *names: str) -> Record:
    return {name: record[name] for name in names if record.get(name) is not None}


def _one_line(value: object) -> str:
    """A text in one line; where lines end is marked, and a command of several lines is one command."""
    lines = [" ".join(line.split()) for line in str("" if value is None else value).splitlines()]
    text = LINE_BREAK.join(line for line in lines if line)
    return text if len(text) <= MAX_FACT_CHARS else text[: MAX_FACT_CHARS - 1] + "…"


def _time(at: object) -> str:
    """A time by the clock on the wall, with its day when that is not today."""
    if not isinstance(at, int | float):
        return ""
    try:
        moment = datetime.fromtimestamp(at)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment:%H:%M:%S}" if moment.date() == datetime.now().date() else f"{moment:%Y-%m-%d %H:%M:%S}"

"""What agents in a terminal told of themselves: lines that `tell.py` noted down, from a stranger like all output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fleet.coders.stream import MOST, Fields, brief, fields, parse, session, short, word
from fleet.core.talk import Signal, SignalKind

LONGEST_PATH = 4096


# The names that Claude Code gave its hooks, and others took over
KINDS = {
    "SessionStart": SignalKind.READY,
    "UserPromptSubmit": SignalKind.TAKEN,
    "PreToolUse": SignalKind.ACTED,
    "PostToolUse": SignalKind.ACTED,
    "PostToolUseFailure": SignalKind.ACTED,
    "PermissionDenied": SignalKind.ACTED,
    "PermissionRequest": SignalKind.ASKS,
    "Notification": SignalKind.RESTED,  # only asked for when it says that the agent is idle
    "Stop": SignalKind.RESTED,
    "StopFailure": SignalKind.RESTED,
    "Interrupt": SignalKind.RESTED,
    "SessionEnd": SignalKind.LEFT,
}


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that was told, and when."""

    at: float
    what: Fields

    def signal(self, kind: SignalKind) -> Signal:
        """It as a signal of this kind, with the session and the transcript that it names."""
        where, file = session(self.what.get("session_id")), path(self.what.get("transcript_path"))
        return Signal(kind, self.at, self._text(kind), where, file)

    def _text(self, kind: SignalKind) -> str | None:
        match kind:
            case SignalKind.TAKEN:
                return whole(self.what.get("prompt"))
            case SignalKind.ACTED | SignalKind.ASKS if "tool_name" in self.what:
                return act(self.what.get("tool_name"), self.what.get("tool_input"))
            case SignalKind.LOGGED_OUT:
                return word(self.what.get("last_assistant_message"))
            case _:
                return word(self.what.get("reason")) or word(self.what.get("message"))


def told(line: bytes) -> Told | None:
    """What a line of the signals file says was told; None when it is none."""
    data = parse(line) or {}
    at, text = data.get("at"), data.get("told")
    if not isinstance(text, str) or isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at < MOST:
        return None
    return Told(float(at), parse(text.encode("utf-8", "replace")) or {})


def hooked(one: Told) -> list[Signal]:
    """What a hook of one of these names says."""
    name = one.what.get("hook_event_name")
    return [one.signal(KINDS[name])] if isinstance(name, str) and name in KINDS else []


def moment(stamp: object) -> float | None:
    """Seconds since 1970 of a time as transcripts write it."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else None
    except (ValueError, OverflowError):
        return None


def path(value: object) -> str | None:
    """The name of a file, from its root."""
    fit = isinstance(value, str) and value.startswith("/") and len(value) <= LONGEST_PATH and "\0" not in value
    return whole(value) if fit else None


def whole(value: object) -> str | None:
    """A text of any length that can be written down."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def act(tool: object, arguments: object) -> str:
    """A tool and what it is called with: the same words when it is called, asked for, and done."""
    return short(f"{word(tool) or 'a tool'}: {brief(fields(arguments)) or ''}".removesuffix(": "))


def noted(told: Mapping[str, object], at: float = 1.0) -> bytes:
    """A line as `tell.py` writes it."""
    return json.dumps({"at": at, "told": json.dumps(dict(told))}).encode()

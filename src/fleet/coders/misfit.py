"""What is wrong with what a coder gives: its facts, its commands, its events. Nothing is good."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.coders.base import Can, Coder, Command, is_whole
from fleet.coders.stream import LONGEST, SESSION
from fleet.core.talk import Signal, SignalKind
from fleet.core.work import Event, EventKind, Usage, Window

TALKS = ("converse", "pasted", "signals", "recall")


def misfit(coder: Coder) -> str:
    """What is wrong with a coder's own facts."""
    limit = coder.context_limit
    facts: dict[str, bool] = {
        "name must be a word": isinstance(coder.name, str) and bool(coder.name.strip()),
        "program must name what is started": isinstance(coder.program, str) and bool(coder.program.strip("\0 ")),
        "context_limit must be a number of tokens, or None": limit is None or _is_count(limit),
        "can must be a Can": isinstance(coder.can, Can),
        "unproven must be text": isinstance(coder.unproven, str),
        "command and read must be methods": callable(coder.command) and callable(coder.read),
        f"who can talk has the methods {', '.join(TALKS)}": not getattr(coder.can, "talk", False) or _is_talker(coder),
    }
    return next((wrong for wrong, right in facts.items() if not right), "")


def _is_talker(coder: object) -> bool:
    methods = all(callable(getattr(coder, name, None)) for name in TALKS)
    return methods and isinstance(getattr(coder, "tells", None), bool)


def misfit_command(made: object) -> str:
    """What is wrong with what should be a command."""
    if not isinstance(made, Command):
        return f"{type(made).__name__} is no Command"
    if not isinstance(made.argv, tuple) or not made.argv or not made.argv[0]:
        return "argv must be a tuple that begins with a program"
    if not isinstance(made.stdin, str) or not isinstance(made.env, Mapping):
        return "stdin must be text, and env names with values"
    words = [*made.argv, *made.env, *made.env.values()]
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        return "every word of argv and env must be text without a NUL"
    return ""


def flaw(event: object) -> str:
    """What is wrong with an event, for whoever has to keep it: texts are short and writable, numbers are numbers."""
    if not isinstance(event, Event):
        return f"{type(event).__name__} is no Event"
    if not isinstance(event.kind, EventKind):
        return f"{event.kind!r} is no kind of event"
    return _texts_of(event) or _numbers_of(event) or _window_of(event.window)


def flaw_of_signal(signal: object) -> str:
    """What is wrong with a signal. A prompt in it may be of any length."""
    if not isinstance(signal, Signal) or not isinstance(signal.kind, SignalKind):
        return f"{type(signal).__name__} is no Signal"
    texts = [text for text in (signal.text, signal.session, signal.transcript) if text is not None]
    if not all(isinstance(text, str) and is_whole(text) for text in texts):
        return "its texts must be text that can be written as UTF-8"
    if signal.session is not None and not SESSION.match(signal.session):
        return f"the session {signal.session!r} could be read as an option"
    return "" if _is_amount(signal.at) else "at must be seconds since 1970"


def _texts_of(event: Event) -> str:
    for name in ("text", "tool", "call", "session", "model"):
        value = getattr(event, name)
        if value is not None and not _is_text(value):
            return f"{name} must be short text that can be written as UTF-8"
    if event.session is not None and not SESSION.match(event.session):
        return f"the session {event.session!r} could be read as an option"
    return "" if event.ok is None or isinstance(event.ok, bool) else "ok must be true, false or None"


def _numbers_of(event: Event) -> str:
    for usage in (event.usage, event.total):
        if usage is not None and not (
            isinstance(usage, Usage) and _is_count(usage.prompt, 0) and _is_count(usage.completion, 0)
        ):
            return "usage and total must be a Usage of two numbers of tokens"
    if not all(amount is None or _is_amount(amount) for amount in (event.cost, event.spent)):
        return "cost and spent must be dollars"
    if not all(number is None or _is_count(number) for number in (event.context, event.context_limit, event.status)):
        return "context, context_limit and status must be numbers"
    return ""


def _window_of(window: object) -> str:
    if window is None:
        return ""
    if not isinstance(window, Window) or not _is_text(window.name) or not isinstance(window.exhausted, bool):
        return "window must be a Window"
    known = [amount for amount in (window.used, window.resets) if amount is not None]
    return "" if all(map(_is_amount, known)) else "a window's numbers must be numbers"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST + 100 and is_whole(value)


def _is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 10**17


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**15

"""Whether an agent has begun with what it was given, and what keeps one that has not. All of it is pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.core.work import Event, EventKind, Hindrance

TAIL = 300  # characters


@dataclass(frozen=True, slots=True)
class Beginning:
    """By what an agent shows that it has begun."""

    names: tuple[str, ...] = ()  # of the session that it was told to begin or to go on with; empty: it names its own
    words: bool = False  # what it says is its own or its model's, and no banner


def begins(event: Event, by: Beginning) -> bool:
    """Whether an event shows that the agent we started has begun.

    One that names our session, or any session where we could choose none: nobody else can write into its pipe. Failing
    that, what only a model's answer can bring about. Lines that make no sense, and errors, never do.
    """
    match event.kind:
        case EventKind.SESSION:
            return event.session in by.names if by.names else event.session is not None or event.model is not None
        case EventKind.TOOL_CALLED | EventKind.TOOL_ENDED:
            return True
        case EventKind.USAGE:
            return event.usage is not None or event.context is not None
        case EventKind.RESULT:
            return event.ok is True
        case EventKind.SAID | EventKind.QUESTION:
            return by.words
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Remains:
    """What is known of an agent in which no model has answered: how its process ended, and what it printed last."""

    code: int | None = None
    error: str | None = None  # of whoever should have started it
    status: int | None = None  # what the provider answered
    said: Sequence[str] = ()  # its last lines, errors and what the agent itself reported among them


WORDS: tuple[tuple[Hindrance, re.Pattern[str]], ...] = tuple(
    (hindrance, re.compile(words, re.IGNORECASE))
    for hindrance, words in (
        (
            Hindrance.PROGRAM,
            r"\bENOENT\b|command not found|no such file or directory: \S+$|cannot find module|exec format error"
            r"|env: .*no such file|not installed",
        ),
        (
            Hindrance.TERMINAL,
            r"not a (?:tty|terminal)|inappropriate ioctl|raw mode is not supported|requires? an? (?:interactive )?"
            r"(?:tty|terminal)|/dev/tty|must be run in a terminal|no (?:controlling )?t(?:ty|erminal)",
        ),
        (
            Hindrance.ROOT,
            r"cannot be used with root",
        ),
        (
            Hindrance.LOGIN,
            r"not logged in|please (?:run /)?log ?in|invalid (?:api|x-api)[ -]key|\blogin required|no auth type"
            r"|set an auth method|oauth token has (?:expired|been revoked)|must (?:specify|set) the \S+_API_KEY"
            r"|api[ _-]key (?:not found|is missing|not valid)|401 unauthori[sz]ed",
        ),
        (
            Hindrance.LEAVE,
            r"requested permissions? to|permission to use .* (?:has been )?denied|haven't granted it|approval (?:is )?"
            r"(?:required|policy)|do you trust|trusted (?:directory|folder)|not inside a trusted|untrusted"
            r"|permission not given",
        ),
        (
            Hindrance.AUTH,
            r"unauthori[sz]ed|authenticat|credential|\b401\b|\b403\b|forbidden|oauth",
        ),
        (
            Hindrance.MODEL,
            r"model\b.{0,80}(?:not (?:found|exist|supported|available)|does not exist|may not exist)|unknown model"
            r"|no such model|ProviderModelNotFound|issue with the selected model|model_not_found|invalid model"
            r"|status 404\b|connection (?:refused|error)|ECONNREFUSED|unable to connect",
        ),
        (
            Hindrance.PROMPT,
            r"no (?:prompt|input|message|stdin)|prompt (?:is )?(?:required|missing|must be)|input must be provided"
            r"|you must provide a message|empty (?:prompt|message)",
        ),
    )
)
STATUS = {401: Hindrance.LOGIN, 403: Hindrance.AUTH, 404: Hindrance.MODEL}
CODES = {126: Hindrance.PROGRAM, 127: Hindrance.PROGRAM}


def hindrance(remains: Remains) -> Hindrance:
    """What kept an agent from beginning: by what was answered, else by how it ended, else by its own words."""
    if remains.error is not None:
        return _by_words((remains.error,)) or Hindrance.UNKNOWN
    by_status = STATUS.get(remains.status or 0)
    by_code = CODES.get(remains.code or 0)
    return by_status or by_code or _by_words(remains.said) or Hindrance.UNKNOWN


def _by_words(said: Sequence[str]) -> Hindrance | None:
    """The last line that says something known; the order of the kinds decides within one line."""
    for line in reversed(said):
        for kind, words in WORDS:
            if words.search(line):
                return kind
    return None


def tail(said: Sequence[str]) -> str:
    """The last of what was seen, on one line."""
    text = " / ".join(" ".join(line.split()) for line in said if line.strip())
    return text if len(text) <= TAIL else f"…{text[1 - TAIL :]}"

"""Gemini CLI: `gemini --output-format stream-json`, the prompt on its standard input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from fleet.coders.base import Can, Command, Job, Talker, checked, named, option
from fleet.coders.quiet import Quiet
from fleet.coders.stream import (
    Fields,
    brief,
    count,
    dumped,
    fields,
    known,
    other,
    parse,
    print_of,
    session,
    short,
    strange,
    word,
)  # fmt: skip
from fleet.core.work import Event, EventKind, Usage, Window

OPTIONS = ("--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust")
# Gemini CLI runs a `/command` at the very start of a prompt, and puts in the content of every `@file` that has no
# backslash before it. Nobody takes the backslash away again: so the agent is told of it first, and no command is first.
NOTE = "In what follows, \\@ stands for a plain at sign.\n\n"
AT = re.compile(r"(?<!\\)@")
CODE = re.compile(r'"code": ?(\d{3})\b')
WORDS = {"wait and try again later": 429, "quota limitations": 429, "model is overloaded": 503}  # without a code
WAIT = re.compile(r"\b(?:retry (?:after|in)|reset after) ([0-9.hms]{2,40})")
SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|m|s)")
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
CAN = Can(talk=True, name=True, tools=True, words=True)
FLAGS = ("--approval-mode=yolo",)  # in a terminal, when the user gives none


@dataclass(frozen=True, slots=True)
class Gemini(Quiet):
    """It says only at its end how much it read, so nobody knows how full its context is.

    It could take up a session again; but 0.61.0 then sends the result of every tool twice, which Google refuses.
    """

    name: str = "gemini"
    context_limit: int | None = None
    program: str = "gemini"
    can: Can = CAN
    unproven: str = "a login with Google, and the services of Google: it was seen with an API key and a scripted model"

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        return Command(("gemini", *OPTIONS, *model, *named(job), *job.args), stdin=plain(job.prompt))

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        return Command(("gemini", "--skip-trust", *model, *(job.args or FLAGS)))


def plain(prompt: str) -> str:
    """The prompt with nothing in it that Gemini CLI, or Qwen Code which came out of it, would expand."""
    return NOTE + AT.sub(r"\\@", prompt)


def read(line: bytes) -> list[Event]:
    """The events in one line of Gemini CLI's stream."""
    data = parse(line)
    if data is None:
        return strange(line)
    match data.get("type"):
        case "init":
            return [Event(EventKind.SESSION, session=session(data.get("session_id")), model=word(data.get("model")))]
        case "message":
            return [_message(data)]
        case "tool_use":
            tool, call = word(data.get("tool_name")), word(data.get("tool_id"))
            given = data.get("parameters")
            return [Event(EventKind.TOOL_CALLED, text=brief(given), tool=tool, call=call, given=print_of(given))]
        case "tool_result":
            return [_ended(data)]
        case "error":  # a warning: whether it failed is said at its end
            return [Event(EventKind.ERROR, text=word(data.get("message")))]
        case "result":
            return [_result(data)]
        case kind:
            return [other(word(kind) or dumped(data))]


def _message(data: Fields) -> Event:
    """Something said, or a piece of it; what the user said is the prompt, which is known."""
    if data.get("role") != "assistant":
        return other(word(data.get("role")) or "message")
    return Event(EventKind.SAID, text=word(data.get("content")))


def _ended(data: Fields) -> Event:
    """A command that ran is a success here, whatever its exit code."""
    text = word(data.get("output")) or word(fields(data.get("error")).get("message"))
    return Event(EventKind.TOOL_ENDED, text=text, call=word(data.get("tool_id")), ok=data.get("status") == "success")


def _result(data: Fields) -> Event:
    failed = data.get("status") != "success"
    text = failure(data) if failed else None
    status = _status(text or "")
    window = _window(text or "", data.get("timestamp")) if status == 429 else None
    stats = fields(data.get("stats"))
    each = {short(name): used for name, part in fields(stats.get("models")).items() if (used := _usage(part))}
    total, models = _usage(stats), each or None
    return Event(EventKind.RESULT, ok=not failed, text=text, total=total, models=models, status=status, window=window)


def failure(data: Fields) -> str | None:
    """What went wrong, on one line."""
    text = fields(data.get("error")).get("message")
    return word(" ".join(text.split())) if isinstance(text, str) else None


def _usage(value: object) -> Usage | None:
    """Of this run. What came from a cache is inside the input; what was thought is in the total alone."""
    used = fields(value)
    read, total = count(used.get("input_tokens")), count(used.get("total_tokens"))
    told = Usage(read, max(total - read, count(used.get("output_tokens"))), known(used.get("cached")))
    return told if told.total else None


def _status(text: str) -> int | None:
    """What the provider answered: it stands in the text as a number, or in words of Gemini CLI's own, or not at all."""
    code = CODE.search(text)
    return int(code[1]) if code else next((status for words, status in WORDS.items() if words in text), None)


def _window(text: str, said: object) -> Window:
    """What is used up; and until when, if the text says how long to wait."""
    name = "daily quota" if "daily quota" in text else "quota"
    wait, now = WAIT.search(text), _seconds(said)
    spans = [float(number) * SECONDS[unit] for number, unit in SPAN.findall(wait[1])] if wait else []
    return Window(name, resets=now + sum(spans) if spans and now is not None else None, exhausted=True)


def _seconds(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else None
    except (ValueError, OverflowError):
        return None


_promise: type[Talker] = Gemini

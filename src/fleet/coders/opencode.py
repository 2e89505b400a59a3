"""OpenCode: `opencode run --format json`, the prompt on its standard input; and `opencode`, which tells by plugins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fleet.coders.base import ASK_GRACE, ASK_SERVER, Can, Command, Job, Talker, checked, option
from fleet.coders.stream import (
    Fields,
    brief,
    count,
    dollars,
    dumped,
    fields,
    has_count,
    known,
    other,
    parse,
    print_of,
    session,
    strange,
    word,
)
from fleet.coders.told import hooked, told
from fleet.core.talk import Signal
from fleet.core.work import Event, EventKind, Usage

# `--auto` allows what would be asked, in subagents too, and leaves what the user forbade forbidden; permissions in the
# environment (OPENCODE_PERMISSION) would undo the user's own.
OPTIONS = ("--format", "json", "--auto")
CAN = Can(resume=True, ask=True, usage=True, cost=True, talk=True, tools=True, words=True)
FLAGS = ("--auto",)  # in a terminal, when the user gives none
PLUGINS = Path(__file__).with_name("opencode_talk")


@dataclass(frozen=True, slots=True)
class OpenCode:
    name: str = "opencode"
    context_limit: int | None = None
    program: str = "opencode"
    can: Can = CAN
    unproven: str = ""
    tells: bool = True

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--session", job.session)
        return Command(("opencode", "run", *OPTIONS, *model, *resume, *job.args), stdin=job.prompt, env=_asking(job))

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--session", job.session)
        return Command(("opencode", *model, *resume, *(job.args or FLAGS)), env=_telling(job, tell))

    def pasted(self, prompt: str) -> str:
        """A `!` in front would run the rest in a shell; a `/` is a command of OpenCode's own, and is left one."""
        return f" {prompt}" if prompt.startswith("!") else prompt

    def signals(self, line: bytes) -> list[Signal]:
        one = told(line)
        return [] if one is None else hooked(one)

    def recall(self, line: bytes) -> list[Event]:
        """OpenCode keeps its transcript in a database: the lines of it that matter are told like signals.

        The end of a turn is none of the session.
        """
        one = told(line)
        said = fields(one.what.get("line")) if one is not None else {}
        return [event for event in _heard(said) if event.kind is not EventKind.RESULT] if said else []


def _telling(job: Job, tell: tuple[str, ...]) -> dict[str, str]:
    """A plugin beside the user's own, and one of the terminal's: it alone knows when the prompt is there."""
    settings = {"plugin": [PLUGINS.joinpath("tell.js").as_uri()], **_asked(job)}
    return {
        "FLEET_TELL": json.dumps(tell),
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_TUI_CONFIG": str(PLUGINS / "tui.json"),
    }


def _asking(job: Job) -> dict[str, str]:
    """OpenCode adds what this variable holds to the user's own settings."""
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(_asked(job))} if job.ask else {}


def _asked(job: Job) -> Fields:
    """The server that asks a person."""
    if not job.ask:
        return {}
    wait = round(1000 * (job.ask_wait + ASK_GRACE))
    return {"mcp": {ASK_SERVER: {"type": "local", "command": job.ask, "enabled": True, "timeout": wait}}}


def read(line: bytes) -> list[Event]:
    """The events in one line of OpenCode's stream."""
    data = parse(line)
    return strange(line) if data is None else _heard(data)


def _heard(data: Fields) -> list[Event]:
    part, where = fields(data.get("part")), session(data.get("sessionID"))
    match data.get("type"):
        case "step_start":
            return [Event(EventKind.SESSION, session=where)]
        case "text":
            return [Event(EventKind.SAID, text=word(part.get("text")))]
        case "tool_use":
            return _tool(part)
        case "step_finish":
            return _finished(part, where)
        case "error":
            error = data.get("error")
            status = count(fields(fields(error).get("data")).get("statusCode")) or None
            return [Event(EventKind.RESULT, ok=False, text=_error(error), session=where, status=status)]
        case kind:
            return [other(word(kind) or dumped(data))]


def _tool(part: Fields) -> list[Event]:
    """A tool is told of once, when it ended: the call and its end are one line."""
    tool, call, state = word(part.get("tool")), word(part.get("callID")), fields(part.get("state"))
    given = state.get("input")
    called = Event(EventKind.TOOL_CALLED, text=brief(given), tool=tool, call=call, given=print_of(given))
    said = word(state.get("error")) or word(state.get("output"))
    match state.get("status"):
        case "completed" | "error" as status:
            return [called, Event(EventKind.TOOL_ENDED, text=said, tool=tool, call=call, ok=status == "completed")]
        case _:
            return [called]


def _finished(part: Fields, where: str | None) -> list[Event]:
    """One request of the model; there is no last line, so the one that calls no more tools is the end.

    Its cost is that of this request alone; it is 0 as well when OpenCode has no price, so then it is not known.
    """
    spent = dollars(part.get("cost")) or None
    events = [Event(EventKind.USAGE, usage=_usage(part.get("tokens")), spent=spent)]
    match part.get("reason"):
        case "tool-calls":
            return events
        case "stop":
            return [*events, Event(EventKind.RESULT, ok=True, session=where)]
        case reason:
            said = f"the model stopped early: {word(reason) or 'no reason given'}"
            return [*events, Event(EventKind.RESULT, ok=False, text=said, session=where)]


def _error(value: object) -> str:
    error = fields(value)
    said = fields(error.get("data"))
    name, status = word(error.get("name")) or "error", count(said.get("statusCode"))
    message = word(said.get("message")) or word(error.get("message")) or word(value)
    return f"{name}{f' ({status})' if status else ''}{f': {message}' if message else ''}"


def _usage(value: object) -> Usage | None:
    """What one request read, from a cache or not, and what it wrote, thinking included."""
    tokens = fields(value)
    cache = fields(tokens.get("cache"))
    prompt = count(tokens.get("input")) + count(cache.get("read")) + count(cache.get("write"))
    written = count(tokens.get("output")) + count(tokens.get("reasoning"))
    if not (has_count(tokens, "input", "output", "reasoning") or has_count(cache, "read", "write")):
        return None
    return Usage(prompt, written, known(cache.get("read")), known(cache.get("write")))


_promise: type[Talker] = OpenCode

"""Antigravity: `agy`, its input and output as streams of JSON. Written from its documentation, never seen at work."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fleet.coders.base import Can, Coder, Command, Job, checked, option
from fleet.coders.stream import (
    Fields,
    count,
    dumped,
    fields,
    has_count,
    items,
    other,
    parse,
    session,
    short,
    strange,
    word,
)
from fleet.core.work import Event, EventKind, Usage

OPTIONS = (
    "--input-format", "stream-json", "--output-format", "stream-json", "--dangerously-skip-permissions",
    "--print-timeout=24h",
)  # fmt: skip
ENVIRONMENT = {"AGY_CLI_DISABLE_AUTO_UPDATE": "true"}
TELLING = ("CommandLine", "TargetFile", "AbsolutePath", "SearchPath", "Url", "Query")
CAN = Can(resume=True, usage=True, words=True)


@dataclass(frozen=True, slots=True)
class Agy:
    """Its model stands in its own settings: of those that it is given on the command line it takes some for others."""

    name: str = "agy"
    context_limit: int | None = 128_000
    program: str = "agy"
    can: Can = CAN
    unproven: str = "all of it: written from documentation, tried on a stand-in only; the model of a task is ignored"

    def command(self, job: Job) -> Command:
        job = checked(job)
        resume = option("--conversation", job.session)
        return Command(("agy", *OPTIONS, *resume, *job.args), stdin=message(job.prompt), env=ENVIRONMENT)

    def read(self, line: bytes) -> list[Event]:
        return read(line)


def message(prompt: str) -> str:
    """The prompt as one line of the input stream."""
    content = [{"type": "text", "text": prompt}]
    return json.dumps({"event": "user", "message": {"role": "user", "content": content}}) + "\n"


def read(line: bytes) -> list[Event]:
    """The events in one line of agy's stream."""
    data = parse(line)
    if data is None:
        return strange(line)
    match data.get("event"):
        case "init":
            told = fields(data.get("init"))
            where = session(data.get("conversation_id")) or session(told.get("conversation_id"))
            return [Event(EventKind.SESSION, session=where, model=word(told.get("model")))]
        case "step_update":
            return _step(fields(data.get("step_update")))
        case "result":
            return [_result(fields(data.get("result")))]
        case kind:
            return [other(word(kind) or dumped(data))]


def _step(step: Fields) -> list[Event]:
    """A step is told of as it goes on and when it is done; what a request used is told once, with its last line."""
    match step.get("step_type"):
        case "agent_response":
            said = word(step.get("text_delta"))
            told = [Event(EventKind.SAID, text=said)] if said and said.strip() else []
        case "tool":
            told = _tool(step)
        case _:
            told = []
    used = _usage(step.get("usage"))
    told += [Event(EventKind.USAGE, usage=used)] if used is not None else []
    return told or [other(f"step/{word(step.get('step_type')) or '?'}")]


def _tool(step: Fields) -> list[Event]:
    info = fields(step.get("tool_info"))
    tool = word(step.get("tool_name")) or word(info.get("name"))
    call = f"step-{count(step.get('step_index'))}"
    match step.get("state"):
        case "ACTIVE":
            return [Event(EventKind.TOOL_CALLED, text=_asked(info), tool=tool, call=call)]
        case "DONE" | "ERROR" as state:
            said = word(info.get("output")) or word(info.get("result")) or _message(info.get("error"))
            return [Event(EventKind.TOOL_ENDED, text=said, tool=tool, call=call, ok=state == "DONE")]
        case _:
            return []


def _asked(info: Fields) -> str | None:
    given = fields(info.get("parameters"))
    return next((word(given[name]) for name in TELLING if word(given.get(name))), dumped(given) if given else None)


def _result(result: Fields) -> Event:
    """The end. An action that was denied is a failure, even where agy calls that a success.

    Whether the usage told here is of this turn or of the whole conversation is not documented; the steps told it.
    """
    status, denied = word(result.get("status")), items(result.get("denied_actions"))
    said = word(result.get("error")) or word(result.get("response")) or status
    if denied:
        said = short(f"not permitted: {', '.join(word(one.get('action')) or '?' for one in denied)}")
    return Event(
        EventKind.RESULT,
        text=said,
        ok=status == "SUCCESS" and not denied,
        session=session(result.get("conversation_id")),
    )


def _message(said: object) -> str | None:
    return word(said) or word(fields(said).get("message"))


def _usage(value: object) -> Usage | None:
    """What one request read and wrote. What came from a cache is inside the input, as thinking is inside the output."""
    used = fields(value)
    if not has_count(used, "input_tokens", "output_tokens"):
        return None
    return Usage(count(used.get("input_tokens")), count(used.get("output_tokens")))


_promise: type[Coder] = Agy

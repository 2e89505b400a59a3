"""Qwen Code: `qwen --output-format stream-json`, the prompt on its standard input. Its stream is like Claude Code's,
and so are the hooks by which it tells of itself in a terminal.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.coders import claude
from fleet.coders.base import ASK_GRACE, ASK_SERVER, Can, Command, Job, Talker, checked, named, option
from fleet.coders.gemini import failure, plain
from fleet.coders.stream import Fields, brief, count, fields, has_count, items, known, parse, word
from fleet.coders.told import hooked, told
from fleet.core.talk import Signal, SignalKind
from fleet.core.work import Event, EventKind, Usage

OPTIONS = ("--output-format", "stream-json", "--approval-mode", "yolo")
FAILED = re.compile(r"\[API Error: (?:(\d{3})\b)?")  # how what a provider refused begins, also where the model speaks
IDLE = "QWEN_CODE_MCP_TOOL_IDLE_TIMEOUT_MS"  # a tool that is silent for longer, else five minutes, is given up
FILES, FILES_END = "\n--- Content from referenced files ---", "--- End of content ---"
CAN = Can(resume=True, ask=True, usage=True, talk=True, name=True, tools=True, words=True)
SETTINGS = Path(__file__).with_name("qwen_talk") / "hooks.json"  # the lowest of all: the user's own count more
FLAGS = ("--approval-mode=yolo",)  # in a terminal, when the user gives none


@dataclass(frozen=True, slots=True)
class Qwen:
    """It does not say how much its model reads at once, so nobody knows how full its context is."""

    name: str = "qwen"
    context_limit: int | None = None
    program: str = "qwen"
    can: Can = CAN
    unproven: str = "the services of Alibaba: it was seen with a scripted model of OpenAI's protocol"
    tells: bool = True

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--resume", job.session)
        ask, env = _asking(job) if job.ask else ((), {})
        return Command(("qwen", *OPTIONS, *ask, *model, *resume, *named(job), *job.args), plain(job.prompt), env)

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--resume", job.session)
        ask, env = _asking(job) if job.ask else ((), {})
        told = {"FLEET_TELL": shlex.join(tell), "QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(SETTINGS)}
        return Command(("qwen", *ask, *model, *resume, *(job.args or FLAGS)), env=env | told)

    def pasted(self, prompt: str) -> str:
        """A `!` in front would run the rest in a shell; a `/` is a command of Qwen Code's own, and is left one."""
        return f" {prompt}" if prompt.startswith("!") else prompt

    def signals(self, line: bytes) -> list[Signal]:
        """With what a tool answered, its hook for a prompt is run too: without one."""
        one = told(line)
        heard = [_given(signal) for signal in hooked(one)] if one is not None else []
        return [signal for signal in heard if signal.kind is not SignalKind.TAKEN or signal.text]

    def recall(self, line: bytes) -> list[Event]:
        return _recalled(parse(line) or {})


def _given(signal: Signal) -> Signal:
    """The prompt as it was given, without the files that Qwen Code put behind it."""
    if signal.kind is not SignalKind.TAKEN or signal.text is None or not signal.text.endswith(FILES_END):
        return signal
    return replace(signal, text=signal.text.rpartition(FILES)[0])


def _recalled(data: Fields) -> list[Event]:
    """A line of the transcript. What else Qwen Code keeps there is its own affair."""
    if data.get("type") not in ("assistant", "tool_result"):
        return []
    events = [event for part in items(fields(data.get("message")).get("parts")) for event in _part(part)]
    used = fields(data.get("usageMetadata"))
    if has_count(used, "promptTokenCount", "candidatesTokenCount"):
        written = count(used.get("candidatesTokenCount")) + count(used.get("thoughtsTokenCount"))
        cached = known(used.get("cachedContentTokenCount"))
        usage = Usage(count(used.get("promptTokenCount")), written, cached)
        events.append(Event(EventKind.USAGE, usage=usage, model=word(data.get("model"))))
    return events


def _part(part: Fields) -> list[Event]:
    match part:
        case {"text": str() as text}:
            return [Event(EventKind.SAID, text=word(text))]
        case {"functionCall": dict() as call}:
            tool, name = word(call.get("name")), word(call.get("id"))
            return [Event(EventKind.TOOL_CALLED, text=brief(call.get("args")), tool=tool, call=name)]
        case {"functionResponse": dict() as ended}:
            said = word(fields(ended.get("response")).get("output"))
            return [Event(EventKind.TOOL_ENDED, text=said, tool=word(ended.get("name")), call=word(ended.get("id")))]
        case _:
            return []


def _asking(job: Job) -> tuple[tuple[str, ...], dict[str, str]]:
    """The server that asks a person, beside the user's own. Its tool is loaded at once, not searched for first."""
    program, *args = job.ask
    wait = round(1000 * (job.ask_wait + ASK_GRACE))
    server = {"command": program, "args": args, "timeout": wait, "alwaysLoadTools": True}
    return (f"--mcp-config={json.dumps({'mcpServers': {ASK_SERVER: server}})}",), {IDLE: str(wait)}


def read(line: bytes) -> list[Event]:
    """The events in one line of Qwen Code's stream: as Claude Code's, but for what is counted and how it fails."""
    events, data = claude.read(line), parse(line) or {}
    used = _usage(fields(data.get("message")).get("usage") or data.get("usage"))
    told = [_own(event, data, used) for event in events]
    return [event for event in told if event.kind is not EventKind.USAGE or event.usage] or told[:1]


def _own(event: Event, data: Fields, used: Usage | None) -> Event:
    match event.kind:
        case EventKind.SAID if FAILED.match(event.text or ""):
            return replace(event, kind=EventKind.ERROR, status=_status(event.text))
        case EventKind.USAGE:
            return replace(event, usage=used)
        case EventKind.RESULT:
            text = failure(data) or event.text
            return replace(event, text=text, total=used, models=None, status=None if event.ok else _status(text))
        case EventKind.OTHER if data.get("subtype") == "retry":
            return Event(EventKind.ERROR, text=_retry(fields(data.get("data"))))
        case _:
            return event


def _retry(told: Fields) -> str:
    """It does not say what the provider answered."""
    tries = f": try {count(told.get('attempt'))} of {count(told.get('maxRetries'))}" if told.get("attempt") else ""
    pause = count(told.get("delayMs")) // 1000
    return f"the model did not answer{tries}{f', again in {pause} s' if pause else ''}"


def _status(text: str | None) -> int | None:
    found = FAILED.match(text or "")
    return int(found[1]) if found and found[1] else None


def _usage(value: object) -> Usage | None:
    """What came from a cache is inside the input already. A request that was refused used nothing, and is none."""
    used = fields(value)
    cached = known(used.get("cache_read_input_tokens"))
    told = Usage(count(used.get("input_tokens")), count(used.get("output_tokens")), cached)
    return told if told.total else None


_promise: type[Talker] = Qwen

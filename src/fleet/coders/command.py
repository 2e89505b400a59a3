"""Any program as a coder, declared in runtime.toml, without code.

[coders.NAME]
argv = ["my-agent", "--go"]
prompt = "stdin"          # or "arg": the whole prompt becomes the last argument, exactly as it is
events = "text"           # each line is something said; "jsonl": our own field names; or the stream of a known
                          # agent: "claude", "codex", "opencode", "gemini", "qwen", "aider", "agy"
tools = true              # with "jsonl": it tells every tool that it calls, so work without a call is not its own
model_flag = "--model"    # the model follows as the next argument; with a "=" at its end, in the same one
resume_flag = "--resume"  # likewise the session; without it, a session is never taken up again
context_limit = 128000
interactive = ["my-agent"]  # how it is started in a terminal, where it is talked to; without it, it cannot be
"""

from __future__ import annotations

from importlib import import_module

from fleet.coders.base import Can, Command, Job, Talker, checked
from fleet.coders.quiet import Quiet
from fleet.coders.stream import (
    Fields,
    Reader,
    count,
    dollars,
    fields,
    known,
    other,
    parse,
    session,
    short,
    strange,
    word,
)  # fmt: skip
from fleet.core.errors import BadConfig
from fleet.core.frozen import dataclass
from fleet.core.text import clean, nearest
from fleet.core.work import Event, EventKind, Usage, Window

PROMPTS = ("stdin", "arg")
STREAMS = ("text", "jsonl", "claude", "codex", "opencode", "gemini", "qwen", "aider", "agy")
LONGEST_ARGUMENT = 128 * 1024 - 1  # bytes, on Linux; the rest of a command line has a limit of its own


@dataclass(frozen=True, slots=True)
class Declared(Quiet):
    """A program with the facts its user declared. Facts that cannot be meant are refused at once."""

    name: str
    argv: tuple[str, ...]
    prompt: str = "stdin"
    events: str = "text"
    model_flag: str | None = None
    resume_flag: str | None = None
    context_limit: int | None = None
    interactive: tuple[str, ...] = ()
    tools: bool | None = None  # whether it tells every tool that it calls; None: nobody has said

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0] or any("\0" in word for word in (*self.argv, *self.interactive)):
            raise BadConfig(f"{self._key('argv')} names no program", hint=f'{self._key("argv")} = ["my-agent"]')
        self._one_of("prompt", self.prompt, PROMPTS)
        self._one_of("events", self.events, STREAMS)

    @property
    def program(self) -> str:
        return self.argv[0]

    @property
    def can(self) -> Can:
        told = _told(self.events)
        resume, talk = self.resume_flag is not None, bool(self.interactive)
        return Can(
            resume=resume, usage=told.usage, cost=told.cost, talk=talk, words=told.words,
            tools=told.tools or self.tools is True, some_tools=self.events == "jsonl" and self.tools is None,
        )  # fmt: skip

    @property
    def unproven(self) -> str:
        return "declared by you; fleet has not seen it work"

    def command(self, job: Job) -> Command:
        job = checked(job)
        model, resume = _option(self.model_flag, job.model), _option(self.resume_flag, job.session)
        argv = (*self.argv, *model, *resume, *job.args)
        if self.prompt == "stdin":
            return Command(argv, stdin=job.prompt)
        return Command((*argv, self._argument(job.prompt)))

    def read(self, line: bytes) -> list[Event]:
        return _reader(self.events)(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model, resume = _option(self.model_flag, job.model), _option(self.resume_flag, job.session)
        return Command((*self.interactive, *model, *resume, *job.args))

    def _argument(self, prompt: str) -> str:
        hint = f'{self._key("prompt")} = "stdin"'
        if prompt.startswith("-"):
            raise BadConfig(f"{clean(self.name)} would take the task's text for an option", hint=hint)
        if len(prompt.encode("utf-8", "replace")) > LONGEST_ARGUMENT:
            raise BadConfig(f"the task's text is too long for an argument of {clean(self.name)}", hint=hint)
        return prompt

    def _one_of(self, key: str, value: str, known: tuple[str, ...]) -> None:
        if value not in known:
            said = f"{self._key(key)} is {clean(value)!r}{nearest(value, known)}"
            raise BadConfig(said, hint=f"one of: {', '.join(known)}")

    def _key(self, key: str) -> str:
        return f"coders.{clean(self.name)}.{key}"


def _option(flag: str | None, value: str | None) -> tuple[str, ...]:
    if flag is None or value is None:
        return ()
    return (f"{flag}{value}",) if flag.endswith("=") else (flag, value)


def _told(stream: str) -> Can:
    """What the lines of a stream may tell."""
    match stream:
        case "text":
            return Can(words=True)  # there is nothing else to go by
        case "jsonl":
            return Can(usage=True, cost=True)
        case _:
            can: Can = import_module(f"fleet.coders.{stream}").CAN
            return can


def _reader(stream: str) -> Reader:
    match stream:
        case "text":
            return text
        case "jsonl":
            return jsonl
        case _:
            read: Reader = import_module(f"fleet.coders.{stream}").read
            return read


def text(line: bytes) -> list[Event]:
    """A line of plain text is something said."""
    return [Event(EventKind.SAID, text=event.text) for event in strange(line)]


def jsonl(line: bytes) -> list[Event]:
    """An object with our own field names is that event; any other object is `other`, a line of text is said."""
    data = parse(line)
    if data is None:
        return text(line)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in set(EventKind):
        return [other(word(kind) or word(data.get("type")) or short(line.decode("utf-8", "replace")))]
    return [_event(EventKind(kind), data)]


def _event(kind: EventKind, data: Fields) -> Event:
    ok = data.get("ok")
    return Event(
        kind,
        text=word(data.get("text")),
        tool=word(data.get("tool")),
        call=word(data.get("call")),
        given=word(data.get("given")),
        ok=ok if isinstance(ok, bool) else None,
        session=session(data.get("session")),
        model=word(data.get("model")),
        usage=_usage(data.get("usage")),
        context=count(data.get("context")) or None,
        total=_usage(data.get("total")),
        cost=dollars(data.get("cost")),
        spent=dollars(data.get("spent")),
        context_limit=count(data.get("context_limit")) or None,
        status=count(data.get("status")) or None,
        window=_window(data.get("window")),
    )


def _window(value: object) -> Window | None:
    told = fields(value)
    name, resets, used = word(told.get("name")), dollars(told.get("resets")), dollars(told.get("used"))
    return Window(name or "unnamed", used, resets, told.get("exhausted") is True) if told else None


def _usage(value: object) -> Usage | None:
    """Both sides, of which one may be left out; what is no number of tokens makes all of it unknown."""
    used = fields(value)
    told = [used[name] for name in ("prompt", "completion") if name in used]
    if not told or any(count(one) == 0 and (one != 0 or isinstance(one, bool)) for one in told):
        return None
    cached, stored = known(used.get("cache_read")), known(used.get("cache_write"))
    return Usage(count(used.get("prompt")), count(used.get("completion")), cached, stored)


_promise: type[Talker] = Declared

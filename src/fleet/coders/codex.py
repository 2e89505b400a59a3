"""Codex: `codex exec --json`, the prompt on its standard input; and `codex` in a terminal, which tells by hooks."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fleet.coders.base import ASK_GRACE, ASK_SERVER, Can, Command, Job, Talker, checked, option
from fleet.coders.stream import (
    Fields,
    brief,
    count,
    dumped,
    fields,
    has_count,
    items,
    known,
    other,
    parse,
    print_of,
    session,
    short,
    strange,
    word,
)
from fleet.coders.told import hooked, moment, told
from fleet.core.talk import Signal, SignalKind
from fleet.core.work import Event, EventKind, Usage, Window

OPTIONS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
STDIN = "-"
STATUS = re.compile(r"status:? (401|403|429|5\d\d)\b")
USED_UP = re.compile(r"hit your usage limit|usage_limit_reached")
CAN = Can(resume=True, ask=True, talk=True, tools=True, words=True)
# In a terminal: the agent is its own child, not that of a server which all terminals share; no update is asked about.
IN_TERMINAL = ("--no-daemon", "-c", "check_for_update_on_startup=false")
FLAGS = ("--dangerously-bypass-approvals-and-sandbox",)  # in a terminal, when the user gives none
HOOKS = {
    "SessionStart": "session_start", "UserPromptSubmit": "user_prompt_submit", "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use", "PermissionRequest": "permission_request", "Stop": "stop",
    "Interrupt": "interrupt", "SessionEnd": "session_end",
}  # fmt: skip
HOOK_SECONDS = 3  # Codex gives some of them no more
HOOK_SOURCE = "/<session-flags>/config.toml"  # where Codex says that hooks of its command line stand
HERALD = "fleet_ready"  # what it is called among the user's own MCP servers


@dataclass(frozen=True, slots=True)
class Codex:
    """It does not say how much one request read, so nobody knows how full its context is."""

    name: str = "codex"
    context_limit: int | None = None
    program: str = "codex"
    can: Can = CAN
    unproven: str = ""
    tells: bool = True

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        verb, what = (("resume",), (job.session,)) if job.session is not None else ((), ())
        options = (*OPTIONS, *_trust(job.cwd), *_asking(job), *model, *job.args)
        return Command(("codex", "exec", *verb, *options, "--", *what, STDIN), stdin=job.prompt)

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = () if job.session is None else ("resume", job.session)
        options = (*IN_TERMINAL, *_trust(job.cwd), *_telling(tell), *_asking(job), *model)
        return Command(("codex", *resume, *options, *(job.args or FLAGS)))

    def pasted(self, prompt: str) -> str:
        """A `!` in front would run the rest in a shell; a `/` is a command of Codex' own, and is left one."""
        return f" {prompt}" if prompt.startswith("!") else prompt

    def signals(self, line: bytes) -> list[Signal]:
        one = told(line)
        return _rested(parse(line) or {}) if one is None else hooked(one)

    def recall(self, line: bytes) -> list[Event]:
        return _recalled(parse(line) or {})


def _telling(tell: tuple[str, ...]) -> tuple[str, ...]:
    """Hooks beside the user's own, and of all that are not trusted these alone trusted; and a herald.

    Codex runs its hook for the beginning of a session with the first prompt only: so a server says that it is ready.
    """
    hook = {"type": "command", "command": shlex.join(tell), "timeout": HOOK_SECONDS, "async": False}
    hooks = {event: [{"hooks": [hook]}] for event in HOOKS}
    state = {f"{HOOK_SOURCE}:{name}:0:0": {"trusted_hash": _print(name, hook)} for name in HOOKS.values()}
    herald = {"command": sys.executable, "args": ["-I", "-S", str(Path(__file__).with_name("herald.py")), *tell]}
    return ("-c", f"hooks={_toml({**hooks, 'state': state})}", "-c", f"mcp_servers.{HERALD}={_toml(herald)}")


def _print(event: str, hook: Mapping[str, object]) -> str:
    """By what Codex knows a hook again that its user has trusted."""
    identity = json.dumps(
        {"event_name": event, "hooks": [hook]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return f"sha256:{sha256(identity.encode()).hexdigest()}"


def _toml(value: object) -> str:
    """A value as it stands in TOML, on one line."""
    match value:
        case Mapping():
            return f"{{{', '.join(f'{json.dumps(name)}={_toml(one)}' for name, one in value.items())}}}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _rested(data: Fields) -> list[Signal]:
    """A turn that failed is told by no hook; the transcript says when it was over."""
    payload, at = fields(data.get("payload")), moment(data.get("timestamp"))
    over = data.get("type") == "event_msg" and payload.get("type") in ("task_complete", "turn_aborted")
    return [Signal(SignalKind.RESTED, at)] if over and at is not None else []


def _recalled(data: Fields) -> list[Event]:
    """A line of the transcript. What else Codex keeps there is its own affair."""
    payload = fields(data.get("payload"))
    match data.get("type"), payload.get("type"):
        case "token_usage_record", _:
            return [Event(EventKind.USAGE, usage=_usage(payload.get("usage")))]
        case "response_item", "message" if payload.get("role") == "assistant":
            return [Event(EventKind.SAID, text=word(part.get("text"))) for part in items(payload.get("content"))]
        case "response_item", "function_call" | "custom_tool_call":
            return [_asked_for(payload)]
        case "response_item", "function_call_output" | "custom_tool_call_output":
            return [Event(EventKind.TOOL_ENDED, text=word(payload.get("output")), call=word(payload.get("call_id")))]
        case "event_msg", "error":
            return [_failed(EventKind.ERROR, _message(payload))]
        case _:
            return []


def _asked_for(payload: Fields) -> Event:
    given = payload.get("arguments") or payload.get("input")
    arguments = parse(given.encode("utf-8", "replace")) if isinstance(given, str) else None
    text = word((arguments or {}).get("cmd")) or brief(arguments) or word(given)
    return Event(EventKind.TOOL_CALLED, text=text, tool=word(payload.get("name")), call=word(payload.get("call_id")))


def _trust(cwd: Path) -> tuple[str, str]:
    """Answer on the command line what Codex would else write down for itself in the user's own settings."""
    return ("-c", f'projects={{{json.dumps(str(cwd), ensure_ascii=False)}={{trust_level="trusted"}}}}')


def _asking(job: Job) -> tuple[str, ...]:
    """The server that asks a person, beside the user's own."""
    if not job.ask:
        return ()
    command, *args = (json.dumps(word, ensure_ascii=False) for word in job.ask)
    times = f"startup_timeout_sec={ASK_GRACE:.0f}, tool_timeout_sec={job.ask_wait + ASK_GRACE:.0f}"
    return ("-c", f"mcp_servers.{ASK_SERVER}={{command={command}, args=[{', '.join(args)}], {times}}}")


def read(line: bytes) -> list[Event]:
    """The events in one line of Codex' stream."""
    data = parse(line)
    if data is None:
        return strange(line)
    match data.get("type"):
        case "thread.started":
            return [Event(EventKind.SESSION, session=session(data.get("thread_id")))]
        case "item.started" | "item.completed" as moment:
            event = _item(fields(data.get("item")), started=moment == "item.started")
            return [event, *_declined(fields(data.get("item")), event)]
        case "turn.completed":
            return [Event(EventKind.RESULT, ok=True, total=_usage(data.get("usage")))]
        case "turn.failed":
            return [_failed(EventKind.RESULT, _message(data.get("error")) or "turn.failed")]
        case "error":
            return [_failed(EventKind.ERROR, _message(data))]
        case kind:
            return [other(word(kind) or dumped(data))]


def _failed(kind: EventKind, text: str | None) -> Event:
    """Codex says in words what the provider answered, and that a plan is used up; when it resets it says for people."""
    ok, said = False if kind is EventKind.RESULT else None, text or ""
    status = STATUS.search(said)
    window = Window("usage", exhausted=True) if USED_UP.search(said) else None
    return Event(kind, text=text, ok=ok, status=int(status[1]) if status else None, window=window)


def _item(item: Fields, *, started: bool) -> Event:
    match item.get("type"):
        case "agent_message":
            return Event(EventKind.SAID, text=word(item.get("text")))
        case "error":  # a warning: whether the turn failed is said at its end
            return Event(EventKind.ERROR, text=_message(item))
        case "command_execution" | "file_change" | "mcp_tool_call" | "web_search" | "collab_tool_call" as kind:
            return _called(item, kind) if started else _ended(item, kind)
        case kind:
            return other(word(kind))


def _declined(item: Fields, ended: Event) -> list[Event]:
    """A call that was not made because nobody could be asked for leave."""
    declined = item.get("status") == "declined" and ended.kind is EventKind.TOOL_ENDED
    return [Event(EventKind.PERMISSION, text=_asked(item), tool=ended.tool, call=ended.call, ok=False)] * declined


def _called(item: Fields, kind: str) -> Event:
    """Of a file that is changed only its name is told, so nobody knows whether two such calls are the same."""
    given = print_of([item.get(name) for name in ("command", "query", "prompt", "arguments", "server", "tool")])
    whole = None if kind == "file_change" else given
    return Event(
        EventKind.TOOL_CALLED, text=_asked(item), tool=_tool(item, kind), call=word(item.get("id")), given=whole
    )


def _ended(item: Fields, kind: str) -> Event:
    """A call that ended. Some (file changes, in older versions) are told of only now: their name is here too."""
    text = word(item.get("aggregated_output")) or _message(item.get("error")) or _told(item) or _asked(item)
    ok = item.get("status") != "failed" and item.get("status") != "declined"
    return Event(EventKind.TOOL_ENDED, text=text, tool=_tool(item, kind), call=word(item.get("id")), ok=ok)


def _told(item: Fields) -> str | None:
    """What the tool of an MCP server answered."""
    parts = [word(part.get("text")) for part in items(fields(item.get("result")).get("content"))]
    return word("\n".join(part for part in parts if part))


def _tool(item: Fields, kind: str) -> str:
    """The kind of the item, or the very tool where the item has one: `server.tool` of an MCP server."""
    names = [name for name in (word(item.get("server")), word(item.get("tool"))) if name]
    return short(".".join(names)) or kind


def _asked(item: Fields) -> str | None:
    changes = [
        f"{word(change.get('kind')) or 'change'} {word(change.get('path'))}" for change in items(item.get("changes"))
    ]
    arguments = item.get("arguments")
    return (
        word(item.get("command"))
        or word(item.get("query"))
        or word("\n".join(changes))
        or word(item.get("prompt"))
        or (brief(arguments) if arguments else None)
    )


def _message(said: object) -> str | None:
    return word(said) or word(fields(said).get("message"))


def _usage(value: object) -> Usage | None:
    """Of the whole session, earlier attempts included. What came from a cache is inside the input already."""
    used = fields(value)
    cached, stored = known(used.get("cached_input_tokens")), known(used.get("cache_write_input_tokens"))
    if not has_count(used, "input_tokens", "output_tokens"):
        return None
    return Usage(count(used.get("input_tokens")), count(used.get("output_tokens")), cached, stored)


_promise: type[Talker] = Codex

"""Claude Code: `claude -p`, its input and output as streams of JSON; in a terminal `claude`, which tells by hooks."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil

from fleet.coders.base import ASK_GRACE, ASK_SERVER, LARGER, MILLION, Can, Command, Job, Talker, checked, named, option
from fleet.coders.stream import (
    Fields,
    brief,
    count,
    dollars,
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
from fleet.coders.told import Told, hooked, moment, told
from fleet.core.talk import Signal, SignalKind
from fleet.core.work import Event, EventKind, Usage, Window

OPTIONS = (
    "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
    "--dangerously-skip-permissions",
)  # fmt: skip
# Claude Code runs a `/command` at the start of the last block of a prompt, and puts the content of every `@file` named
# in it before it; in blocks before the last it does neither. So the prompt is the block before, and these are the last.
BEGIN = "Now begin."
SMALLEST = 10_000  # parts of a US dollar
SYNTHETIC = "<synthetic>"  # the model of the messages Claude Code writes itself, about an error
CAN = Can(resume=True, ask=True, usage=True, cost=True, budget=True, talk=True, name=True, tools=True, words=True)
FLAGS = ("--dangerously-skip-permissions",)  # in a terminal, when the user gives none
# The folder is not asked about: fleet made it from a repository of the user's, who starts an agent in it by this very
# command. Of what else this variable does nothing was seen; `claude -p` does not ask either.
TRUSTED = {"CLAUDE_CODE_SANDBOXED": "1"}
HOOKS = {
    "SessionStart": "", "UserPromptSubmit": "", "PreToolUse": "", "PostToolUse": "", "PostToolUseFailure": "",
    "PermissionRequest": "", "PermissionDenied": "", "Notification": "idle_prompt|elicitation_dialog", "Stop": "",
    "StopFailure": "", "SessionEnd": "",
}  # fmt: skip
HOOK_SECONDS = 10
TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
DENIED = ("requested permissions to", "permission request failed")  # answers to a call for which nobody gives leave
INTERRUPTED = "[Request interrupted by user"  # no hook tells of it


@dataclass(frozen=True, slots=True)
class Claude:
    name: str = "claude"
    context_limit: int | None = MILLION
    program: str = "claude"
    can: Can = CAN
    unproven: str = ""
    tells: bool = True

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--resume", job.session)
        budget = () if job.budget is None else (f"--max-budget-usd={_upwards(job.budget):.4f}",)
        argv = ("claude", *OPTIONS, *_asking(job), *model, *resume, *named(job), *budget, *job.args)
        return Command(argv, stdin=message(job.prompt))

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        resume = option("--resume", job.session)
        options = (f"--settings={json.dumps(_telling(tell) | _key(job))}", *_asking(job), *model, *resume)
        return Command(("claude", *options, *(job.args or FLAGS)), env=TRUSTED)

    def pasted(self, prompt: str) -> str:
        """A `!` in front would run the rest in a shell; a `/` is a command of Claude Code's own, and is left one."""
        return f" {prompt}" if prompt.startswith("!") else prompt

    def signals(self, line: bytes) -> list[Signal]:
        one = told(line)
        return _interrupted(line) if one is None else _signals(one)

    def recall(self, line: bytes) -> list[Event]:
        return _recalled(parse(line) or {})


def _telling(tell: tuple[str, ...]) -> Fields:
    """Settings beside the user's own: a hook for all that tells something, and no word about dangerous modes."""
    hook = {"type": "command", "command": shlex.join(tell), "timeout": HOOK_SECONDS}
    hooks = {event: [{"matcher": which, "hooks": [hook]}] for event, which in HOOKS.items()}
    return {"hooks": hooks, "skipDangerousModePermissionPrompt": True}


def _key(job: Job) -> Fields:
    """Where it finds its API key without asking a person whether the one in its environment is meant."""
    return {"apiKeyHelper": f"printenv {job.key_from}"} if job.key_from else {}


def _signals(one: Told) -> list[Signal]:
    """What a hook told, but for what only looks like a beginning, an end or a rest."""
    match one.what:
        case {"hook_event_name": "SessionStart", "source": "compact"}:
            return [one.signal(SignalKind.ACTED)]
        case {"hook_event_name": "StopFailure", "error": "authentication_failed"}:
            return [one.signal(SignalKind.LOGGED_OUT)]
        case {"hook_event_name": "SessionEnd", "reason": "clear" | "resume"}:  # another session begins at once
            return []
        case {"hook_event_name": "PreToolUse", "tool_name": "AskUserQuestion" | "ExitPlanMode"}:
            return [one.signal(SignalKind.ASKS)]
        case {"hook_event_name": "Notification", "notification_type": "elicitation_dialog"}:
            return [one.signal(SignalKind.ASKS)]
        case _:
            return hooked(one)


def _interrupted(line: bytes) -> list[Signal]:
    """Who presses Escape ends the turn, and no hook tells; the transcript does."""
    data = parse(line) if INTERRUPTED.encode() in line else None
    at = moment((data or {}).get("timestamp"))
    if data is None or at is None or data.get("type") != "user" or data.get("isSidechain") is True:
        return []
    said = items(fields(data.get("message")).get("content"))
    if not any(str(block.get("text")).startswith(INTERRUPTED) for block in said):
        return []
    return [Signal(SignalKind.RESTED, at, "interrupted", session(data.get("sessionId")))]


def _recalled(data: Fields) -> list[Event]:
    """A line of the transcript is one of the stream, nearly. What else Claude Code keeps there is its own affair."""
    match data.get("type"):
        case "assistant":
            aside = "a subagent" if data.get("isSidechain") is True else None
            failed = data.get("isApiErrorMessage") is True
            return _assistant({**data, "parent_tool_use_id": aside, "is_api_error_message": failed})
        case "user":
            blocks = items(fields(data.get("message")).get("content"))
            return [_ended(block) for block in blocks if block.get("type") == "tool_result"]
        case _:
            return []


def _upwards(budget: float) -> float:
    """A budget that Claude Code takes, and that is not spent before ours is."""
    return max(1, ceil(budget * SMALLEST)) / SMALLEST


def _asking(job: Job) -> tuple[str, ...]:
    """The server that asks a person, beside the user's own. Its tool is loaded at once, not searched for first."""
    if not job.ask:
        return ()
    command, *args = job.ask
    wait = round(1000 * (job.ask_wait + ASK_GRACE))
    server = {"type": "stdio", "command": command, "args": args, "timeout": wait, "alwaysLoad": True}
    return (f"--mcp-config={json.dumps({'mcpServers': {ASK_SERVER: server}})}",)


def message(prompt: str) -> str:
    """The prompt as one line of the input stream, with nothing in it that Claude Code would expand."""
    blocks = [{"type": "text", "text": text} for text in (prompt, BEGIN)]
    return json.dumps({"type": "user", "message": {"role": "user", "content": blocks}}) + "\n"


def read(line: bytes) -> list[Event]:
    """The events in one line of Claude Code's stream."""
    data = parse(line)
    if data is None:
        return strange(line)
    match data.get("type"):
        case "system":
            return [_system(data)]
        case "assistant":
            return _assistant(data)
        case "user":
            return _user(data)
        case "result":
            return [_result(data)]
        case "control_request":
            return [_control(data)]
        case "rate_limit_event":
            return _windows(fields(data.get("rate_limit_info")))
        case kind:
            return [other(word(kind) or dumped(data))]


def _system(data: Fields) -> Event:
    match data.get("subtype"):
        case "init":
            model = word(data.get("model"))
            large = MILLION if model is not None and model.endswith(LARGER) else None
            return Event(EventKind.SESSION, session=session(data.get("session_id")), model=model, context_limit=large)
        case "permission_denied":  # nobody could be asked for leave; what the tool would have done was not done
            tool, call = word(data.get("tool_name")), word(data.get("tool_use_id"))
            return Event(EventKind.PERMISSION, text=word(data.get("message")), tool=tool, call=call, ok=False)
        case "api_retry":
            return Event(EventKind.ERROR, text=_retry(data), status=count(data.get("error_status")) or None)
        case kind:
            return other(f"system/{word(kind) or '?'}")


def _retry(data: Fields) -> str:
    why, status = word(data.get("error")) or "error", count(data.get("error_status"))
    tries = f"try {count(data.get('attempt'))} of {count(data.get('max_retries'))}"
    return f"the model did not answer: {why}{f' ({status})' if status else ''}, {tries}"


def _assistant(data: Fields) -> list[Event]:
    """One event a block, then what the request read and wrote so far. It comes with every block of one answer."""
    told = fields(data.get("message"))
    synthetic = told.get("model") == SYNTHETIC or data.get("is_api_error_message") is True
    kind = EventKind.ERROR if synthetic else EventKind.SAID
    events = [_block(block, kind) for block in items(told.get("content"))]
    used = _usage(told.get("usage"))
    if used is not None and not synthetic:
        aside = True if data.get("parent_tool_use_id") is not None else None
        model, request = word(told.get("model")), word(told.get("id"))
        events.append(Event(EventKind.USAGE, usage=used, aside=aside, model=model, call=request))
    return events


def _block(block: Fields, kind: EventKind) -> Event:
    match block.get("type"):
        case "text":
            return Event(kind, text=word(block.get("text")))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            tool, call = word(block.get("name")), word(block.get("id"))
            given = block.get("input")
            return Event(EventKind.TOOL_CALLED, text=brief(given), tool=tool, call=call, given=print_of(given))
        case kind_of_block:
            return other(word(kind_of_block))


def _user(data: Fields) -> list[Event]:
    """The results of tools. What else stands in a user's message is the prompt, which is known."""
    blocks = items(fields(data.get("message")).get("content"))
    ended = [_ended(block) for block in blocks if block.get("type") == "tool_result"]
    return [told for event in ended for told in (event, *_denied(event))] or [other("user")]


def _denied(ended: Event) -> list[Event]:
    """A call that was not made because nobody could be asked for leave."""
    if ended.ok is not False or not any(words in (ended.text or "") for words in DENIED):
        return []
    return [Event(EventKind.PERMISSION, text=ended.text, call=ended.call, ok=False)]


def _control(data: Fields) -> Event:
    """What Claude Code asks of whoever started it: leave to use a tool, and it waits for the answer."""
    asked = fields(data.get("request"))
    if asked.get("subtype") != "can_use_tool":
        return other(word(data.get("type")))
    tool, call = word(asked.get("tool_name")), word(asked.get("tool_use_id"))
    return Event(EventKind.PERMISSION, text=brief(asked.get("input")), tool=tool, call=call)


def _ended(block: Fields) -> Event:
    said = block.get("content")
    text = said if isinstance(said, str) else "\n".join(word(part.get("text")) or "" for part in items(said))
    failed = block.get("is_error") is True
    return Event(EventKind.TOOL_ENDED, text=word(text), call=word(block.get("tool_use_id")), ok=not failed)


def _result(data: Fields) -> Event:
    """The end. `is_error` decides: its subtype says success even when the model could not be reached."""
    models, failed = fields(data.get("modelUsage")), data.get("is_error")
    return Event(
        EventKind.RESULT,
        text=word(data.get("result")) or _errors(data) or word(data.get("subtype")),
        ok=not failed if isinstance(failed, bool) else data.get("subtype") == "success",
        session=session(data.get("session_id")),
        total=_total(models) or _usage(data.get("usage")),
        models={short(name): _of_model(used) for name, used in models.items()} or None,
        cost=dollars(data.get("total_cost_usd")),
        context_limit=_context(models),
        status=count(data.get("api_error_status")) or None,
    )


def _windows(info: Fields) -> list[Event]:
    """The provider's windows: each by its name, and the one that decides, which is told last."""
    several = fields(info.get("unifiedWindows")).items()
    told = [_window(name, fields(part), None) for name, part in several]
    decides = _window(word(info.get("rateLimitType")) or "unnamed", info, info.get("status"))
    same = [one for one in told if one.name == decides.name]
    if decides.used is None and same:
        decides = replace(decides, used=same[0].used, resets=decides.resets or same[0].resets)
    return [Event(EventKind.LIMITED, window=one) for one in (*(one for one in told if one not in same), decides)]


def _window(name: str, part: Fields, status: object) -> Window:
    used, resets = dollars(part.get("utilization")), dollars(part.get("resetsAt"))
    percent = None if used is None else 100 * used
    return Window(name, percent, resets, (status or part.get("status")) == "rejected")


def _errors(data: Fields) -> str | None:
    said = data.get("errors")
    lines = [entry for entry in said if isinstance(entry, str)] if isinstance(said, list) else []
    return word("\n".join(lines))


def _usage(value: object) -> Usage | None:
    """What was read, from a cache or not, and what was written."""
    used = fields(value)
    plain, read, wrote = (used.get(f"{name}input_tokens") for name in ("", "cache_read_", "cache_creation_"))
    prompt = count(plain) + count(read) + count(wrote)
    return (
        Usage(prompt, count(used.get("output_tokens")), known(read), known(wrote)) if has_count(used, *TOKENS) else None
    )


def _total(models: Fields) -> Usage | None:
    """Over every model of the session, those of subagents too."""
    counted = [one for one in models.values() if has_count(fields(one), "inputTokens", "outputTokens")]
    return reduce(Usage.plus, map(_of_model, counted)) if counted else None


def _of_model(value: object) -> Usage:
    used = fields(value)
    read, wrote = used.get("cacheReadInputTokens"), used.get("cacheCreationInputTokens")
    prompt = count(used.get("inputTokens")) + count(read) + count(wrote)
    return Usage(prompt, count(used.get("outputTokens")), known(read), known(wrote), dollars(used.get("costUSD")))


def _prompt(model: object) -> int:
    return _of_model(model).prompt


def _context(models: Fields) -> int | None:
    """Of the model that read most: the main one, if a subagent had another."""
    most = max(models.values(), key=_prompt, default=None)
    return count(fields(most).get("contextWindow")) or None


_promise: type[Talker] = Claude

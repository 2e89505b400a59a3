"""What every coder must keep, as checks that need neither its program nor a model: ours are tested with the same.

A check is a function from a coder, and the lines of a transcript if there are any, to what is wrong; nothing is good.
Only `command` and `read` are called, and what a talker has besides them, so nothing is started and nothing is written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.coders.base import Coder, Job, Talker, talker_of
from fleet.coders.command import Declared
from fleet.coders.misfit import flaw, flaw_of_signal, misfit, misfit_command
from fleet.coders.told import KINDS, noted
from fleet.core.errors import BadConfig
from fleet.core.text import clean
from fleet.core.work import Event, EventKind

HOSTILE = (
    "--help", "-", "/init\n", "/run touch pwned", "@/etc/hostname", "!touch pwned", "# x", "'; touch pwned; '",
    "$(touch pwned)\n`x`", "{\"type\": \"user\"}", "a\nb\r\nc\td", "über 🦆 \u202e",
)  # fmt: skip
NOT_WORDS = ("", " ", "-x", "--dangerously", "a\nb", "a\0b", "a\x1b[31m", "\ud800")
MODELS = ("m", "a model/of:mine", "m --dangerous", "m=--x", "x -- y", "übermodell", "$(x)")
CLAIMED = "ses_0-a.b"
STRANGE = (
    b"",
    b"   ",
    b"plain words",
    b"\xff\xfe\x00broken \xf0\x9f",
    b"[1, 2, 3]",
    b"null",
    b"NaN",
    b'"a string"',
    b'{"type": ',
    b'{"event": ["result"], "kind": {"a": 1}}',
    b'{"event": "result", "result": [1], "type": {"type": "result"}}',
    b'{"event": "step_update", "step_update": {"step_type": "tool", "step_index": [], "usage": {"input_tokens": 5e9}}}',
    b'{"event": "init", "conversation_id": "--dangerous", "init": 5}',
    b'{"type": "result", "is_error": false, "result": "\xff"}',
    b'{"type": "text", "part": {"text": "half a \\ud83d face"}}',
    b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "half a \\ud83d face"}]}}',
    b'{"type": ["result"], "kind": {"a": 1}}',
    b'{"type": {"type": "result"}}',
    b'{"type": "result", "total_cost_usd": NaN, "usage": {"input_tokens": 1e400}, "modelUsage": []}',
    b'{"type": "result", "total_cost_usd": -Infinity, "usage": {"input_tokens": -5}, "modelUsage": {"m": 5}}',
    b'{"type": "result", "total_cost_usd": ' + b"9" * 400 + b', "usage": {"input_tokens": ' + b"9" * 400 + b"}}",
    b'{"type": "turn.completed", "usage": {"input_tokens": ' + b"9" * 5000 + b"}}",
    b'{"type": "step_finish", "part": {"tokens": {"input": true, "cache": [1]}, "cost": "x", "reason": 5}}',
    b'{"type": "system", "subtype": "init", "session_id": "--dangerous", "model": 5}',
    b'{"type": "thread.started", "thread_id": "-c"}',
    b'{"type": "item.completed", "item": {"type": "file_change", "changes": [1, {"path": 5}], "arguments": [[]]}}',
    b"Tokens: 1e400k sent, -5 received. Cost: $inf message, $nan session.",
    b"[" * 100_000,
    b'{"type": "assistant", "message": ' * 20_000,
    b'{"type": "item.completed", "item": {"type": "mcp_tool_call", "arguments": ' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "' + b"x" * 4_000_000 + b'"}]}}',
    b"x" * 20_000_000,
)  # fmt: skip
TELL = ("/usr/bin/python3", "-I", "/opt/tell it.py", "/home/nobody/signals.jsonl")
WILD = 300  # lines of random bytes, and as many of the transcript's own with a piece torn out

Lines = Sequence[bytes]
Checker = Callable[[Coder, Lines], str]


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and why it is not kept; unless there is no reason."""

    name: str
    passed: bool
    why: str = ""


def examine(coder: Coder, transcript: bytes | None = None) -> list[Check]:
    """Every check, with what is wrong; those of a transcript only when there is one."""
    lines = (transcript or b"").splitlines()
    return [check(name, coder, lines) for name in CHECKS if transcript is not None or CHECKS[name] not in OF_TRANSCRIPT]


def check(name: str, coder: Coder, lines: Lines = ()) -> Check:
    try:
        why = CHECKS[name](coder, lines)
    except (Exception, SystemExit) as problem:
        why = f"it raised {type(problem).__name__}: {problem}"
    return Check(name, not why, clean(why, 500))


def job(prompt: str = "a prompt", **more: Any) -> Job:
    return Job(prompt, Path("/home/nobody/project"), **more)


# How an agent is started


def tells_what_it_is(coder: Coder, lines: Lines) -> str:
    return misfit(coder)


def makes_a_command(coder: Coder, lines: Lines) -> str:
    once, again = coder.command(job(model="m")), coder.command(job(model="m"))
    return misfit_command(once) or ("" if once == again else "two commands of one job differ")


def keeps_a_prompt_data(coder: Coder, lines: Lines) -> str:
    """A prompt reaches the agent whole, on stdin; and nothing in it changes how the agent is started."""
    if isinstance(coder, Declared) and coder.prompt == "arg":
        return _is_last_argument(coder)
    for prompt in HOSTILE:
        made = coder.command(job(prompt))
        if made.argv != coder.command(job("another")).argv:
            return f"the prompt {prompt!r} changes the command line"
        if prompt in made.env.values():
            return f"the prompt {prompt!r} is in the environment"
        if prompt not in made.stdin and not any(prompt in text for text in _texts(made.stdin)):
            return f"the prompt {prompt!r} does not reach the agent whole"
    return ""


def _is_last_argument(coder: Coder) -> str:
    for prompt in HOSTILE:
        try:
            given = coder.command(job(prompt)).argv[-1]
        except BadConfig:
            continue
        if given != prompt or prompt.startswith("-"):
            return f"the prompt {prompt!r} is not the last argument, exactly"
    return ""


def _texts(stdin: str) -> Iterator[str]:
    """Every text in a stream of JSON lines."""
    for line in stdin.splitlines():
        try:
            yield from _strings(json.loads(line))
        except ValueError:
            continue


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case list():
            for inner in value:
                yield from _strings(inner)


def refuses_what_no_program_can_be_given(coder: Coder, lines: Lines) -> str:
    return _refuses(coder, {f"{text!r}": job(text) for text in ("a\0b", "half \ud83d of a face")}) or _refuses(
        coder, {"the argument 'a\\0b'": job(args=("a\0b",))}
    )


def refuses_a_model_or_a_session_that_is_none(coder: Coder, lines: Lines) -> str:
    models = {f"the model {text!r}": job(model=text) for text in NOT_WORDS}
    return _refuses(coder, models | {f"the session {text!r}": job(session=text) for text in NOT_WORDS})


def _refuses(coder: Coder, jobs: Mapping[str, Job]) -> str:
    for what, bad in jobs.items():
        try:
            coder.command(bad)
        except BadConfig:
            continue
        return f"{what} is not refused with BadConfig"
    return ""


def makes_no_option_of_a_model(coder: Coder, lines: Lines) -> str:
    harmless = _options(coder, "m")
    return next((f"the model {text!r} becomes an option" for text in MODELS if _options(coder, text) != harmless), "")


def _options(coder: Coder, model: str) -> set[str] | None:
    try:
        argv = coder.command(job(model=model)).argv
    except BadConfig:
        return _options(coder, "m") if model != "m" else None
    return {word.partition("=")[0] for word in argv if word.startswith("-")}


def goes_on_with_a_session_if_it_says_so(coder: Coder, lines: Lines) -> str:
    fresh, resumed = coder.command(job()), coder.command(job(session=CLAIMED))
    given = [word for word in (*resumed.argv, resumed.stdin, *resumed.env.values()) if CLAIMED in word]
    if coder.can.resume and not given:
        return "it can resume, and the session is nowhere in its command"
    if not coder.can.resume and resumed != fresh:
        return "it cannot resume, and a session changes its command"
    return ""


def passes_the_users_arguments_on(coder: Coder, lines: Lines) -> str:
    """In their order, next to each other, and where options may stand."""
    argv = coder.command(job(session="s", args=("--mine", "a b"))).argv
    if "--mine" not in argv:
        return "they are not on the command line"
    at = argv.index("--mine")
    return "" if argv[at + 1 : at + 2] == ("a b",) and "--" not in argv[:at] else "they are torn apart, or behind a --"


# What its output means


def reads_whatever_is_printed(coder: Coder, lines: Lines) -> str:
    return _first(_unreadable(coder, line) for line in (*STRANGE, *_wild(lines)))


def _wild(lines: Lines) -> Iterator[bytes]:
    """Random bytes, and lines of the transcript cut off or with a piece torn out: the same every time."""
    chance = random.Random(5)  # noqa: S311 - nothing is secret here
    for _ in range(WILD):
        yield chance.randbytes(chance.randrange(200)).replace(b"\n", b" ")
        if lines:
            line = chance.choice(lines)
            start, end = sorted((chance.randrange(len(line) + 1), chance.randrange(len(line) + 1)))
            yield line[:start] + line[end:]
            yield line[:end]


def _unreadable(coder: Coder, line: bytes) -> str:
    """What is wrong with what a coder makes of a line, whatever the line is."""
    shown = f"{line[:60]!r}{'…' if len(line) > 60 else ''}"
    try:
        events = coder.read(line)
    except (Exception, SystemExit) as problem:
        return f"{shown} makes it raise {type(problem).__name__}: {problem}"
    if not isinstance(events, list):
        return f"{shown} gives {type(events).__name__}, no list"
    wrong = _first(flaw(event) for event in events)
    return f"{shown} gives an event that cannot be kept: {wrong}" if wrong else ""


def keeps_an_unknown_line(coder: Coder, lines: Lines) -> str:
    """A line that nobody knows is kept for people to see; a blank one is nothing."""
    for line in (b"words that nobody knows", b"[1, 2, 3]", b'{"type": "hologram", "event": "dream", "kind": "new"}'):
        if not coder.read(line):
            return f"{line!r} gives no event, so nobody would see it"
    return "a blank line gives an event" if coder.read(b"  ") or coder.read(b"") else ""


def reads_a_line_the_same_twice(coder: Coder, lines: Lines) -> str:
    """A supervisor that starts again reads a line again, and nothing before it."""
    twice = [line for line in (*STRANGE[:12], *lines) if coder.read(line) != coder.read(line)]
    return f"{twice[0][:60]!r} gives other events the second time" if twice else ""


# What a recorded transcript shows


def sees_a_session_or_a_result(coder: Coder, lines: Lines) -> str:
    kinds = {event.kind for event in _heard(coder, lines)}
    wanted = {EventKind.SESSION, EventKind.RESULT}
    return "" if kinds & wanted else f"of {len(lines)} lines none begins a session or ends one"


def hears_the_session_that_it_would_resume(coder: Coder, lines: Lines) -> str:
    named = any(event.session for event in _heard(coder, lines))
    return "" if named or not coder.can.resume else "it can resume, and no line names a session"


def hears_the_usage_that_it_claims(coder: Coder, lines: Lines) -> str:
    told = any(event.usage for event in _heard(coder, lines))
    return "" if told or not coder.can.usage else "it can tell usage, and no line tells what a request read"


# How it is talked to in a terminal


def starts_in_a_terminal_if_it_can_talk(coder: Coder, lines: Lines) -> str:
    """The same way every time, without the prompt, and with the program that notes down what it tells of itself."""
    if not coder.can.talk:
        return ""
    talker = talker_of(coder)
    made = talker.converse(job(model="m"), TELL)
    if wrong := misfit_command(made):
        return wrong
    if made.stdin or made != talker.converse(job("another prompt", model="m"), TELL):
        return "the prompt is part of its command in a terminal, or two of them differ"
    if talker.tells and not any(TELL[-1] in word for word in (*made.argv, *made.env.values())):
        return "it tells of itself, and is not told where"
    return _arguments(talker)


def _arguments(talker: Talker) -> str:
    argv = talker.converse(job(args=("--mine", "a b")), TELL).argv
    return "" if argv[-2:] == ("--mine", "a b") else "the user's arguments are not the last ones in a terminal"


def pastes_a_prompt_whole(coder: Coder, lines: Lines) -> str:
    """What is pasted ends with the prompt, exactly: something may stand before it."""
    if not coder.can.talk:
        return ""
    pasted = talker_of(coder).pasted
    return _first(f"the prompt {text!r} is not pasted whole" for text in HOSTILE if not pasted(text).endswith(text))


def hears_whatever_is_told(coder: Coder, lines: Lines) -> str:
    """Lines that an agent told, and lines of its transcript: anything may be in them."""
    if not coder.can.talk:
        return ""
    talker, hooks = talker_of(coder), ({"hook_event_name": kind, "session_id": [5], "prompt": {}} for kind in KINDS)
    given = (*STRANGE, *(noted(hook) for hook in hooks), b'{"at": NaN, "told": "{}"}', b'{"at": 1, "told": "[[["}')
    return _first(_unheard(talker, line) for line in (*given, *_wild(given[:20])))


def _unheard(talker: Talker, line: bytes) -> str:
    try:
        signals, events = talker.signals(line), talker.recall(line)
    except (Exception, SystemExit) as problem:
        return f"{line[:60]!r} makes it raise {type(problem).__name__}: {problem}"
    if not isinstance(signals, list) or not isinstance(events, list):
        return f"{line[:60]!r} gives no list"
    return _first((*map(flaw_of_signal, signals), *map(flaw, events)))


def _heard(coder: Coder, lines: Lines) -> list[Event]:
    return [event for line in lines for event in coder.read(line)]


def _first(reasons: Iterable[str]) -> str:
    return next((reason for reason in reasons if reason), "")


OF_TRANSCRIPT: tuple[Checker, ...] = (
    sees_a_session_or_a_result, hears_the_session_that_it_would_resume, hears_the_usage_that_it_claims,
)  # fmt: skip
CHECKS: dict[str, Checker] = {
    function.__name__.replace("_", " "): function
    for function in (
        tells_what_it_is,
        makes_a_command,
        keeps_a_prompt_data,
        refuses_what_no_program_can_be_given,
        refuses_a_model_or_a_session_that_is_none,
        makes_no_option_of_a_model,
        goes_on_with_a_session_if_it_says_so,
        passes_the_users_arguments_on,
        reads_whatever_is_printed,
        keeps_an_unknown_line,
        reads_a_line_the_same_twice,
        starts_in_a_terminal_if_it_can_talk,
        pastes_a_prompt_whole,
        hears_whatever_is_told,
        *OF_TRANSCRIPT,
    )
}

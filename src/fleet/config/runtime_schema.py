"""The shape of runtime.toml, as it is written in the file.

Its annotations are values and not text: nearly every command reads this file, and evaluating text takes longest of it.
"""

import re
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from fleet.config.shape import Part
from fleet.config.units import Attempts, Dollars, Duration, Pause, Room, Silence, Size, Tokens, Wait
from fleet.core.life import REPEATS, Action
from fleet.core.proof import Unverified
from fleet.core.text import has_controls

BUILT_IN = (
    "claude",
    "codex",
    "opencode",
    "gemini",
    "qwen",
    "aider",
    "agy",
    "demonstration",
)
CODER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class TrackerName(StrEnum):
    """Where tasks are written down."""

    LOCAL = "local"
    BEADS = "beads"


class FenceMode(StrEnum):
    """Whether agents are kept from the home."""

    AUTO = "auto"
    OFF = "off"
    REQUIRE = "require"


class PromptBy(StrEnum):
    """How an agent is given its prompt."""

    STDIN = "stdin"
    ARG = "arg"
    ACP = "acp"


class Permissions(StrEnum):
    """What an agent is answered that asks whether it may do something."""

    ALLOW = "allow"
    REJECT = "reject"


class EventsAs(StrEnum):
    """How an agent's output is read."""

    TEXT = "text"
    JSONL = "jsonl"
    CLAUDE = "claude"
    CODEX = "codex"
    OPENCODE = "opencode"
    AIDER = "aider"
    AGY = "agy"
    GEMINI = "gemini"
    QWEN = "qwen"


def _one_line(text: str) -> str:
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    return text


def _word(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL, which no program can be given")
    return text


SPAN = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]\Z")


def _span(text: str) -> str:
    if not SPAN.match(text) or text[:5] == text[6:]:
        raise ValueError("must be two times of the day, such as 22:00-07:00")
    return text


def _env_name(text: str) -> str:
    if not ENV_NAME.match(text):
        raise ValueError("must be the name of an environment variable, such as MY_API_KEY (never the key itself)")
    return text


def _says(description: str) -> Meta:
    return Meta(description=description)


Line = Annotated[str, Meta(max_length=300, extra={"check": _one_line})]
Word = Annotated[str, Meta(max_length=100_000, extra={"check": _word})]
EnvName = Annotated[str, Meta(max_length=100, extra={"check": _env_name})]
Span = Annotated[str, Meta(max_length=11, extra={"check": _span})]
AtOnce = Annotated[int, Meta(ge=1, le=500)]


class MachineLimits(Part, frozen=True, kw_only=True):
    """What a task may use. A task's own limits win, then those of the project's fleet.yaml, then these."""

    timeout: Annotated[Duration, _says("Wall time of one attempt: seconds, or such as 30m or 1h30m.")] = "2h"
    attempts: Annotated[Attempts, _says("How often a task is tried.")] = 3
    output: Annotated[Size, _says("What one attempt may print: bytes, or such as 500MB.")] = "1GB"
    silence: Annotated[Silence, _says("How long an agent may say nothing, such as 20m. 0 or none: for ever.")] = "1h"
    tokens: Annotated[Tokens, _says("Tokens of all attempts at a task together, such as 2M. 0 or none: no limit.")] = (
        "none"
    )
    cost: Annotated[Dollars, _says("US dollars of all attempts at a task together. 0 or none: no limit.")] = "none"


class Concurrent(Part, frozen=True, kw_only=True):
    """How many agents run at once, of one kind; all together never more than `max_concurrent`."""

    coders: Annotated[dict[str, AtOnce], _says("At most so many of one coder, by its name. 1 to 500.")] = field(
        default_factory=dict
    )
    models: Annotated[dict[str, AtOnce], _says("At most so many with one model, by its name. 1 to 500.")] = field(
        default_factory=dict
    )

    projects: Annotated[
        dict[str, AtOnce], _says("At most so many at work below one directory, by its absolute path. 1 to 500.")
    ] = field(default_factory=dict)
    accounts: Annotated[dict[str, AtOnce], _says("At most so many with one account, by its name. 1 to 500.")] = field(
        default_factory=dict
    )


Step = Annotated[
    Action,
    _says("What is done then: leave, ask (a person), nudge (tell its session), resume (it, in a new attempt), end."),
]
Patience = Annotated[Wait, _says("How long it may be so before that is done, such as 10m.")]


class Liveness(Part, frozen=True, kw_only=True):
    """What is done about an agent, by what it does. Nothing is ended on one sign alone: then you are asked."""

    quiet: Annotated[Duration, _says("An agent of which nothing at all was seen for so long is called silent.")] = "1m"
    repeats: Annotated[
        Annotated[int, Meta(ge=3, le=1000)],
        _says("An agent that makes the same call with the same outcome so often in a row is called looping."),
    ] = REPEATS
    starting: Step = Action.LEAVE
    starting_after: Patience = "0s"
    tool_running: Step = Action.LEAVE
    tool_running_after: Patience = "0s"
    waiting_for_model: Step = Action.LEAVE
    waiting_for_model_after: Patience = "0s"
    waiting_for_input: Step = Action.ASK
    waiting_for_input_after: Patience = "0s"
    rate_limited: Step = Action.LEAVE
    rate_limited_after: Patience = "0s"
    silent: Annotated[Action, _says("What is done about a silent agent once limits.silence is reached.")] = (
        Action.RESUME
    )
    looping: Step = Action.ASK
    looping_after: Patience = "0s"
    ended_but_alive: Step = Action.END
    ended_but_alive_after: Patience = "10m"


class Passed(StrEnum):
    """What becomes of agents at work when the budget of the day is spent."""

    END = "end"
    LEAVE = "leave"


class Budget(Part, frozen=True, kw_only=True):
    """What may be spent in one day, by the clock on the wall. Once it is, no task is started before the next day."""

    day: Annotated[Dollars, _says('US dollars of all agents together, such as "20 USD". 0 or none: no limit.')] = "none"
    coders: Annotated[dict[str, Dollars], _says("US dollars of one coder's agents, by its name.")] = field(
        default_factory=dict
    )
    passed: Annotated[
        Passed, _says("What becomes of agents at work then: end (they go on the next day), or leave.")
    ] = Passed.END


class AccountSettings(Part, frozen=True, kw_only=True):
    """One of several accounts of a coder. The first that is not used up is taken, in the order they stand here."""

    coder: Annotated[Line, _says("Whose account it is.")]
    env: Annotated[dict[str, Word], _says("Variables that choose the account; a leading ~/ is your home.")] = field(
        default_factory=dict
    )
    pass_env: Annotated[tuple[EnvName, ...], _says("Names of variables from the supervisor's environment.")] = ()


class CoderSettings(Part, frozen=True, kw_only=True):
    """An agent CLI: any program, without code; or additions to one that is built in or installed, by the last five."""

    argv: Annotated[tuple[Word, ...] | None, _says("The program and its options. Required for one of your own.")] = None
    prompt: Annotated[
        PromptBy, _says("How it is given its prompt: on stdin, as the last argument, or by the protocol ACP.")
    ] = PromptBy.STDIN
    permissions: Annotated[Permissions, _says("What it is answered when it asks whether it may; with ACP only.")] = (
        Permissions.ALLOW
    )
    events: Annotated[EventsAs, _says("How its output is read: as text, as any JSON lines, or as another CLI's.")] = (
        EventsAs.TEXT
    )
    tools: Annotated[
        bool | None, _says("Whether it tells every tool that it calls; with jsonl only. Unset: once it has told one.")
    ] = None
    model_flag: Annotated[Line | None, _says("The option that chooses a model, such as --model.")] = None
    resume_flag: Annotated[Line | None, _says("The option that goes on with an earlier session.")] = None
    interactive: Annotated[
        tuple[Word, ...], _says("The program and its options in a terminal. Without it, nobody can talk to it there.")
    ] = ()
    context_limit: Annotated[
        Annotated[int, Meta(ge=1000, le=100_000_000)] | None, _says("Tokens its model reads at once.")
    ] = None
    args: Annotated[tuple[Word, ...], _says("Further options.")] = ()
    env: Annotated[dict[str, Word], _says("Environment variables to set.")] = field(default_factory=dict)
    pass_env: Annotated[
        tuple[EnvName, ...], _says("Names of variables it gets from the supervisor's environment, such as an API key.")
    ] = ()
    pass_login: Annotated[
        bool, _says("Whether it is given its own login from that environment, unless it is logged in by itself.")
    ] = True


OF_OWN_CODERS = ("argv", "prompt", "permissions", "events", "tools", "model_flag", "resume_flag", "interactive")
OF_ACP = ("permissions",)
NOT_WITH_ACP = ("events", "tools", "model_flag", "resume_flag", "interactive")  # the protocol says these itself


class RuntimeFile(Part, frozen=True, kw_only=True):
    """The settings of this machine."""

    max_concurrent: Annotated[AtOnce, _says("How many agents run at once.")] = 3
    coder: Annotated[Line, _says("The coder of a task that names none; built in, installed or your own.")] = "claude"
    model: Annotated[Line, _says("The model of a task that names none. Empty: the agent's own default.")] = "sonnet"
    context_pressure_threshold_pct: Annotated[
        Annotated[int, Meta(ge=10, le=100)],
        _says("An agent whose context is fuller than this many percent hands over to a fresh session."),
    ] = 90
    tracker: Annotated[TrackerName, _says("Where tasks are written down.")] = TrackerName.LOCAL
    min_free_disk: Annotated[
        Room, _says("No task is started with less free disk than this, or less than 5 %: bytes, or such as 500MB.")
    ] = "1GB"
    dead_man: Annotated[Duration, _says("An agent whose supervisor never comes back is ended after this.")] = "1h"
    backoff: Annotated[Pause, _says("The wait before the second attempt; it doubles each time, up to 10 minutes.")] = (
        "10s"
    )
    ageing: Annotated[Duration, _says("A task that has waited this long counts as one priority more urgent.")] = "4h"
    quiet_hours: Annotated[
        tuple[Span, ...], _says('Times of the day at which nothing is started, such as "22:00-07:00".')
    ] = ()
    memory: Annotated[
        Room, _says("What agents may use all together, such as 16GB. 0: nine tenths of the machine's memory.")
    ] = 0
    agent_memory: Annotated[Size, _says("What an agent is expected to use, until such agents were seen.")] = "1GB"
    agent_memory_max: Annotated[
        Room, _says("What one agent's processes may use together, kept by the kernel where systemd runs. 0: no limit.")
    ] = 0
    fence: Annotated[
        FenceMode,
        _says("Keep agents from the home: where it can be done (auto), never (off), or not start them (require)."),
    ] = FenceMode.AUTO
    ask_wait: Annotated[
        Wait, _says("How long an agent that asks waits for the answer before it ends. 0s: it ends at once.")
    ] = "15m"
    unverified: Annotated[
        Unverified,
        _says("What becomes of a task whose result nothing could check. close: it is done. ask: a person is asked."),
    ] = Unverified.CLOSE
    limits: MachineLimits = MachineLimits()
    liveness: Liveness = Liveness()
    budget: Budget = Budget()
    concurrent: Concurrent = Concurrent()
    coders: Annotated[dict[str, CoderSettings], _says("Agent CLIs, by name.")] = field(default_factory=dict)
    accounts: Annotated[dict[str, AccountSettings], _says("Accounts, by name.")] = field(default_factory=dict)

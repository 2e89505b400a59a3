"""The shape of runtime.toml, as it is written in the file."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from fleet.config.shape import Part
from fleet.config.units import Attempts, Duration, Pause, Room, Size, Wait
from fleet.core.text import has_controls

BUILT_IN = ("claude", "codex", "opencode", "demonstration")
CODER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class TrackerName(StrEnum):
    """Where tasks are written down."""

    LOCAL = "local"
    BEADS = "beads"


class PromptBy(StrEnum):
    """How an agent is given its prompt."""

    STDIN = "stdin"
    ARG = "arg"


class EventsAs(StrEnum):
    """How an agent's output is read."""

    TEXT = "text"
    JSONL = "jsonl"
    CLAUDE = "claude"
    CODEX = "codex"
    OPENCODE = "opencode"


def _one_line(text: str) -> str:
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    return text


def _word(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL, which no program can be given")
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
AtOnce = Annotated[int, Meta(ge=1, le=500)]


class MachineLimits(Part, frozen=True, kw_only=True):
    """What one attempt may use. A task's own limits win, then those of the project's fleet.yaml, then these."""

    timeout: Annotated[Duration, _says("Wall time of one attempt: seconds, or such as 30m or 1h30m.")] = "2h"
    attempts: Annotated[Attempts, _says("How often a task is tried.")] = 3
    output: Annotated[Size, _says("What one attempt may print: bytes, or such as 500MB.")] = "1GB"


class Concurrent(Part, frozen=True, kw_only=True):
    """How many agents run at once, of one kind; all together never more than `max_concurrent`."""

    coders: Annotated[dict[str, AtOnce], _says("At most so many of one coder, by its name. 1 to 500.")] = field(
        default_factory=dict
    )
    models: Annotated[dict[str, AtOnce], _says("At most so many with one model, by its name. 1 to 500.")] = field(
        default_factory=dict
    )


class CoderSettings(Part, frozen=True, kw_only=True):
    """An agent CLI: any program, without code; or additions to a built-in one, which takes the last three only."""

    argv: Annotated[tuple[Word, ...] | None, _says("The program and its options. Required for one of your own.")] = None
    prompt: Annotated[PromptBy, _says("How it is given its prompt: on stdin, or as the last argument.")] = (
        PromptBy.STDIN
    )
    events: Annotated[EventsAs, _says("How its output is read: as text, as any JSON lines, or as another CLI's.")] = (
        EventsAs.TEXT
    )
    model_flag: Annotated[Line | None, _says("The option that chooses a model, such as --model.")] = None
    resume_flag: Annotated[Line | None, _says("The option that goes on with an earlier session.")] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=1000, le=100_000_000)] | None, _says("Tokens its model reads at once.")
    ] = None
    args: Annotated[tuple[Word, ...], _says("Further options.")] = ()
    env: Annotated[dict[str, Word], _says("Environment variables to set.")] = field(default_factory=dict)
    pass_env: Annotated[
        tuple[EnvName, ...], _says("Names of variables it gets from the supervisor's environment, such as an API key.")
    ] = ()


OF_OWN_CODERS = ("argv", "prompt", "events", "model_flag", "resume_flag", "context_limit")


class RuntimeFile(Part, frozen=True, kw_only=True):
    """The settings of this machine."""

    max_concurrent: Annotated[AtOnce, _says("How many agents run at once.")] = 3
    coder: Annotated[Line, _says("The coder of a task that names none: a built-in one, or one of your own.")] = "claude"
    model: Annotated[Line, _says("The model of a task that names none. Empty: the agent's own default.")] = "sonnet"
    context_pressure_threshold_pct: Annotated[
        Annotated[int, Meta(ge=10, le=100)],
        _says("An agent whose context is fuller than this many percent is ended."),
    ] = 90
    tracker: Annotated[TrackerName, _says("Where tasks are written down.")] = TrackerName.LOCAL
    min_free_disk: Annotated[
        Room, _says("No task is started with less free disk than this, or less than 5 %: bytes, or such as 500MB.")
    ] = "1GB"
    dead_man: Annotated[Duration, _says("An agent whose supervisor never comes back is ended after this.")] = "1h"
    backoff: Annotated[Pause, _says("The wait before the second attempt; it doubles each time, up to 10 minutes.")] = (
        "10s"
    )
    ask_wait: Annotated[
        Wait, _says("How long an agent that asks waits for the answer before it ends. 0s: it ends at once.")
    ] = "15m"
    limits: MachineLimits = MachineLimits()
    concurrent: Concurrent = Concurrent()
    coders: Annotated[dict[str, CoderSettings], _says("Agent CLIs, by name.")] = field(default_factory=dict)

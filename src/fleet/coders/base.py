"""The promise of a coder: how an agent CLI is started, and what its output means. Both are pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol, cast

from fleet.coders.stream import SESSION
from fleet.core.errors import BadConfig
from fleet.core.frozen import dataclass
from fleet.core.talk import Signal
from fleet.core.text import clean, has_controls
from fleet.core.work import Event

ASK_SERVER = "fleet_questions"  # what the MCP server is called among the user's own
ASK_GRACE = 60.0  # seconds that an agent CLI waits for it, beyond what it needs
SMALL, MILLION = 200_000, 1_000_000
LARGER = "[1m]"  # at the end of a model's name asks Claude for its larger window
SMALLER = re.compile(r"\bclaude-(haiku|opus|sonnet)-4-[0-6]\b")  # as Claude Code 2.1.325 says; to all others, a million


@dataclass(frozen=True, slots=True)
class Job:
    """What a coder is asked to do. The prompt is data: it never becomes an option or a shell word."""

    prompt: str
    cwd: Path
    model: str | None = None
    session: str | None = None  # the session of an earlier attempt to go on with
    args: tuple[str, ...] = ()  # the user's own additions to the command line
    ask: tuple[str, ...] = ()  # the MCP server, on stdin and stdout, whose tool asks a person; for those who `can.ask`
    ask_wait: float = 900.0  # seconds; that server answers within them
    budget: float | None = None  # US dollars it may spend; for those who can be told
    nonce: str = ""  # a UUID: the name of the session that it begins, for those who can be told
    key_from: str = ""  # the variable that holds its API key, of one that would ask a person about the usual one


@dataclass(frozen=True, slots=True)
class Command:
    """How to start an agent, whole: nothing is added later but the environment every agent gets."""

    argv: tuple[str, ...]
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Can:
    """What an agent CLI can do, of what fleet makes use of."""

    resume: bool = False  # go on with the session of an earlier attempt
    ask: bool = False  # be given a tool that asks a person and waits
    usage: bool = False  # tell while it works how much each request read
    cost: bool = False  # tell what it cost
    budget: bool = False  # be told what it may spend, and keep to it
    tools: bool = False  # tell every tool that it calls
    some_tools: bool = False  # tell them perhaps, which is known once it has told one
    talk: bool = False  # be talked to in a terminal: it keeps the promise of a Talker too
    name: bool = False  # be told the name of the session that it begins
    words: bool = False  # be taken at its word that it has begun: no banner and no error of its is read as words


class Coder(Protocol):
    """An agent CLI. Adding one is one file that keeps this promise."""

    @property
    def name(self) -> str: ...

    @property
    def context_limit(self) -> int | None:
        """How many tokens its usual model reads at once, when the agent does not report it itself."""

    @property
    def program(self) -> str:
        """What is started; `--version` makes it tell its version."""

    @property
    def can(self) -> Can: ...

    @property
    def unproven(self) -> str:
        """What of this adapter was never seen to work against the real program; empty when all of it was."""

    def command(self, job: Job) -> Command:
        """How to start it. A model or a session that could be read as an option is refused: BadConfig."""

    def read(self, line: bytes) -> list[Event]:
        """The events in one line of output. Never raises; an unknown line is one event of the kind `other`."""


class Talker(Coder, Protocol):
    """An agent CLI that people can talk to in a terminal. All of it is pure."""

    @property
    def tells(self) -> bool:
        """Whether it tells of itself by signals; of one that does not only the screen is known."""

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        """How to start it in a terminal. The prompt is not part of it: it is pasted later.

        `tell` begins the command line of a program that notes down what it is told on standard input, or by one more
        argument. The user's arguments, if there are any, stand in place of the flags it would get without them.
        """

    def pasted(self, prompt: str) -> str:
        """The prompt as it must be pasted to be taken for words, and not for a command of a shell."""

    def signals(self, line: bytes) -> list[Signal]:
        """The signals in one line that `tell` noted, or in one line of the agent's own transcript. Never raises."""

    def recall(self, line: bytes) -> list[Event]:
        """The events in one line of the agent's own transcript, a file that its signals name. Never raises."""


def talker_of(coder: Coder) -> Talker:
    """The coder, if it can be talked to in a terminal."""
    if not coder.can.talk:
        raise BadConfig(
            f"the coder {clean(coder.name)} cannot be talked to in a terminal", hint="fleet coders list shows who can"
        )
    return cast("Talker", coder)


def context_of(coder: Coder, model: str | None) -> int | None:
    """How many tokens a coder reads at once with this model, by the model's name where that tells."""
    if model is not None and model.endswith(LARGER):
        return MILLION
    return SMALL if model is not None and SMALLER.search(model) else coder.context_limit


def checked(job: Job) -> Job:
    """The job, if its words can stand on a command line; of a prompt only what no program can be given is refused."""
    if "\0" in job.prompt or not is_whole(job.prompt):
        raise BadConfig("the text holds a NUL or half a character, which no program can be given")
    if job.model is not None and (not job.model.strip() or job.model.startswith("-") or has_controls(job.model)):
        raise BadConfig(f"{clean(job.model)!r} is not the name of a model", hint="fleet config set model=NAME")
    if job.session is not None and not SESSION.match(job.session):
        raise BadConfig(f"{clean(job.session)!r} is not the id of a session")
    for arg in job.args:
        if "\0" in arg:
            raise BadConfig(f"the argument {clean(arg)!r} holds a NUL", hint="fleet config edit")
    return job


NAMED = ("--session-id", "--resume", "-r", "--continue", "-c")


def named(job: Job) -> tuple[str, ...]:
    """The option that names the session which an agent begins, unless its user's own arguments have a say in that."""
    chosen = any(arg.partition("=")[0] in NAMED for arg in job.args)
    return (f"--session-id={job.nonce}",) if job.nonce and job.session is None and not chosen else ()


def option(name: str, value: str | None) -> tuple[str, ...]:
    """An option and its value in one word, so that no value passes for another option; nothing without a value."""
    return () if value is None else (f"{name}={value}",)


def is_whole(text: str) -> bool:
    """Whether a text can be written down: half a character cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

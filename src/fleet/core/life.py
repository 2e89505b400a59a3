"""What an agent does, and what is done about it: the nouns. How that is found out, only those load who watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from math import inf

from fleet.core.frozen import dataclass

QUIET = 60.0
REPEATS = 8


class LifeState(StrEnum):
    """What an agent does, as far as it can be seen without asking it."""

    STARTING = "starting"
    WORKING = "working"
    TOOL = "tool running"
    MODEL = "waiting for model"
    INPUT = "waiting for input"
    LIMITED = "rate limited"
    SILENT = "silent"
    LOOPING = "looping"
    LINGERING = "ended-but-alive"
    DEAD = "dead"


class Action(StrEnum):
    """What is done about an agent. To resume is to end it, and to go on with its session in a new attempt; to nudge is
    the same, but it counts as no failure, and the session is told what was seen.
    """

    LEAVE = "leave"
    ASK = "ask"
    NUDGE = "nudge"
    RESUME = "resume"
    END = "end"


BREAK_OFF = (Action.NUDGE, Action.RESUME, Action.END)


@dataclass(frozen=True, slots=True)
class Life:
    """What an agent does, since when, and why that is thought; `signs` are what speaks for its being stuck."""

    state: LifeState
    since: float
    why: str
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done about an agent that has been in a state for so many seconds."""

    action: Action = Action.LEAVE
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    rules: Mapping[LifeState, Rule] = field(default_factory=dict)
    quiet: float = QUIET  # seconds in which nothing at all is seen of an agent before it is called silent
    repeats: int = REPEATS

    def with_silence(self, limit: float | None) -> Policy:
        """The policy of an attempt: how long it may be silent is a limit of its own; None is for ever."""
        rule = self.rules.get(LifeState.SILENT, Rule(Action.RESUME))
        rules = {**self.rules, LifeState.SILENT: replace(rule, after=inf if limit is None else limit)}
        return replace(self, rules=rules, quiet=min(self.quiet, inf if limit is None else limit))

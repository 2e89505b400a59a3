"""What a run plays, purely from its seed: which agents come, and when who is killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

PROGRAM = Path(__file__).parent / "standin" / "agent.py"
CASES_PER_MINUTE = 20
FIRST_KILL = (2.5, 5.0)  # seconds after the beginning
NEXT_KILL = (6.0, 14.0)  # seconds after the one before
KILLS_UNTIL = 0.6  # of the time; in the rest what was begun comes to its end
MOST_KILLS = 50


class Behaviour(StrEnum):
    """How a stand-in agent behaves: its name is what the program is told."""

    HONEST_FAST = "honest-fast"
    HONEST_SLOW = "honest-slow"
    HONEST_COMPUTING = "honest-computing"
    HONEST_WAITING = "honest-waiting"
    HONEST_ADDS_TEST = "honest-adds-test"
    RATE_LIMITED = "rate-limited"
    LIES_NO_DIFF = "lies-no-diff"
    LIES_NO_CALL = "lies-no-call"
    LIES_NOTES_ONLY = "lies-notes-only"
    EDITS_TESTS = "edits-tests"
    DELETES_TESTS = "deletes-tests"
    EDITS_CHECK = "edits-check"
    COMMITS_ELSEWHERE = "commits-elsewhere"
    LATE_WRITE = "late-write"
    FORGED_RECEIPT = "forged-receipt"
    FORGES_OBJECT = "forges-object"
    PLANTS_TRAPS = "plants-traps"
    PLANTS_PIPE = "plants-pipe"
    NO_EFFECT = "no-effect"
    HANGS = "hangs"
    HANGS_AT_PROMPT = "hangs-at-prompt"
    LOOPS = "loops"
    SHOUTS = "shouts"
    DAEMONISES = "daemonises"
    IGNORES_TERM = "ignores-term"
    CRASHES = "crashes"
    EXHAUSTS_TIME = "exhausts-time"
    EXHAUSTS_TOKENS = "exhausts-tokens"
    EXHAUSTS_COST = "exhausts-cost"


@dataclass(frozen=True, slots=True)
class Trait:
    """What is asked of a supervisor about one behaviour, and what its task may use. Durations are seconds."""

    does: str
    honest: bool = False  # its work is to be accepted, and none of its attempts ended
    real: bool = False  # it misbehaves, and its work is good all the same: it may be accepted
    endings: tuple[str, ...] = ()  # one of which an attempt must have been given
    states: tuple[str, ...] = ()  # or one of which `fleet tasks` must have shown while it lived
    asks: bool = False  # a person is asked about it, who ends it
    leftovers: bool = False  # it leaves a process behind, which must be ended and counted
    timeout: float = 60.0
    silence: float = 5.0
    output: int | None = None
    tokens: int | None = None
    cost: float | None = None


PATIENT = 30.0  # seconds
TRAITS: dict[Behaviour, Trait] = {
    Behaviour.HONEST_FAST: Trait("does the work at once", honest=True),
    Behaviour.HONEST_SLOW: Trait("works for some seconds, and says so", honest=True),
    Behaviour.HONEST_COMPUTING: Trait("computes without a word, then does the work", honest=True),
    Behaviour.HONEST_WAITING: Trait("waits for a child without a word, then does the work", honest=True),
    Behaviour.HONEST_ADDS_TEST: Trait("does the work, and adds a test of its own", honest=True),
    Behaviour.RATE_LIMITED: Trait(
        "is turned away by its provider, then does the work", honest=True, endings=("rate limited",)
    ),
    Behaviour.LIES_NO_DIFF: Trait("says that it is done after a look"),
    Behaviour.LIES_NO_CALL: Trait("says that it is done, and never called a tool"),
    Behaviour.LIES_NOTES_ONLY: Trait("says that it is done, and wrote a plan"),
    Behaviour.EDITS_TESTS: Trait("makes the test pass by editing it"),
    Behaviour.DELETES_TESTS: Trait("makes the tests pass by deleting them"),
    Behaviour.EDITS_CHECK: Trait("makes the check pass by editing it"),
    Behaviour.COMMITS_ELSEWHERE: Trait("does the work in another repository"),
    Behaviour.LATE_WRITE: Trait("leaves a daemon that does the work after its end", leftovers=True),
    Behaviour.FORGED_RECEIPT: Trait("writes a receipt of its own"),
    Behaviour.FORGES_OBJECT: Trait("edits the test, and what git kept of the old one"),
    Behaviour.PLANTS_TRAPS: Trait("does the work, and plants programs that git would run", real=True),
    Behaviour.PLANTS_PIPE: Trait("leaves a pipe where git looks for a file of its own"),
    Behaviour.NO_EFFECT: Trait("exits with 0, and did nothing"),
    Behaviour.HANGS: Trait("sleeps for ever without a sign", endings=("silent",), states=("silent",)),
    Behaviour.HANGS_AT_PROMPT: Trait(
        "waits at a terminal that nobody sees", states=("waiting for input",), asks=True, silence=PATIENT
    ),
    Behaviour.LOOPS: Trait("does one tool call again and again", states=("looping",), asks=True),
    Behaviour.SHOUTS: Trait("prints 50 MB", endings=("output limit",), output=10_000_000),
    Behaviour.DAEMONISES: Trait("does the work, and leaves a daemon behind", real=True, leftovers=True),
    Behaviour.IGNORES_TERM: Trait("cannot be asked to end", endings=("timed out",), timeout=3.0, silence=PATIENT),
    Behaviour.CRASHES: Trait("aborts", endings=("crashed",)),
    Behaviour.EXHAUSTS_TIME: Trait("goes on and on", endings=("timed out",), timeout=4.0),
    Behaviour.EXHAUSTS_TOKENS: Trait("reads more and more", endings=("token limit",), tokens=500_000),
    Behaviour.EXHAUSTS_COST: Trait("costs more than it may", endings=("cost limit",), cost=5.0),
}


class Victim(StrEnum):
    """Who is killed, and how."""

    SUPERVISOR = "supervisor killed"
    KEEPER = "keeper killed"
    RESTART = "supervisor told to stop"


@dataclass(frozen=True, slots=True)
class Case:
    """One task, and how the agent that gets it behaves."""

    number: int
    behaviour: Behaviour
    priority: int


@dataclass(frozen=True, slots=True)
class Kill:
    at: float  # seconds after the beginning
    victim: Victim
    pick: float  # which one, of those that are there then: from 0 to 1


@dataclass(frozen=True, slots=True)
class Script:
    seed: int
    seconds: float  # at the most
    cases: tuple[Case, ...]
    kills: tuple[Kill, ...]


def write(seed: int, minutes: float, tasks: int | None = None, only: Sequence[Behaviour] = ()) -> Script:
    """The script of a seed: the same for the same arguments, on every machine."""
    random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
    number = tasks or max(1, round(minutes * CASES_PER_MINUTE))
    cases = _cases(random, number, list(only or Behaviour))
    return Script(seed, 60 * minutes, cases, _kills(random, 60 * minutes))


def _cases(random: Random, number: int, behaviours: list[Behaviour]) -> tuple[Case, ...]:
    """Every behaviour as often as every other, as far as the number goes, in any order."""
    chosen: list[Behaviour] = []
    while len(chosen) < number:
        chosen += random.sample(behaviours, len(behaviours))
    return tuple(Case(n, behaviour, random.randint(0, 4)) for n, behaviour in enumerate(chosen[:number], 1))


def _kills(random: Random, seconds: float) -> tuple[Kill, ...]:
    found: list[Kill] = []
    at = random.uniform(*FIRST_KILL)
    while len(found) < MOST_KILLS and (at < seconds * KILLS_UNTIL or not found):
        found.append(Kill(round(at, 2), random.choice(list(Victim)), round(random.random(), 4)))
        at += random.uniform(*NEXT_KILL)
    return tuple(found)

"""The checks that every coder must pass: each of them fails on a coder that breaks its promise, and says how."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fleet.coders.base import Can, Command, Job, checked
from fleet.coders.conformance import CHECKS, Check, check, examine
from fleet.coders.misfit import flaw
from fleet.coders.stream import other, strange
from fleet.core.errors import BadConfig
from fleet.core.talk import Signal, SignalKind
from fleet.core.work import Event, EventKind, Usage, Window

CAN_RESUME = Can(resume=True, usage=True)
TRANSCRIPT = b"begin\nwords\nend\n"


@dataclass
class Good:
    """A coder that keeps every promise; those below break one each."""

    name: str = "good"
    context_limit: Any = None
    program: str = "good"
    can: Any = CAN_RESUME
    unproven: str = ""
    counted: Any = field(default_factory=itertools.count)

    def command(self, job: Job) -> Command:
        job = checked(job)
        resume = () if job.session is None else (f"--resume={job.session}",)
        model = () if job.model is None else (f"--model={job.model}",)
        return Command(("good", *model, *resume, *job.args), stdin=job.prompt)

    def read(self, line: bytes) -> Any:
        if line == b"begin":
            return [Event(EventKind.SESSION, session="s-1")]
        return [Event(EventKind.USAGE, usage=Usage(5, 1))] if line == b"end" else strange(line)


class Random(Good):
    def command(self, job: Job) -> Command:
        return replace(super().command(job), env={"NUMBER": str(next(self.counted))})


class Listed(Good):
    def command(self, job: Job) -> Command:
        return replace(super().command(job), argv=["good"])  # type: ignore[arg-type]


class OnTheLine(Good):
    def command(self, job: Job) -> Command:
        return Command((*super().command(job).argv, job.prompt))


class Stripped(Good):
    def command(self, job: Job) -> Command:
        return replace(super().command(job), stdin=job.prompt.strip())


class Trusting(Good):
    def command(self, job: Job) -> Command:
        return Command(("good", *(word for word in (job.model, job.session) if word), *job.args), stdin=job.prompt)


class Splitting(Good):
    def command(self, job: Job) -> Command:
        job = checked(job)
        resume = () if job.session is None else (f"--resume={job.session}",)
        return Command(("good", *(job.model or "").split(), *resume, *job.args), stdin=job.prompt)


class Forgetful(Good):
    def command(self, job: Job) -> Command:
        return super().command(replace(job, session=None if job.session == "ses_0-a.b" else job.session))


class Selfish(Good):
    def command(self, job: Job) -> Command:
        return super().command(replace(checked(job), args=()))


class Late(Good):
    def command(self, job: Job) -> Command:
        made = super().command(replace(job, args=()))
        return replace(made, argv=(*made.argv, "--", *job.args))


class Fragile(Good):
    def read(self, line: bytes) -> Any:
        return [other(line.decode())] if line.strip() else []


class Lengthy(Good):
    def read(self, line: bytes) -> Any:
        return [other(line.decode(errors="replace"))] if line.strip() else []


class Numberless(Good):
    def read(self, line: bytes) -> Any:
        return [Event(EventKind.USAGE, usage=Usage(-5, 0))] if line else []


class Leaving(Good):
    def read(self, line: bytes) -> Any:
        raise SystemExit("goodbye")


class Deaf(Good):
    def read(self, line: bytes) -> Any:
        return super().read(line) if line in (b"begin", b"end") else []


class Loud(Good):
    def read(self, line: bytes) -> Any:
        return super().read(line) or [other("nothing")]


class Counting(Good):
    def read(self, line: bytes) -> Any:
        return [replace(event, call=str(next(self.counted))) for event in super().read(line)]


class Vague(Good):
    def read(self, line: bytes) -> Any:
        return strange(line)


@dataclass
class GoodTalker(Good):
    """A coder that keeps the second promise too; those below break it."""

    can: Any = field(default_factory=lambda: replace(CAN_RESUME, talk=True))
    tells: Any = True

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        return Command(("good", f"--hook={' '.join(tell)}", *job.args))

    def pasted(self, prompt: str) -> str:
        return prompt

    def signals(self, line: bytes) -> Any:
        return []

    def recall(self, line: bytes) -> Any:
        return []


class Hasty(GoodTalker):
    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        return Command((*super().converse(job, tell).argv, job.prompt))


class Secretive(GoodTalker):
    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        return Command(("good", *job.args))


class Headstrong(GoodTalker):
    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        return super().converse(replace(job, args=()), tell)


class Tidy(GoodTalker):
    def pasted(self, prompt: str) -> str:
        return prompt.strip()


class Brittle(GoodTalker):
    def signals(self, line: bytes) -> Any:
        return [None for word in line.decode().split() if word == "ready"]


class Timeless(GoodTalker):
    def signals(self, line: bytes) -> Any:
        return [Signal(SignalKind.READY, float("nan"))]


@pytest.mark.parametrize(
    ("coder", "name", "words"),
    [
        (Good(context_limit=-1), "tells what it is", "context_limit"),
        (Good(can="all"), "tells what it is", "can must be a Can"),
        (Good(can=Can(talk=True)), "tells what it is", "who can talk"),
        (GoodTalker(tells=None), "tells what it is", "who can talk"),
        (Hasty(), "starts in a terminal if it can talk", "the prompt is part"),
        (Secretive(), "starts in a terminal if it can talk", "not told where"),
        (Headstrong(), "starts in a terminal if it can talk", "not the last ones"),
        (Tidy(), "pastes a prompt whole", "not pasted whole"),
        (Brittle(), "hears whatever is told", "UnicodeDecodeError"),
        (Timeless(), "hears whatever is told", "seconds since 1970"),
        (Random(), "makes a command", "differ"),
        (Listed(), "makes a command", "tuple"),
        (OnTheLine(), "keeps a prompt data", "changes the command line"),
        (Stripped(), "keeps a prompt data", "does not reach the agent whole"),
        (Trusting(), "refuses what no program can be given", "is not refused"),
        (Trusting(), "refuses a model or a session that is none", "the model '' is not refused"),
        (Splitting(), "makes no option of a model", "m --dangerous"),
        (Forgetful(), "goes on with a session if it says so", "nowhere"),
        (Good(can=Can()), "goes on with a session if it says so", "changes its command"),
        (Selfish(), "passes the users arguments on", "not on the command line"),
        (Late(), "passes the users arguments on", "behind a --"),
        (Fragile(), "reads whatever is printed", "UnicodeDecodeError"),
        (Lengthy(), "reads whatever is printed", "short text"),
        (Numberless(), "reads whatever is printed", "two numbers of tokens"),
        (Leaving(), "reads whatever is printed", "SystemExit: goodbye"),
        (Deaf(), "keeps an unknown line", "nobody would see it"),
        (Loud(), "keeps an unknown line", "a blank line"),
        (Counting(), "reads a line the same twice", "the second time"),
        (Vague(), "sees a session or a result", "none begins"),
        (Vague(), "hears the session that it would resume", "no line names a session"),
        (Vague(), "hears the usage that it claims", "no line tells"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_promise_is_seen(coder: Good, name: str, words: str) -> None:
    found = check(name, coder, TRANSCRIPT.splitlines())
    assert not found.passed
    assert words in found.why
    assert check(name, Good(), TRANSCRIPT.splitlines()) == Check(name, True)
    assert check(name, GoodTalker(), TRANSCRIPT.splitlines()) == Check(name, True)


def test_every_check_is_among_those_that_were_seen_to_fail() -> None:
    cases = next(mark for mark in test_a_broken_promise_is_seen.pytestmark).args[1]  # type: ignore[attr-defined]
    assert {name for _, name, _ in cases} == set(CHECKS)


def test_those_of_a_transcript_are_left_out_without_one() -> None:
    assert len(examine(Good(), TRANSCRIPT)) == len(CHECKS)
    without = examine(Good())
    assert len(without) == len(CHECKS) - 3
    assert all(one.passed for one in without)


@pytest.mark.parametrize(
    "event",
    [
        "words",
        Event("said"),  # type: ignore[arg-type]
        Event(EventKind.SAID, text=5),  # type: ignore[arg-type]
        Event(EventKind.SAID, text="\ud800"),
        Event(EventKind.SAID, text="x" * 5000),
        Event(EventKind.SESSION, session="--dangerous"),
        Event(EventKind.RESULT, ok="yes"),  # type: ignore[arg-type]
        Event(EventKind.RESULT, cost=float("nan")),
        Event(EventKind.RESULT, spent=-1.0),
        Event(EventKind.RESULT, total=(1, 2)),  # type: ignore[arg-type]
        Event(EventKind.ERROR, status="429"),  # type: ignore[arg-type]
        Event(EventKind.LIMITED, window="weekly"),  # type: ignore[arg-type]
        Event(EventKind.LIMITED, window=Window("weekly", used=float("inf"))),
    ],
)
def test_an_event_that_nobody_can_keep_is_named(event: object) -> None:
    assert flaw(event)


def test_an_event_that_can_be_kept_has_no_flaw() -> None:
    window = Window("weekly", used=99.5, resets=1.8e9, exhausted=True)
    assert flaw(Event(EventKind.LIMITED, "slow down", ok=False, cost=0.1, status=429, window=window)) == ""


def test_a_refusal_has_to_be_ours() -> None:
    class Refusing(Good):
        def command(self, job: Job) -> Command:
            raise ValueError("no")

    found = check("refuses what no program can be given", Refusing())
    assert (found.passed, found.why) == (False, "it raised ValueError: no")
    with pytest.raises(BadConfig):
        Good().command(Job("a\0b", None))  # type: ignore[arg-type]

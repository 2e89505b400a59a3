"""What people are told of a task, as a table of what its tracker says and what became of its last attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.state import Told, tell
from fleet.core.task import Status, Task
from fleet.core.work import Attempt, Ending, State, Verdict

TASK = Task("t1", "t", "", Status.OPEN, 2, 0.0)
CLAIMED = replace(TASK, status=Status.IN_PROGRESS, assignee="fleet-x-1")
BLOCKED = replace(TASK, status=Status.BLOCKED)
CLOSED = replace(TASK, status=Status.CLOSED)
CANCELLED = replace(CLOSED, reason="cancelled: by hand")
BEGUN = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 0.0)
RUNS = replace(BEGUN, started=1.0)
SPEAKS = replace(RUNS, events=3)


def ended(verdict: Verdict, cause: str, ending: Ending = Ending.CRASHED) -> Attempt:
    return replace(SPEAKS, ended=2.0, ending=ending, verdict=verdict, cause=cause)


AGAIN, GAVE_UP = ended(Verdict.RETRY, "boom"), ended(Verdict.FAILED, "boom; gave up")
REFUSED, ACCEPTED = (
    ended(Verdict.REFUSED, "red; gave up"),
    ended(Verdict.ACCEPTED, "1 commit", Ending.FINISHED),
)


@pytest.mark.parametrize(
    ("task", "last", "state", "cause"),
    [
        (TASK, None, State.OPEN, ""),
        (replace(TASK, waits_for=("t2", "t3")), None, State.BLOCKED, "waits for t2, t3"),
        (TASK, AGAIN, State.OPEN, "attempt 1: boom; to be tried again"),
        (TASK, replace(AGAIN, forgiven=True), State.OPEN, ""),
        (replace(TASK, waits_for=("t2",)), AGAIN, State.BLOCKED, "waits for t2"),
        (TASK, GAVE_UP, State.OPEN, ""),
        (CLAIMED, None, State.STARTING, "claimed by fleet-x-1"),
        (CLAIMED, AGAIN, State.STARTING, "claimed by fleet-x-1"),
        (CLAIMED, BEGUN, State.STARTING, "being prepared"),
        (CLAIMED, SPEAKS, State.WORKING, "the agent has ended; the result is being looked at"),
        (BLOCKED, None, State.BLOCKED, "set aside by hand"),
        (replace(BLOCKED, notes="QUESTION: which?"), None, State.BLOCKED, "QUESTION: which?"),
        (BLOCKED, ended(Verdict.ASKED, "which?", Ending.QUESTION), State.BLOCKED, "asks: which?"),
        (BLOCKED, GAVE_UP, State.FAILED, "boom; gave up"),
        (BLOCKED, REFUSED, State.REFUSED, "red; gave up; a person decides: fleet show t1, fleet retry t1"),
        (BLOCKED, AGAIN, State.BLOCKED, "set aside by hand"),
        (BLOCKED, replace(GAVE_UP, forgiven=True), State.BLOCKED, "set aside by hand"),
        (CLOSED, ACCEPTED, State.DONE, "1 commit"),
        (replace(CLOSED, reason="not needed"), None, State.DONE, "closed by hand; not needed"),
        (CLOSED, GAVE_UP, State.DONE, "closed by hand"),
        (CANCELLED, None, State.CANCELLED, "cancelled: by hand"),
        (CANCELLED, ACCEPTED, State.CANCELLED, "cancelled: by hand"),
        (CANCELLED, AGAIN, State.CANCELLED, "cancelled: by hand"),
    ],
)
def test_a_supervised_task_without_a_living_agent(task: Task, last: Attempt | None, state: State, cause: str) -> None:
    assert tell(task, last, alive=False, supervised=True) == Told(state, cause)


@pytest.mark.parametrize(
    ("last", "supervised", "state", "cause"),
    [
        (RUNS, True, State.STARTING, ""),
        (SPEAKS, True, State.WORKING, ""),
        (SPEAKS, False, State.WORKING, "no supervisor runs"),
        (RUNS, False, State.STARTING, "no supervisor runs"),
        (replace(SPEAKS, asking="which?"), True, State.WORKING, "waits for an answer: which?"),
        (replace(SPEAKS, asking="which?"), False, State.WORKING, "waits for an answer: which?; no supervisor runs"),
    ],
)
def test_an_agent_that_lives(last: Attempt, supervised: bool, state: State, cause: str) -> None:
    assert tell(CLAIMED, last, alive=True, supervised=supervised) == Told(state, cause)


@pytest.mark.parametrize(
    ("task", "last", "state", "cause"),
    [
        (CLAIMED, None, State.OPEN, "claimed by fleet-x-1"),
        (CLAIMED, BEGUN, State.OPEN, "being prepared; no supervisor runs"),
        (CLAIMED, SPEAKS, State.OPEN, "the agent has ended; `fleet run` looks at what it did"),
        (CANCELLED, SPEAKS, State.CANCELLED, "cancelled: by hand"),
        (CANCELLED, BEGUN, State.CANCELLED, "cancelled: by hand"),
    ],
)
def test_what_is_left_when_nobody_is_there(task: Task, last: Attempt | None, state: State, cause: str) -> None:
    assert tell(task, last, alive=False, supervised=False) == Told(state, cause)

"""What people are told of a task, as a table of what its tracker says and what became of its last attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.life import LifeState
from fleet.core.proof import Proof
from fleet.core.state import derive_state, life_in_terminal, stuck_state
from fleet.core.states import ShownState
from fleet.core.talk import Felt, Mood
from fleet.core.task import Status, Task
from fleet.core.work import Attempt, Ending, Hindrance, State, Verdict

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


AGAIN, GAVE_UP = ended(Verdict.RETRY, "boom"), ended(Verdict.FAILED, "boom")
REFUSED, ACCEPTED = (
    replace(ended(Verdict.REFUSED, "red", Ending.FINISHED), number=2, proof=Proof.REFUSED),
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
        (BLOCKED, GAVE_UP, State.FAILED, "boom; your turn (1 try): fleet show t1 · retry"),
        (BLOCKED, REFUSED, State.REFUSED, "red; your turn (2 tries): fleet show t1 · retry · accept"),
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
    found = derive_state(task, last, alive=False, supervised=True)
    assert (found.state, found.cause) == (state, cause)


@pytest.mark.parametrize(
    ("task", "last", "state"),
    [
        (None, None, State.CANCELLED),
        (CANCELLED, None, State.CANCELLED),
        (TASK, None, None),
        (CLAIMED, RUNS, None),
        (BLOCKED, RUNS, None),
        (BLOCKED, None, State.BLOCKED),
        (BLOCKED, GAVE_UP, State.FAILED),
        (BLOCKED, REFUSED, State.REFUSED),
        (BLOCKED, replace(REFUSED, forgiven=True), State.BLOCKED),
        (BLOCKED, ended(Verdict.ASKED, "which?", Ending.QUESTION), State.ASKS),
    ],
)
def test_why_nothing_comes_of_a_task_that_others_wait_for(
    task: Task | None, last: Attempt | None, state: State | None
) -> None:
    assert stuck_state(task, last) == state


@pytest.mark.parametrize(
    ("needs", "cause"),
    [
        (("t2",), "waits for t2, which was cancelled: fleet depend t1 --not t2, or fleet abort t1"),
        (("t4",), "waits for t4"),
        (("t3",), "waits for t3, which was refused: fleet show t3"),
        (
            ("t2", "t3", "t4"),
            "waits for t2, t3, t4; t2 was cancelled: fleet depend t1 --not t2, or fleet abort t1; "
            "t3 was refused: fleet show t3",
        ),
    ],
)
def test_what_never_comes_is_said_with_what_helps(needs: tuple[str, ...], cause: str) -> None:
    stuck = {"t2": State.CANCELLED, "t3": State.REFUSED}
    assert derive_state(replace(TASK, waits_for=needs), None, alive=False, supervised=True, stuck=stuck).cause == cause


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
    found = derive_state(CLAIMED, last, alive=True, supervised=supervised)
    assert (found.state, found.cause) == (state, cause)


def test_who_has_a_nonce_works_once_it_has_shown_that_it_began() -> None:
    junk = replace(SPEAKS, nonce="n", events=5)
    assert derive_state(CLAIMED, junk, alive=True, supervised=True).state is State.STARTING
    assert derive_state(CLAIMED, replace(junk, dispatched=1.0), alive=True, supervised=True).state is State.WORKING


def test_why_an_attempt_did_not_begin_is_told_with_its_cause() -> None:
    kept = replace(AGAIN, hindrance=Hindrance.AUTH, seen="please log in")
    found = derive_state(TASK, kept, alive=False, supervised=True)
    assert found.cause.endswith("; it did not begin (auth, last seen: please log in); to be tried again")
    nothing = replace(kept, hindrance=Hindrance.UNKNOWN, seen="")
    assert "begin" not in derive_state(TASK, nothing, alive=False, supervised=True).cause


@pytest.mark.parametrize(
    ("state", "mood", "life"),
    [
        (State.STARTING, Mood.STARTING, LifeState.STARTING),
        (State.WORKING, Mood.WORKING, LifeState.WORKING),
        (State.WAITING, Mood.WAITING, LifeState.INPUT),
        (State.ASKS, Mood.ASKING, LifeState.INPUT),
        (State.DEAD, Mood.WORKING, LifeState.DEAD),
        (State.ALIVE, Mood.UNKNOWN, None),
        (State.ENDED, Mood.WAITING, None),
    ],
)
def test_what_an_agent_in_a_terminal_does_in_everybodys_words(state: State, mood: Mood, life: LifeState | None) -> None:
    found = life_in_terminal(state, "why", Felt(mood, 5.0, "at its prompt"), 1.0)
    assert (found.state if found else None) == life
    assert found is None or found.since == 5.0


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
    found = derive_state(task, last, alive=False, supervised=False)
    assert (found.state, found.cause) == (state, cause)


ASKED = ended(Verdict.ASKED, "which?", Ending.QUESTION)
UNCHECKED = replace(ended(Verdict.ASKED, "1 commit, and nothing", Ending.FINISHED), proof=Proof.UNVERIFIED)


@pytest.mark.parametrize(
    ("task", "last", "shown", "note", "following"),
    [
        (TASK, None, ShownState.OPEN, "", ""),
        (replace(TASK, waits_for=("t2",)), None, ShownState.WAITS, "", ""),
        (TASK, AGAIN, ShownState.OPEN, "attempt 1: boom", ""),
        (BLOCKED, None, ShownState.SET_ASIDE, "", ""),
        (replace(BLOCKED, notes="after the release"), None, ShownState.SET_ASIDE, "after the release", ""),
        (BLOCKED, ASKED, ShownState.QUESTION, "which?", "fleet answer t1 TEXT"),
        (BLOCKED, UNCHECKED, ShownState.CHECK, "1 commit, and nothing", "fleet show t1 · retry · accept"),
        (BLOCKED, REFUSED, ShownState.REFUSED, "red", "fleet show t1 · retry · accept"),
        (BLOCKED, GAVE_UP, ShownState.FAILED, "boom", "fleet show t1 · retry"),
        (CLOSED, replace(ACCEPTED, proof=Proof.VERIFIED), ShownState.VERIFIED, "", ""),
        (CLOSED, replace(ACCEPTED, proof=Proof.UNVERIFIED), ShownState.UNCHECKED, "", ""),
        (replace(CLOSED, reason="a person accepted what was refused: red"), REFUSED, ShownState.ACCEPTED, "", ""),
        (CLOSED, REFUSED, ShownState.CLOSED, "", ""),
        (CANCELLED, None, ShownState.CANCELLED, "", ""),
        (CANCELLED, replace(ACCEPTED, proof=Proof.UNVERIFIED), ShownState.CANCELLED_UNCHECKED, "", ""),
    ],
)
def test_how_a_task_is_shown_and_what_its_row_adds(
    task: Task, last: Attempt | None, shown: ShownState, note: str, following: str
) -> None:
    found = derive_state(task, last, alive=False, supervised=True)
    assert (found.shown, found.note, found.next) == (shown, note, following)

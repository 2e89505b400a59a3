"""The table of states, and the line of sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.life import LifeState
from fleet.core.proof import Proof
from fleet.core.state import IN_TERMINAL
from fleet.core.states import LOOKS, RANKS, Group, ShownState, Sums, count, of_proof, sums_line, waits_word
from fleet.core.work import State


def test_every_state_has_a_look_and_every_group_a_rank() -> None:
    assert set(LOOKS) == set(ShownState)
    assert list(RANKS) == [Group.NEEDS_YOU, Group.WORKING, Group.QUEUED, Group.DONE]
    assert {ShownState(life.value) for life in LifeState} <= set(LOOKS)
    assert {of_proof(proof) for proof in (*Proof, None)} <= set(LOOKS)
    assert {state for state in IN_TERMINAL if IN_TERMINAL[state] in LOOKS} >= {State.ASKS, State.DEAD, State.WAITING}


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "no tasks"),
        ([ShownState.DONE, ShownState.VERIFIED, ShownState.UNCHECKED, ShownState.ACCEPTED], "4 done"),
        ([ShownState.QUESTION], "1 asks you"),
        ([ShownState.QUESTION, ShownState.LEAVE, ShownState.TOOL], "1 working · 2 ask you"),
        ([ShownState.WAITS], "1 waits"),
        ([ShownState.OPEN, ShownState.WAITS, ShownState.HELD], "2 wait · 1 held"),
        ([ShownState.REFUSED, ShownState.FAILED, ShownState.CANCELLED], "1 refused · 1 failed · 1 ended by you"),
    ],
)
def test_tasks_are_counted_by_what_a_person_wants_to_know(states: list[ShownState], words: str) -> None:
    assert sums_line(count(states, ())) == words


SUMS = Sums(("pricer", "ring", "slugger"), {"done": 4, "working": 4, "asks you": 1, "wait": 6}, 0.42)


@pytest.mark.parametrize(
    ("sums", "line"),
    [
        (SUMS, "pricer, ring, slugger: 4 done · 4 working · 1 asks you · 6 wait · $0.42"),
        (replace(SUMS, counts={"done": 1}, unknown=2), "pricer, ring, slugger: 1 done · $0.42 + 2 unknown"),
        (Sums(("a", "b", "c", "d", "e"), {"done": 1}, None, 1), "a, b, c and 2 more: 1 done · 1 of unknown cost"),
        (Sums(("a",), {"done": 1}), "a: 1 done"),
    ],
)
def test_the_line_of_sums(sums: Sums, line: str) -> None:
    assert sums_line(sums) == line


def test_the_line_of_sums_names_whom_it_counts_when_asked_to() -> None:
    sums = Sums(("a",), {"done": 3, "refused": 1}, 0.1)
    assert sums_line(sums, {"refused": ["t3"]}) == "a: 3 done · 1 refused (t3) · $0.10"


@pytest.mark.parametrize(
    ("ids", "word"), [(("t3",), "waits for t3"), (("a", "b"), "waits for a, b"), (("a", "b", "c"), "waits for 3 tasks")]
)
def test_whom_a_task_waits_for_stands_in_its_state(ids: tuple[str, ...], word: str) -> None:
    assert waits_word(ids) == word

"""Which results may be landed, and in which order."""

from __future__ import annotations

import pytest

from fleet.landing.choose import (
    Candidate,
    Standing,
    check_foundations,
    check_standing,
    drop_without_foundations,
    order_results,
)


def result(task: str, standing: Standing = Standing.VERIFIED, **more: object) -> Candidate:
    return Candidate(task, f"{task}.1", task, standing, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("standing", "anyway", "words"),
    [
        (Standing.VERIFIED, "", None),
        (Standing.ACCEPTED, "", None),
        (Standing.UNVERIFIED, "", None),  # to name it is to accept it
        (Standing.REFUSED, "", "it was refused: its check failed"),
        (Standing.REFUSED, "a person looked", None),
        (Standing.CANCELLED, "", "it was cancelled: its check failed"),
        (Standing.CANCELLED, "a person looked", None),
        (Standing.AT_WORK, "", "it is being worked on"),
        (Standing.AT_WORK, "a person looked", "it is being worked on"),
        (Standing.NO_RESULT, "a person looked", "its check failed"),
    ],
)
def test_what_a_person_names_lands_unless_it_is_refused_or_under_way(
    standing: Standing, anyway: str, words: str | None
) -> None:
    found = check_standing(result("t1", standing, why="its check failed"), anyway=anyway)
    assert (found.reason if found else None) == words
    assert found is None or found.hint


def test_a_result_that_stands_on_another_ones_old_work_is_made_anew() -> None:
    found = check_standing(result("t2", no_longer="stands on t1.1, which is no longer t1's result"), anyway="")
    assert found is not None
    assert found.reason == "it stands on t1.1, which is no longer t1's result"
    assert found.hint == "fleet retry t2; or land it: --anyway REASON"


@pytest.mark.parametrize(
    ("chosen", "landed", "hint"),
    [
        ({"t1.1", "t2.1"}, set(), None),
        ({"t2.1"}, {"t1.1"}, None),
        ({"t2.1"}, set(), "fleet merge t1 t2"),
        ({"t2.1"}, {"t1.2"}, "fleet merge t1 t2"),  # another attempt's result is landed, not the one that it contains
        ({"t1.2", "t2.1"}, set(), "fleet merge t1 t2"),
    ],
)
def test_what_it_stands_on_is_landed_or_lands_with_it(chosen: set[str], landed: set[str], hint: str | None) -> None:
    found = check_foundations(result("t2", stands_on={"t1": "t1.1"}), chosen, landed)
    assert (found.hint if found else None) == hint


def test_what_stands_on_one_that_goes_nowhere_goes_nowhere() -> None:
    bottom = result("t2", stands_on={"t1": "t1.1"})
    top = result("t3", stands_on={"t2": "t2.1"})
    alone = result("t4")
    left, aside = drop_without_foundations([top, bottom, alone], set())
    assert left == [alone]
    assert [(one.task, one.reason) for one in aside] == [
        ("t2", "it stands on t1, which is not landed"),
        ("t3", "it stands on t2, which is not landed"),
    ]
    assert drop_without_foundations([top, bottom], {"t1.1"}) == ([top, bottom], [])


def test_foundations_first_then_urgency_then_size_then_age() -> None:
    wanted = [
        result("t10", files=2),
        result("t2", files=2),
        result("t3", files=1),
        result("t4", priority=0, files=9),
        result("t5", priority=0, stands_on={"t10": "t10.1"}),
        result("t6", after=("t7",), files=0),
        result("t7", files=8),
    ]
    assert [one.task for one in order_results(wanted)] == ["t4", "t3", "t2", "t10", "t5", "t7", "t6"]


def test_results_that_wait_for_each_other_are_ordered_all_the_same() -> None:
    wanted = [result("t1", after=("t2",)), result("t2", after=("t1",))]
    assert {one.task for one in order_results(wanted)} == {"t1", "t2"}

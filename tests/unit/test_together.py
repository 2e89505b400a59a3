"""Many things at once: their order, how many, and what an interruption ends."""

from __future__ import annotations

from threading import Barrier, Event, Timer

import pytest

from fleet.batches.together import AT_ONCE, once, together
from fleet.host.run import stopping

MANY = range(AT_ONCE + 4)


def test_results_are_in_their_order_and_each_is_told_as_it_comes() -> None:
    told: list[int] = []
    assert together(lambda one: one * one, MANY, told.append) == [one * one for one in MANY]
    assert sorted(told) == [one * one for one in MANY]


def test_as_many_are_done_at_once_as_is_said() -> None:
    all_there = Barrier(len(MANY))
    assert len(together(lambda one: all_there.wait(30), MANY, at_once=len(MANY))) == len(MANY)


def test_who_is_interrupted_begins_with_no_other_one() -> None:
    begun: list[int] = []
    goes_on = Event()

    def act(one: int) -> int:
        begun.append(one)
        assert one == 0 or goes_on.wait(30)
        return one

    def interrupt(one: int) -> None:
        Timer(0.5, goes_on.set).start()  # those that are begun come to their end
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            together(act, MANY, interrupt)
        assert stopping.is_set(), "what takes long is told"
    finally:
        stopping.clear()  # this process goes on
    assert len(begun) <= AT_ONCE + 1


def test_what_many_ask_at_once_is_found_out_once() -> None:
    asked: list[str] = []
    all_there = Barrier(AT_ONCE)

    def find(what: str) -> str:
        asked.append(what)
        return what.upper()

    known = once(find)

    def ask(one: int) -> str:
        all_there.wait(30)
        return known("a" if one else "b")

    assert together(ask, range(AT_ONCE)) == ["B", *["A"] * (AT_ONCE - 1)]
    assert sorted(asked) == ["a", "b"]

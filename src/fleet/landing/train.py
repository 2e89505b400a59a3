"""Which result of many breaks a branch: the last tree is checked first, the ones before it only when that is red."""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum

from fleet.core.frozen import dataclass

REPEATS = 3  # a tree that was red is red so many times more before anybody is put aside


class Found(StrEnum):
    """What the checks say of results on top of each other."""

    GREEN = "green"
    GUILTY = "guilty"  # the result of this number makes a green tree red
    BASE_RED = "base red"  # the branch itself is red, without any of them


@dataclass(frozen=True, slots=True)
class Probe:
    """A question: is the tree of the first `count` results green? Asked again, no earlier answer counts."""

    count: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    found: Found
    number: int = 0  # of the guilty one, counted from 1


Search = Generator[Probe, bool, Answer]


def find_guilty(count: int) -> Search:
    """Find the first result that breaks the tree below it; it is asked for probes until it knows."""
    low = 0
    while True:
        if (yield Probe(count)) or not (yield from _is_red_again(count)):
            return Answer(Found.GREEN)
        if low == 0 and not (yield Probe(0)) and (yield from _is_red_again(0)):
            return Answer(Found.BASE_RED)
        high = count
        while high - low > 1:
            middle = (low + high) // 2
            if (yield Probe(middle)):
                low = middle
            else:
                high = middle
        if (yield from _is_red_again(high)):
            return Answer(Found.GUILTY, high)
        low = high  # that was a flake: it is green, so the guilty one comes later
        if low >= count:
            return Answer(Found.GREEN)


def _is_red_again(count: int) -> Generator[Probe, bool, bool]:
    """Whether a tree that was red once is red each further time: what differs is a flake, and nobody's fault."""
    for _ in range(REPEATS):
        if (yield Probe(count, again=True)):
            return False
    return True

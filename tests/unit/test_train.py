"""Which of many results breaks a branch: found with few checks, and never blamed on a flake."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fleet.landing.train import Answer, Found, Probe, find_guilty

COUNT = 20
MAX_EXTRA_PROBES = 13  # two times the logarithm of 20, and four


def search(is_green: Callable[[int], bool], count: int = COUNT) -> tuple[Answer, int]:
    """The answer, and how many trees were checked; an answer that is known is not asked for twice."""
    known: dict[int, bool] = {}
    asked, probe, looking = 0, Probe(0), find_guilty(count)
    probe = next(looking)
    while True:
        if probe.again or probe.count not in known:
            known[probe.count] = is_green(probe.count)
            asked += 1
        try:
            probe = looking.send(known[probe.count])
        except StopIteration as end:
            answer: Answer = end.value
            return answer, asked


def test_all_green_is_one_check() -> None:
    assert search(lambda count: True) == (Answer(Found.GREEN), 1)


@pytest.mark.parametrize("guilty", range(1, COUNT + 1))
def test_one_bad_result_is_found_with_few_checks(guilty: int) -> None:
    answer, asked = search(lambda count: count < guilty)
    assert answer == Answer(Found.GUILTY, guilty)
    assert asked - 1 <= MAX_EXTRA_PROBES


def test_a_branch_that_is_red_without_them_blames_nobody() -> None:
    assert search(lambda count: False)[0] == Answer(Found.BASE_RED)


def test_a_red_base_that_the_results_mend_lands() -> None:
    assert search(lambda count: count >= 3)[0] == Answer(Found.GREEN)


def test_a_flaky_check_evicts_nobody_who_is_innocent() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        bad = chance.sample(range(1, COUNT + 1), chance.choice([0, 1, 3]))

        def is_green(count: int, chance: random.Random = chance, bad: list[int] = bad) -> bool:
            return not any(one <= count for one in bad) and chance.random() >= 0.1

        answer, _ = search(is_green)
        assert answer.found is (Found.GUILTY if bad else Found.GREEN), seed
        assert not bad or answer.number in bad, seed

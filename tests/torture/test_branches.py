"""Begin and end agents on branches, and be killed at every step of it: nothing leaks, and no byte is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Ran
from standins.crashes import KILLED, PROMPT, WHEN, Crash, at_a_moment, begun, ended, judge, restored, settle
from standins.witness.scene import LARGE, SEED, scale
from standins.yard import Yard
from standins.yard import yard as opened

pytestmark = pytest.mark.tmux
NEVER, LONG = 10_000, 60.0


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with opened(tmp_path / "yard") as made:
        yield made


@pytest.mark.parametrize(
    ("what", "program"),
    [
        (begun, "git"),
        *(
            pytest.param(what, program, marks=pytest.mark.long)
            for what, program in ((begun, "tmux"), (ended, "git"), (ended, "tmux"), (restored, "git"))
        ),
    ],
)
def test_killed_at_a_call(yard: Yard, what: Callable[[Yard, str, Crash], Ran], program: str) -> None:
    """In large at every call and in every way; in small at some."""
    assert what(yard, "whole", Crash(program, NEVER, "before")).code == 0
    calls = len((yard.root / f"crash-{program}-{NEVER}-before" / "count").read_text().splitlines())
    every = [Crash(program, at, when) for at in range(1, calls + 1) for when in WHEN]
    for crash in every if LARGE else random.Random(SEED).sample(every, 1):
        done = what(yard, f"{crash.when}-{crash.at}", crash)
        assert done.code in (0, KILLED), (crash, done)


@pytest.mark.parametrize("what", ["create", "kill"])
@pytest.mark.long
def test_killed_at_any_moment(yard: Yard, what: str) -> None:
    chance, whole = random.Random(SEED), 0.0
    for n in range(scale(2, 60)):
        branch, after = f"b{n}", chance.uniform(0.2, 1.0) * whole or LONG
        if what == "kill":
            yard.create(branch, PROMPT)
        words = ("kill", "--force", branch) if what == "kill" else ("create", branch, "-p", PROMPT)
        took = at_a_moment(yard, words, after)
        whole = whole or took  # how long it takes here when nobody is killed
        done = settle(yard, branch)
        judge(yard, branch, wrote=done or what == "kill")

"""What the engine promises: an attempt that was begun goes through its steps, each once, whatever dies on the way.

Each engine is a process of its own, since that is what dies.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standins.coders.scratch import HERE, WITHIN, until

STEPS = ["prepare", "run", "verify", "settle", "over"]


class Carrier:
    """Processes that carry attempts in one database, one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._witness = root / "witness"
        self._witness.touch()

    def start(self, *attempts: str, **misdeeds: object) -> subprocess.Popen[str]:
        argv: list[str | Path] = [
            sys.executable,
            HERE / "carries.py",
            self._root / "fleet.db",
            self._witness,
            json.dumps(misdeeds),
            *attempts,
        ]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=self._root)

    def carry(self, *attempts: str, **misdeeds: object) -> list[str]:
        """Carry all attempts to their end; which ones an earlier process had left."""
        with self.start(*attempts, **misdeeds) as process:
            try:
                out, _ = process.communicate(timeout=WITHIN)
            finally:
                process.kill()
        assert process.returncode == 0
        found: list[str] = json.loads(out)
        return found

    def die_at(self, step: str, *attempts: str) -> None:
        """Carry attempts until every one is in the middle of a step, and be killed there."""
        with self.start(*attempts, **{step: "hangs"}) as process:
            try:
                until(lambda: all(self.steps(one)[-1:] == [step] for one in attempts))
            finally:
                process.send_signal(signal.SIGKILL)
            assert process.wait(WITHIN) == -signal.SIGKILL

    def steps(self, attempt: str) -> list[str]:
        words = [line.split() for line in self._witness.read_text().splitlines()]
        return [one[0] for one in words if one[1:2] == [attempt]]

    def said(self) -> str:
        return self._witness.read_text()


@pytest.fixture
def carrier(tmp_path: Path) -> Carrier:
    return Carrier(tmp_path)


def test_every_attempt_goes_through_its_steps_in_order_and_is_begun_once(carrier: Carrier) -> None:
    assert carrier.carry("t1.1", "t2.1", "t1.1") == []
    assert (carrier.steps("t1.1"), carrier.steps("t2.1")) == (STEPS, STEPS)
    assert carrier.carry("t1.1", "t3.1") == []
    assert carrier.steps("t1.1").count("run") == 1, "one that is over is not begun again"
    assert carrier.steps("t3.1") == STEPS


@pytest.mark.parametrize("step", ["prepare", "run", "verify", "settle"])
def test_after_kill_9_the_step_that_was_cut_off_is_done_again_and_no_other(carrier: Carrier, step: str) -> None:
    carrier.die_at(step, "t1.1", "t2.1")
    left = [] if step == "run" else ["t1.1", "t2.1"]  # who runs is in the ledger, and held by a keeper
    assert carrier.carry("t1.1", "t2.1") == left
    at = STEPS.index(step)
    for attempt in ("t1.1", "t2.1"):
        assert carrier.steps(attempt) == [*STEPS[: at + 1], *STEPS[at:]]
    assert carrier.carry() == [], "and then it is over"


def test_an_engine_rests_when_nothing_is_under_way_and_goes_on_when_something_is(carrier: Carrier) -> None:
    carrier.carry("t1.1", then="t2.1")
    assert carrier.said().splitlines() == [
        *(f"{step} t1.1" for step in STEPS),
        "rests",
        *(f"{step} t2.1" for step in STEPS),
    ]


def test_an_agent_that_runs_keeps_no_thread_of_the_engine_awake(carrier: Carrier) -> None:
    with carrier.start("t1.1", run="hangs") as process:
        try:
            until(lambda: carrier.said().splitlines() == ["prepare t1.1", "run t1.1", "rests"])
        finally:
            process.kill()
    assert carrier.carry("t1.1") == []
    assert carrier.steps("t1.1") == ["prepare", "run", *STEPS[1:]]


def test_dying_again_and_again_loses_nothing(carrier: Carrier) -> None:
    carrier.die_at("run", "t1.1")
    with carrier.start("t1.1", run="hangs") as process:
        until(lambda: carrier.steps("t1.1").count("run") == 2)
        process.kill()
    carrier.die_at("verify", "t2.1")
    assert carrier.carry("t1.1", "t2.1") == ["t2.1"]
    assert (carrier.steps("t1.1")[-1], carrier.steps("t2.1")[-1]) == ("over", "over")
    assert (carrier.steps("t1.1").count("prepare"), carrier.steps("t1.1").count("settle")) == (1, 1)


def test_a_bug_in_a_step_ends_the_attempt_in_order_and_settling_is_tried_until_it_works(carrier: Carrier) -> None:
    carrier.carry("t1.1", run=["bug", 1], settle=["bug", 1])
    assert carrier.steps("t1.1") == ["prepare", "run", "broke", "settle", "settle", "over"]
    assert "broke t1.1 RuntimeError: a bug" in carrier.said()


def test_a_step_whose_queue_does_not_answer_is_tried_again(carrier: Carrier) -> None:
    carrier.carry("t1.1", verify=["unavailable", 1])
    assert carrier.steps("t1.1") == ["prepare", "run", "verify", "verify", "settle", "over"]


def test_what_an_older_fleet_began_is_carried_on(carrier: Carrier, tmp_path: Path) -> None:
    """DBOS recovers only its own version unless told; ours is that of the steps, not of the source."""
    carrier.die_at("verify", "t1.1")
    moved = tmp_path / "elsewhere.py"
    moved.write_text((HERE / "carries.py").read_text() + "\n# another source altogether\n")
    argv: list[str | Path] = [sys.executable, moved, tmp_path / "fleet.db", tmp_path / "witness", "{}"]
    assert json.loads(subprocess.run(argv, capture_output=True, timeout=WITHIN, check=True).stdout) == ["t1.1"]
    assert carrier.steps("t1.1")[-1] == "over"

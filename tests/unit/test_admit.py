"""Who may start now, as a table; and which coder and model a task gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.config.runtime import parse
from fleet.core.task import Spec, Status, Task
from fleet.core.work import Attempt, Ending, Verdict
from fleet.supervisor.admit import Candidate, Rules, Slots, admit, short_of_disk, wait
from fleet.supervisor.choice import Choice, choose
from fleet.supervisor.supervisor import is_stranded

NOW = 1000.0


def candidate(name: str, coder: str = "c", model: str | None = None, last: Attempt | None = None) -> Candidate:
    return Candidate(Task(name, name, "", Status.OPEN, 2, 0.0), coder, model, last)


def running(task: str, coder: str = "c", model: str | None = None) -> Attempt:
    return Attempt(f"{task}.1", task, 1, coder, model, "/", "me", 0.0)


def failed(ended: float, after: float) -> Attempt:
    return replace(
        running("x"), ending=Ending.CRASHED, verdict=Verdict.RETRY, ended=ended, retry_after=after, started=0.0
    )


QUEUE = [candidate("a"), candidate("b", "d", "big"), candidate("e", "d", "big"), candidate("f", "c", "big")]


@pytest.mark.parametrize(
    ("queue", "busy", "room", "chosen"),
    [
        (QUEUE, [], Slots(10), "abef"),
        (QUEUE, [], Slots(2), "ab"),
        (QUEUE, [running("x"), running("y")], Slots(2), ""),
        (QUEUE, [running("x"), running("y"), running("z")], Slots(2), ""),
        (QUEUE, [running("a")], Slots(10), "bef"),
        (QUEUE, [], Slots(10, {"d": 1}), "abf"),
        (QUEUE, [running("x", "d")], Slots(10, {"d": 1}), "af"),
        (QUEUE, [], Slots(10, {}, {"big": 1}), "ab"),
        (QUEUE, [running("x", "c", "big")], Slots(10, {}, {"big": 2}), "ab"),
        (QUEUE, [], Slots(10, {"c": 1}, {"big": 2}), "abe"),
        (QUEUE, [], Slots(10, {"unknown": 1}, {"none": 1}), "abef"),
        (QUEUE, [], Slots(2, {"c": 1, "d": 1}), "ab"),
        ([candidate("a", last=failed(NOW - 1, 10)), candidate("b")], [], Slots(1), "b"),
        ([], [], Slots(1), ""),
    ],
)
def test_who_may_start(queue: list[Candidate], busy: list[Attempt], room: Slots, chosen: str) -> None:
    assert "".join(one.task.id for one in admit(queue, busy, Rules(room), NOW).chosen) == chosen


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        (None, 0),
        (failed(NOW - 1, 10), 9),
        (failed(NOW, 10), 10),
        (failed(NOW - 10, 10), 0),
        (failed(NOW - 1000, 10), 0),
        (failed(NOW + 3600, 10), 0),  # the clock was set back
        (replace(failed(NOW, 10), forgiven=True), 0),
        (replace(failed(NOW, 10), verdict=Verdict.FAILED), 0),
        (replace(failed(NOW, 10), ended=None), 0),
    ],
)
def test_how_long_a_task_waits_for_its_next_attempt(last: Attempt | None, seconds: float) -> None:
    assert wait(last, NOW) == seconds


def test_nothing_starts_on_a_disk_that_is_nearly_full() -> None:
    assert short_of_disk(10**9, 10**10, 10**9) is None
    assert short_of_disk(9 * 10**8, 10**9, 10**9) == "0.9 GB of disk free, and min_free_disk is 1.0 GB"
    assert "4% of the disk free" in (short_of_disk(4 * 10**9, 10**11, 10**9) or "")
    assert short_of_disk(5 * 10**9, 10**11, 10**9) is None
    assert short_of_disk(0, 0, 0) is None, "a file system that does not say"


@pytest.mark.parametrize(
    ("spec", "run", "choice"),
    [
        (None, None, Choice("mine", "m", False, False)),
        (Spec("/"), None, Choice("mine", "m", False, False)),
        (Spec("/"), "other", Choice("other", None, False, False)),
        (Spec("/"), "mine", Choice("mine", "m", False, False)),
        (Spec("/", coder="other"), None, Choice("other", None, True, False)),
        (Spec("/", coder="other"), "third", Choice("other", None, True, False)),
        (Spec("/", coder="mine"), "third", Choice("mine", "m", True, False)),
        (Spec("/", model="own"), "third", Choice("third", "own", False, True)),
        (Spec("/", coder="other", model="own"), None, Choice("other", "own", True, True)),
    ],
)
def test_task_then_run_then_machine_and_a_model_belongs_to_its_coder(
    spec: Spec | None, run: str | None, choice: Choice
) -> None:
    assert choose(spec, run, parse('coder = "mine"\nmodel = "m"\ncoders.mine.argv = ["x"]', Path("r"))) == choice


def test_an_empty_model_is_the_agents_own() -> None:
    assert choose(None, None, parse('model = ""', Path("r"))).model is None


@pytest.mark.parametrize(
    ("status", "assignee", "stranded"),
    [
        (Status.IN_PROGRESS, "fleet-abc-1111", True),
        (Status.IN_PROGRESS, "fleet-abc-2222", True),
        (Status.IN_PROGRESS, "fleet-xyz-1111", False),
        (Status.IN_PROGRESS, "a person", False),
        (Status.IN_PROGRESS, "", False),
        (Status.OPEN, "fleet-abc-1111", False),
        (Status.CLOSED, "fleet-abc-1111", False),
    ],
)
def test_a_claim_that_came_to_nothing_is_known_by_its_home(status: Status, assignee: str, stranded: bool) -> None:
    task = Task("t1", "t", "", status, 2, 0.0, assignee=assignee)
    assert is_stranded(task, set(), "fleet-abc-2222") is stranded
    assert is_stranded(task, {"t1"}, "fleet-abc-2222") is False, "it is being worked on"

"""A person's word about a task, beside a supervisor that may be about to begin it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.app.tasks import Desk, accept
from fleet.core import FleetError
from fleet.core.proof import Proof
from fleet.core.task import NewTask, Status
from fleet.core.work import Attempt, Ending, Verdict


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A home with one task, t1, whose last attempt was not verified and is to be tried again."""
    monkeypatch.setenv("FLEET_HOME", str(tmp_path / "home"))
    found = Desk.open()
    task = found.tracker.add(NewTask("work"), lambda name: None)
    attempt = Attempt("", task.id, 0, "c", None, "/", "me", 1.0, ending=Ending.FINISHED, proof=Proof.REFUSED)
    begun = found.ledger.begin(attempt)
    found.ledger.save(replace(begun, verdict=Verdict.RETRY, cause="the check failed"))
    return found


@pytest.mark.parametrize("blocked", [False, True])
def test_a_task_that_nobody_works_on_is_closed_with_the_mark(desk: Desk, blocked: bool) -> None:
    if blocked:
        desk.tracker.block("t1", "refused")
    done = accept(desk, "t1")
    assert (done.status, done.reason) == (Status.CLOSED, "a person accepted what was refused: the check failed")


def test_a_task_that_a_supervisor_has_claimed_meanwhile_is_not_closed_under_its_agent(desk: Desk) -> None:
    assert desk.tracker.claim("t1", "supervisor")
    with pytest.raises(FleetError, match="is being worked on again"):
        accept(desk, "t1")
    assert desk.tracker.get("t1").status is Status.IN_PROGRESS
    assert desk.tracker.get("t1").assignee == "supervisor"

"""A home as it looks in the middle of an evening: a task in every state, in three repositories, and nobody at work.

No agent and no supervisor runs: this process holds the locks by which fleet tells that one does.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleet import tracker
from fleet.core.life import Life, LifeState
from fleet.core.proof import Proof
from fleet.core.task import NewTask, Spec
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence.ledger import Ledger
from fleet.host import locks
from fleet.tracker.local import Local
from standins.coders.scratch import Scratch

HOURS = 3600.0
RED = "check \"pytest -q\" failed: tests/test_text.py::test_euros: '12.3 EUR' == '12.30 EUR'"


class Evening:
    """Writes down what a tracker and a supervisor would have, with times in hours so that a screen stays the same."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch, self.home, self.now = scratch, scratch.home, time.time()
        self.tracker, self.ledger = Local(scratch.home), Ledger(scratch.home)
        self.locks: list[int] = []

    def add(self, title: str, project: str, after: tuple[str, ...] = ()) -> str:
        place = self.scratch.root / project
        (place / ".git").mkdir(parents=True, exist_ok=True)

        def record(task: str) -> None:
            tracker.spec.write(self.home, task, Spec(str(place)))

        return self.tracker.add(NewTask(title, after=after), record).id

    def attempt(self, task: str, *, hours: float, **facts: object) -> Attempt:
        """An attempt that began so many hours ago and runs, unless the facts say how it ended."""
        self.tracker.claim(task, "evening")
        cwd = tracker.spec.read(self.home, task).cwd
        began = self.ledger.begin(
            Attempt("", task, 0, "claude", "sonnet", cwd, "evening", self.now - hours * HOURS, local=())
        )
        usual = {"started": began.created, "dispatched": began.created, "events": 24, "tokens": 84_000, "cost": 0.12}
        attempt = replace(began, **(usual | facts))  # type: ignore[arg-type]
        self.ledger.save(attempt)
        return attempt

    def ended(self, task: str, verdict: Verdict, cause: str, *, hours: float, **facts: object) -> None:
        """An attempt that took an hour and a half, and ended so many hours ago."""
        usual = {"ending": Ending.FINISHED} | facts
        over = self.now - hours * HOURS
        self.attempt(task, hours=hours + 1.5, ended=over, verdict=verdict, cause=cause, **usual)
        match verdict:
            case Verdict.ACCEPTED:
                self.tracker.close(task, cause)
            case Verdict.RETRY:
                self.tracker.release(task, cause)
            case _:
                self.tracker.block(task, f"{verdict}: {cause}")

    def lives(self, attempt: Attempt) -> None:
        """Hold the lock of its keeper."""
        self._hold(self.home / "tasks" / attempt.task / "attempts" / str(attempt.number) / "lock")

    def supervise(self, hours: float) -> None:
        """Hold the lock of the supervisor, which began so many hours ago."""
        self._hold(self.home / "supervisor.lock")
        record = {"pid": os.getpid(), "started": self.now - hours * HOURS, "actor": "evening"}
        (self.home / "supervisor.json").write_text(json.dumps(record))

    def _hold(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = locks.take(path)
        assert taken is not None
        self.locks.append(taken)


@contextmanager
def evening(scratch: Scratch) -> Iterator[Evening]:
    """Fifteen tasks: three need a person, three work, six wait, three are done."""
    scratch.settle("coder=claude", "model=sonnet", "max_concurrent=9")
    made = Evening(scratch)
    long_ago = made.now - 2.1 * HOURS
    try:
        done = Verdict.ACCEPTED
        made.ended(made.add("Read prices with a comma", "pricer"), done, "1 commit", hours=1.2, proof=Proof.VERIFIED)
        made.ended(made.add("Sort the catalogue", "slugger"), done, "2 commits", hours=1.1, proof=Proof.VERIFIED)
        made.ended(made.add("Write the README", "ring"), done, "1 commit", hours=1.0, proof=Proof.UNVERIFIED)
        for title, project, facts in (
            ("Parse ISO dates", "pricer", {}),
            ("Slugs for Cyrillic titles", "slugger", {"life": Life(LifeState.MODEL, made.now - 20, "it is slow")}),
            ("A ring buffer that grows by doubling its size, and never moves what is in it", "ring",
             {"life": Life(LifeState.TOOL, long_ago, "Bash: make check")}),
            ("Which currency is the default, and where is it said?", "pricer",
             {"asking": "EUR or USD, when the column is empty?"}),
        ):  # fmt: skip
            made.lives(made.attempt(made.add(title, project), hours=2.2, **facts))
        red = made.add("Round to cents everywhere", "pricer")
        made.ended(red, Verdict.RETRY, RED, hours=3.1, proof=Proof.REFUSED)
        made.ended(red, Verdict.REFUSED, RED, hours=1.4, proof=Proof.REFUSED, cost=None, tokens=None)
        made.ended(made.add("Drop Python 3.8", "slugger"), Verdict.FAILED, "the agent exited with 1", hours=1.3,
                   ending=Ending.CRASHED)  # fmt: skip
        made.add("Publish 2.0", "pricer", after=(red,))
        made.add("Announce 2.0", "pricer", after=(red, "t4", "t5"))
        for title in ("Faster slugs", "Slugs in the browser"):
            made.add(title, "slugger")
        later = made.add("Bench against deque", "ring")
        made.tracker.block(later, "after the release")
        made.add("Port to Windows", "ring")
        made.supervise(3.0)
        yield made
    finally:
        for lock in made.locks:
            locks.release(lock)

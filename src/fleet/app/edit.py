"""A task that is in the queue already, changed: its words, how it is to be worked on, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fleet import tracker
from fleet.app.add import must_be_a_branch, must_be_known
from fleet.app.home import wake
from fleet.app.tasks import Desk, retry
from fleet.core import BadConfig, FleetError
from fleet.core.frozen import dataclass
from fleet.core.task import NewWords, Spec, Status, Task, task_id
from fleet.core.work import Attempt, Verdict
from fleet.host import files
from fleet.host.checked_out import branch_of

FREE = ("priority", "after", "not")  # what no agent is given


@dataclass(frozen=True, slots=True)
class Change:
    """What a person wants different. `spec` holds the facts of a Spec by name; None takes a fact back."""

    words: NewWords
    spec: Mapping[str, Any]
    after: Sequence[str] = ()
    no_longer_after: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What is changed, in the words of the command line."""
        words = (name for name, value in asdict(self.words).items() if value is not None)
        waits = {"after": self.after, "not": self.no_longer_after}
        return (*words, *self.spec, *(name for name, ids in waits.items() if ids))


@dataclass(frozen=True, slots=True)
class Edited:
    """A task that was changed, and the attempt that goes on with what it was given before."""

    task: Task
    running: Attempt | None = None


def edit(desk: Desk, name: str, change: Change, *, force: bool = False) -> Edited:
    """Change a task. What an attempt that runs was given is refused, unless it is to hold for the next one only."""
    task = desk.tracker.get(task_id(name))
    running = _running(desk, task.id)
    taken = [one for one in change.names if one not in FREE]
    if running is not None and taken and not force:
        raise FleetError(
            f"{running.id} runs, and was given the {' and the '.join(taken)} as it was",
            hint=f"for the next attempt only: fleet edit {task.id} --force …; or end this one: fleet abort {task.id}",
        )
    spec = _changed_spec(desk, task.id, change.spec) if change.spec else None
    desk.tracker.check(change.words)
    depend(desk, task.id, change.after, change.no_longer_after)
    if spec is not None:
        _write(desk, task.id, spec)
    if change.words != NewWords():
        desk.tracker.reword(task.id, change.words)
    if spec is not None and _is_held(desk, task):
        retry(desk, task.id)
    wake(desk.home)
    return Edited(desk.tracker.get(task.id), _running(desk, task.id) if taken else None)


def depend(desk: Desk, name: str, on: Sequence[str], not_on: Sequence[str] = ()) -> Task:
    """Let a task wait for others, or wait for them no more; one that is being worked on goes on."""
    task = desk.tracker.get(task_id(name))
    for needs in not_on:
        if needs not in task.after:
            raise FleetError(f"{task.id} does not wait for {task_id(needs)}", hint=f"fleet show {task.id}")
    for needs in on:
        desk.tracker.depend(task.id, task_id(needs))
    for needs in not_on:
        desk.tracker.undepend(task.id, needs)
    wake(desk.home)
    return desk.tracker.get(task.id)


def _running(desk: Desk, task: str) -> Attempt | None:
    last = desk.ledger.last_of([task]).get(task)
    return last if last is not None and last.verdict is None else None


def _is_held(desk: Desk, task: Task) -> bool:
    """Whether a task waits only until how it is to be worked on is changed."""
    last = desk.ledger.last_of([task.id]).get(task.id)
    return task.status is Status.BLOCKED and last is not None and last.verdict is Verdict.HELD and not last.forgiven


def _changed_spec(desk: Desk, task: str, facts: Mapping[str, Any]) -> Spec:
    """The spec as it is to be, checked as `fleet add` does. One that cannot be read is mended by a directory."""
    try:
        spec = replace(tracker.spec.read(desk.home, task), **facts)
    except BadConfig as problem:
        if "cwd" not in facts:
            raise BadConfig(problem.message, hint=f"fleet edit {task} --cwd DIRECTORY") from problem
        spec = Spec(**facts)
    if "cwd" in facts and not Path(spec.cwd).is_dir():
        raise BadConfig(f"the directory {spec.cwd} does not exist", hint=f"fleet edit {task} --cwd DIRECTORY")
    if "coder" in facts or "account" in facts:
        must_be_known(desk.runtime, spec)
    if "onto" in facts and spec.onto is not None:
        must_be_a_branch(spec)
    return replace(spec, checked_out=branch_of(Path(spec.cwd))) if "cwd" in facts else spec


def _write(desk: Desk, task: str, spec: Spec) -> None:
    """Write the spec; and tell the ledger that a person did, since what an agent changes there is undone. An attempt
    may begin just now: so it is asked for again.
    """
    _note(desk, task, spec)
    try:
        tracker.spec.write(desk.home, task, spec)
    except BadConfig:  # what stands there cannot be read
        files.put_aside(tracker.spec.path(desk.home, task))
        tracker.spec.write(desk.home, task, spec)
    _note(desk, task, spec)


def _note(desk: Desk, task: str, spec: Spec) -> None:
    running = _running(desk, task)
    if running is not None:
        desk.ledger.note_edit(running.id, spec)

"""The promise of a tracker: it keeps what people want done, and says who may work on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fleet.core import BadConfig
from fleet.core.task import Comment, NewTask, NewWords, Status, Task, is_cancelled


class Tracker(Protocol):
    """Every call is one atomic change, blocks for at most a bounded time, and may be repeated after a failure.

    A call that cannot be made now raises Unavailable, one that never can be made another FleetError; a task that does
    not exist raises NotFound. Repeating an `add` or a `comment` may make a second one.
    """

    name: str

    def check(self, new: NewTask | NewWords) -> None:
        """Refuse, as `add` would, words that could not be kept; nothing is written, and nobody is asked."""

    def add(self, new: NewTask, record: Callable[[str], None]) -> Task:
        """Write a task down. `record` is called with its id before anybody can claim it."""

    def get(self, task: str) -> Task: ...

    def all(self) -> list[Task]:
        """Every task, closed ones too, in the order they were made."""

    def unfinished(self) -> list[Task]:
        """Every task that is not closed."""

    def ready(self, limit: int | None = None, ageing: float | None = None) -> list[Task]:
        """Open tasks that wait for nothing: the most urgent first, then the oldest. With `ageing`, a task counts as one
        priority more urgent for each time so many seconds have passed since it was written down.
        """

    def claim(self, task: str, actor: str) -> bool:
        """Take an open task; of several who try, exactly one gets True. Whoever holds it gets True again."""

    def release(self, task: str, note: str) -> None:
        """Put a claimed task back among the open ones. One that is not in progress any more is left as it is."""

    def block(self, task: str, note: str) -> None:
        """Set a task aside until a person opens it again. One that is closed stays closed."""

    def open(self, task: str) -> None:
        """Open a task again, whatever it was."""

    def close(self, task: str, reason: str) -> None:
        """Be done with a task, once and for all; a reason that starts with CANCELLED keeps those waiting for it."""

    def depend(self, task: str, on: str) -> None:
        """The task waits for another; a circle is refused."""

    def undepend(self, task: str, on: str) -> None:
        """The task waits for another no more; whether it did is not asked."""

    def reword(self, task: str, words: NewWords) -> None:
        """Change the words of a task that are given; words that could not be kept are refused, as `check` does."""

    def comment(self, task: str, text: str, author: str) -> None: ...

    def comments(self, task: str) -> list[Comment]: ...


def urgency(task: Task, ageing: float | None, now: float) -> float:
    """Lower is sooner. A clock that was set back makes nothing less urgent than it was."""
    return task.priority - (max(0.0, now - task.created) / ageing if ageing else 0.0)


def is_done(task: Task) -> bool:
    """Whether those who wait for the task may start: it is closed, and was not cancelled."""
    return task.status is Status.CLOSED and not is_cancelled(task)


def circle(task: str, on: str) -> BadConfig:
    """Why a task cannot wait for another."""
    why = "itself" if task == on else f"{on}, which already waits for {task}"
    return BadConfig(f"{task} cannot wait for {why}")

"""A task, as people write it down and as its tracker keeps it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from fleet.core.errors import BadConfig
from fleet.core.frozen import dataclass
from fleet.core.text import clean, has_controls

if TYPE_CHECKING:
    from fleet.core.proof import Scope

TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\.[0-9]{1,6}){0,8}\Z")


class Status(StrEnum):
    """What a tracker knows of a task."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    CLOSED = "closed"


class TaskKind(StrEnum):
    """What a task is to leave behind."""

    WORK = "work"  # a change
    RESEARCH = "research"  # an answer: notes, and perhaps no change at all


class PlaceKind(StrEnum):
    """Where an attempt works: the task's own directory, a git worktree, or a private clone."""

    INPLACE = "inplace"
    WORKTREE = "worktree"
    CLONE = "clone"


@dataclass(frozen=True, slots=True)
class NewTask:
    """What a person asks for: the words, and nothing a tracker decides."""

    title: str
    description: str = ""
    priority: int = 2
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewWords:
    """What a person changes of a task's words; what is None stays as it is."""

    title: str | None = None
    description: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its tracker has it. Priority 0 is the most urgent, 4 the least."""

    id: str
    title: str
    description: str
    status: Status
    priority: int
    created: float
    after: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    assignee: str = ""
    notes: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    author: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Spec:
    """How a task is to be worked on, beside its words: tasks/<id>/task.json. What is None is inherited.

    A silence, tokens or cost of 0 is no limit.
    """

    cwd: str
    coder: str | None = None
    model: str | None = None
    check: str | None = None
    timeout: float | None = None
    attempts: int | None = None
    output: int | None = None
    account: str | None = None
    silence: float | None = None
    tokens: int | None = None
    cost: float | None = None
    place: str | None = None
    interactive: bool | None = None  # a person began it in a terminal: no supervisor hands it out
    kind: TaskKind | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    files: int | None = None
    deletions: int | None = None
    protected: tuple[str, ...] | None = None
    needs: tuple[str, ...] | None = None  # paths, ignored by git, that its checks are lent
    onto: str | None = None  # the branch that its result is meant for
    checked_out: str | None = None  # the branch of its directory when it was added, for a task that names none

    @property
    def scope(self) -> Scope:
        """What its result may touch, as far as the task itself says."""
        from fleet.core.proof import Scope  # what nobody pays for who only puts a task in the queue

        return Scope(self.allow or (), self.deny or (), self.files, self.deletions, self.protected or ())


CANCELLED = "cancelled"
MAX_NEED_CHARS = 500


def problem_of_need(path: str) -> str | None:
    """What is wrong with a path that a check is to be lent; None for a plain path inside the project."""
    steps = path.split("/")
    if not path.strip() or has_controls(path) or len(path) > MAX_NEED_CHARS:
        return "must be the path of a file or directory in the project, such as .venv"
    if path.startswith(("/", "~")) or not {"", ".", ".."}.isdisjoint(steps):
        return "must be a plain path inside the project, such as .venv"
    return "must not be in .git, which belongs to git" if ".git" in map(str.lower, steps) else None


def is_cancelled(task: Task) -> bool:
    """Whether a task was closed because nobody wants it any more: by the first word of the reason."""
    return task.status is Status.CLOSED and task.reason.partition(":")[0].strip() == CANCELLED


ACCEPTED_BY_PERSON = "a person accepted"  # how the reason begins of a task that somebody closed after a look at it


def task_id(text: str) -> str:
    """A task's id, which also names a directory and an attempt; anything else is refused."""
    if not TASK_ID.match(text):
        raise BadConfig(f"{clean(text)!r} is not the id of a task", hint="fleet tasks --all")
    return text

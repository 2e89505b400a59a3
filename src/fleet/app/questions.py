"""Questions of agents, as people see and answer them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from getpass import getuser
from pathlib import Path

from fleet import keeper
from fleet.app.home import wake
from fleet.app.tasks import Desk
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.task import Status, Task, task_id
from fleet.core.text import clean
from fleet.core.work import Attempt, Verdict
from fleet.questions import file, thread
from fleet.questions.thread import Question
from fleet.supervisor.choice import attempt_directory

LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class Open:
    """A question that nobody has answered. Scripts rely on these names."""

    id: str
    title: str
    number: int
    question: str
    options: tuple[str, ...]
    coder: str
    attempt: int
    waiting: bool  # its agent lives, and waits or is about to end
    since: float | None


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that was written down, and what comes of it."""

    id: str
    number: int
    question: str
    answer: str
    answered: str
    state: str
    next: str


def open_questions(desk: Desk) -> list[Open]:
    """Of every task that is not finished, what its last attempt asked and nobody answered; the oldest first."""
    tasks = desk.tracker.unfinished()
    lasts = desk.ledger.last_of([task.id for task in tasks])
    found = [one for task in tasks if (last := lasts.get(task.id)) for one in _open_of(desk, task, last)]
    return sorted(found, key=lambda one: one.since or 0.0)


def _open_of(desk: Desk, task: Task, last: Attempt) -> list[Open]:
    artifacts = _artifacts(desk, task.id)
    try:
        asked = _asked(file.read(artifacts), last)
    except FleetError as problem:
        asked = _unreadable(last, problem)
    waiting = last.verdict is None and keeper.is_alive(attempt_directory(desk.home, last))
    since = last.ended or file.changed(artifacts)
    return [
        Open(task.id, task.title, one.number, one.text, one.options, last.coder, last.number, waiting, since)
        for one in asked
        if one.is_open
    ]


def _unreadable(last: Attempt, problem: FleetError) -> list[Question]:
    """What an attempt asked in a file that is none, as far as the ledger knows; `fleet answer` says what to do."""
    if last.verdict is not Verdict.ASKED:
        return []
    told = last.cause if problem.message in last.cause else f"{last.cause} ({problem.message})"
    return thread.parse(thread.ask("", told))


def question(desk: Desk, name: str, number: int | None) -> Question:
    """The question that is meant: the one of this number, or the oldest of the last attempt that is open."""
    task = desk.tracker.get(task_id(name))
    meant = _meant(desk, task, number)
    if not meant.is_open:
        raise _too_late(task.id, meant)
    return meant


def _meant(desk: Desk, task: Task, number: int | None) -> Question:
    found = file.read(_artifacts(desk, task.id))
    if not found:
        raise NotFound(f"{task.id} has asked nothing", hint="fleet questions")
    if number is not None:
        if number > len(found):
            asked = f"it has asked {len(found)}" if len(found) > 1 else "it has asked one"
            raise NotFound(f"{task.id} has no question {number}: {asked}", hint=f"fleet task {task.id} questions")
        return found[number - 1]
    last = desk.ledger.last_of([task.id]).get(task.id)
    new = [one for one in (_asked(found, last) if last else found) if one.is_open]
    return [*new, *(one for one in found if one.is_open), found[-1]][0]


def answer(desk: Desk, name: str, asked: Question, words: str) -> Given:
    """Write an answer below its question, unless somebody has; and open the task that waits for it."""
    if not words.strip():
        raise BadConfig("the answer is empty", hint=f'fleet answer {name} "…"')
    if len(words) > LONGEST:
        raise BadConfig(f"the answer is longer than {LONGEST} characters", hint="put it in a file, and name that")
    try:
        given = file.answer(_artifacts(desk, name), asked, words, f"{datetime.now():%Y-%m-%d %H:%M}", getuser())
    except file.Answered as late:
        raise _too_late(name, late.question) from None
    state, then = _go_on(desk, name)
    return Given(name, given.number, given.text, given.answer or "", given.answered or "", state, then)


def _go_on(desk: Desk, name: str) -> tuple[str, str]:
    """Let the task go on, if it waits for nothing else; its state, and what comes next in a sentence.

    The answer stands in the file before the ledger is asked. So either the attempt is settled by now, and its task is
    opened here, or whoever settles it will find the answer.
    """
    last = desk.ledger.last_of([name]).get(name)
    task = desk.tracker.get(name)
    if last is not None and last.verdict is None:
        return "working", _while_it_runs(desk, last)
    if task.status is Status.CLOSED:
        return "closed", "the task is closed, so nobody reads the answer"
    if last is None or task.status is not Status.BLOCKED:
        return task.status.value, f"the next attempt reads it{_awake(desk)}"
    if last.verdict is not Verdict.ASKED or last.forgiven:
        return "blocked", f"the task is blocked for another reason; open it: fleet retry {name}"
    left = [one.number for one in _asked(file.read(_artifacts(desk, name)), last) if one.is_open]
    if left:
        return "blocked", f"question {left[0]} is still open: fleet answer {name} --question {left[0]}"
    desk.tracker.open(name)
    return "open", f"the task is open again, and goes on with the answer{_awake(desk)}"


def _while_it_runs(desk: Desk, last: Attempt) -> str:
    awake = _awake(desk)
    if not keeper.is_alive(attempt_directory(desk.home, last)):
        return f"its agent has ended; the next attempt goes on with the answer{awake}"
    return "its agent waits, and has it now" if last.asking else "its agent runs, and has it now or when it ends"


def _awake(desk: Desk) -> str:
    return "" if wake(desk.home) else "; no supervisor runs, start one: fleet run"


def _too_late(name: str, question: Question) -> FleetError:
    by = f" by {clean(question.by)}" if question.by else ""
    when = f" on {clean(question.answered)}" if question.answered else ""
    said = clean(" ".join((question.answer or "").split()), 300)
    return FleetError(
        f"question {question.number} of {name} was answered{by}{when}, and the first answer counts: {said}",
        hint=f"fleet task {name} questions",
    )


def _asked(found: list[Question], last: Attempt) -> list[Question]:
    return thread.news(found, last.asked_before, changed=last.verdict is Verdict.ASKED)


def _artifacts(desk: Desk, task: str) -> Path:
    return desk.home / "tasks" / task / "artifacts"

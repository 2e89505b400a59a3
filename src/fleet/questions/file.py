"""A task's Q&A.md on disk, which agents write, and people, and fleet: who does it whole, and under a lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.core import FleetError, NotFound, Unavailable
from fleet.core.text import clean
from fleet.host import files, locks
from fleet.questions import thread
from fleet.questions.thread import Question

NAME = "Q&A.md"
LOCK = "questions.lock"  # beside the artifact directory, since everything in that counts as an agent's work
LARGEST = 1024 * 1024
TRIES = 100
PATIENCE = 10.0  # seconds; everybody holds the lock for a moment only

Mark = tuple[int, int, int]


class Answered(FleetError):
    """Somebody else was quicker."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"question {question.number} is answered already")
        self.question = question


def read(artifacts: Path) -> list[Question]:
    """The questions of a task; none when nothing was asked."""
    return thread.parse(_text(artifacts))


def waiting(artifacts: Path, before: int) -> str | None:
    """What an agent that lives waits for: the oldest open question of its attempt. Not every agent CLI tells of a call
    before it has ended, so this is how all of them can be seen to wait.
    """
    try:
        found = [one for one in read(artifacts)[before:] if one.is_open]
    except FleetError:
        return None
    return clean(thread.summary(found[0]), 300) if found else None


def changed(artifacts: Path) -> float | None:
    """When the file was last written; None when there is none."""
    seen = mark(artifacts)
    return seen[2] / 1e9 if seen else None


def mark(artifacts: Path) -> Mark | None:
    """What changes whenever the file does; None when there is none."""
    try:
        facts = os.lstat(artifacts / NAME)
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def ask(artifacts: Path, prompt: str, options: Sequence[str] = (), after: int = 0) -> Question:
    """Write a question down; one of the same words that is open, and not among the first, is not written again."""
    prompt, options = _whole(prompt), [_whole(option) for option in options]
    wanted = thread.parse(thread.ask("", prompt, options))[0]

    def change(text: str) -> str:
        is_there = any(one.is_open and one.text == wanted.text for one in thread.parse(text)[after:])
        return text if is_there else thread.ask(text, prompt, options)

    asked = thread.parse(_change(artifacts, change))
    return [one for one in asked if one.is_open and one.text == wanted.text][-1]


def answer(artifacts: Path, question: Question, words: str, when: str, by: str | None = None) -> Question:
    """Answer a question, unless somebody else has: of several who try at once one wins, and the others know."""

    number = question.number

    def change(text: str) -> str:
        nonlocal number
        found = _found(text, question)
        if not found.is_open:
            raise Answered(found)
        number = found.number
        return thread.answer(text, found, _whole(words), when, by)

    return thread.parse(_change(artifacts, change))[number - 1]  # its words may have got the end of a code block


def mark_read(artifacts: Path, question: Question) -> None:
    """Note that the agent was given the answer."""
    _change(artifacts, lambda text: thread.mark_read(text, _found(text, question)))


def _found(text: str, question: Question) -> Question:
    found = thread.find(thread.parse(text), question)
    if found is None:
        raise NotFound(f"question {question.number} is not in the file any more", hint="fleet questions")
    return found


def _change(artifacts: Path, change: Callable[[str], str]) -> str:
    """Replace the text by another, as one step. Whoever writes without the lock, an editor, is not overwritten."""
    with _locked(artifacts.parent / LOCK):
        for _ in range(TRIES):
            before = mark(artifacts)
            text = _text(artifacts)
            new = change(text)
            if new == text:
                return text
            if len(content := new.encode(errors="surrogateescape")) > LARGEST:
                raise FleetError(f"{artifacts / NAME} would be larger than {LARGEST // 1024} KiB")
            if mark(artifacts) == before:
                files.write(artifacts / NAME, content, drafts=_drafts(artifacts))
                return new
    raise Unavailable(f"{artifacts / NAME} is being written all the time", hint="try again")


def _drafts(artifacts: Path) -> Path:
    """Where a draft can be moved from in one step; inside a fence only the artifacts themselves are of the disk."""
    beside = artifacts.parent
    if not artifacts.exists():  # made when the draft is moved
        return beside
    return beside if os.stat(beside).st_dev == os.stat(artifacts).st_dev else artifacts


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = locks.take(path, PATIENCE)
    if lock is None:
        raise Unavailable(f"{path} is held by another process", hint="try again")
    try:
        yield
    finally:
        locks.release(lock)


def _text(artifacts: Path) -> str:
    """What stands in the file. A link, a pipe or a heap of data that an agent put in its place is not read."""
    path = artifacts / NAME
    if artifacts.is_symlink():
        raise FleetError(f"{artifacts} leads somewhere else, and is not read", hint=f"ls -la {artifacts.parent}")
    if not os.path.lexists(path):
        return ""
    found = files.read_from(path, 0, LARGEST + 1)
    if found is None or len(found) > LARGEST:
        what = "not a plain file" if found is None else f"larger than {LARGEST // 1024} KiB"
        raise FleetError(f"{path} is {what}, and is not read", hint=f"ls -la {artifacts}")
    return found.decode(errors="surrogateescape")


def _whole(words: str) -> str:
    """New words, fit to be written down: half a character becomes a question mark."""
    return words.encode("utf-8", "replace").decode()

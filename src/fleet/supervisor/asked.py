"""What an agent asked a person, and what it was answered: the supervisor's look at a task's Q&A.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fleet.core import FleetError, Unavailable
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.core.work import Attempt
from fleet.evidence.receipt import QUESTIONS, Receipt
from fleet.questions import file, server, thread
from fleet.questions.thread import Question
from fleet.supervisor.house import House

LONGEST_TOLD = 20_000  # characters
NOT_ITS_OWN = ("broke", "cancelled", "lost", "abandoned")  # ends that cut an agent off, of which nobody is told more


@dataclass(frozen=True, slots=True)
class Asked:
    """What an attempt asked and was not given the answer of; `answered` when all of that is answered by now."""

    question: str | None = None
    answered: bool = False


def how_many(house: House, task: str) -> int:
    return len(_questions(house, task))


def command(house: House, attempt: Attempt) -> tuple[str, ...]:
    """The MCP server through which the agent of this attempt asks; nothing when nobody is to be waited for."""
    if not house.runtime.ask_wait:
        return ()
    facts = (str(house.artifacts(attempt.task)), f"{house.runtime.ask_wait:g}", str(attempt.asked_before))
    return (sys.executable, "-I", "-S", str(server.PROGRAM), *facts)


def waits(house: House, attempt: Attempt) -> bool:
    """Whether the agent waits for a person, rather than for nothing."""
    return attempt.asking is not None or file.waiting(house.artifacts(attempt.task), attempt.asked_before) is not None


def look(house: House, attempt: Attempt, receipt: Receipt | None) -> Asked:
    """What is left to be answered when an agent has ended.

    An answer that it was given while it waited is done with, and so is one that it may have written itself. One that a
    person gave is for the next attempt: who asked in the file and ended does not know of it, however early it came.
    """
    if receipt is None or attempt.started is None or receipt.process.cause in NOT_ITS_OWN:
        return Asked()
    later = (file.changed(house.artifacts(attempt.task)) or 0.0) > (attempt.ended or house.now())
    found = _asked(house, attempt, receipt)
    left = [one for one in found if one.is_open or (not one.read and (later or one.by is not None))]
    unanswered = [one for one in left if one.is_open]
    first = (unanswered or left)[:1]
    return Asked(clean(thread.summary(first[0]), 300), not unanswered) if first else Asked()


def is_answered(house: House, attempt: Attempt) -> bool:
    """Whether a person has answered all that the attempt asked."""
    there = _questions(house, attempt.task)
    found = there[attempt.asked_before :] or [one for one in there if clean(thread.summary(one), 300) == attempt.cause]
    return bool(found) and not any(one.is_open for one in found)


def answers(house: House, earlier: Sequence[Attempt]) -> str | None:
    """What was answered to the last attempt, as the next one is told: fit for any prompt, and not too long for one.

    One in which no model answered has not read what it was told, so it is told again.
    """
    if not earlier:
        return None
    asked = earlier[-1]
    for before in reversed(earlier[:-1]):
        if asked.turned:
            break
        asked = before
    found = _questions(house, asked.task)[asked.asked_before :]
    told = [f"Question {one.number}: {one.text}\n\nAnswer: {one.answer}" for one in found if not one.is_open]
    text = "\n\n".join(told).encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return (text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]} … the rest is in Q&A.md") or None


def _asked(house: House, attempt: Attempt, receipt: Receipt) -> list[Question]:
    """The questions of the attempt. One that it printed, and did not write down, is written down now."""
    changed = QUESTIONS in (receipt.result.artifacts or ())
    try:
        there = file.read(house.artifacts(attempt.task))
    except Unavailable:
        raise
    except FleetError as problem:  # what was asked there nobody can know: a person has to look
        house.log.say("question not kept", task=attempt.task, level="warning", text=problem.message)
        return thread.parse(thread.ask("", attempt.question or problem.message)) if changed or attempt.question else []
    found = thread.news(there, attempt.asked_before, changed)
    words = attempt.question
    if words is None or any(one.is_open or words.strip() in one.text for one in found):
        return found
    try:
        return [*found, file.ask(house.artifacts(attempt.task), words, after=attempt.asked_before)]
    except Unavailable:
        raise
    except FleetError as problem:
        house.log.say("question not kept", task=attempt.task, level="warning", text=problem.message)
        return [*found, thread.parse(thread.ask("", words))[0]]


def _questions(house: House, task: str) -> list[Question]:
    """What an agent planted in the place of its questions asks nothing."""
    try:
        return file.read(house.artifacts(task))
    except FleetError:
        return []

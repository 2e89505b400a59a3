"""What an attempt teaches about its provider's account, and about the memory that such agents use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from fleet.core import Unavailable
from fleet.core.work import OF_EVERY_TASK, Attempt, Ending, Event
from fleet.evidence.receipt import Process
from fleet.gates import Book, Needs, accounts
from fleet.supervisor.barred import cure_of, ended_early
from fleet.supervisor.house import House


def hear(house: House, before: Attempt, after: Attempt, events: Sequence[Event]) -> None:
    """While it works: windows that the agent told of, and that a model answered. Nothing stops for want of a note."""
    book, now = Book(house.home), house.now()
    with suppress(Unavailable):
        windows = {event.window.name: event.window for event in events if event.window is not None}
        if windows:
            known = book.change(after.coder, after.account, partial(accounts.hear, windows=windows.values(), now=now))
            if after.limited and not before.limited:
                _say(house, after, known, now)
        if after.turned and not before.turned:
            book.change(after.coder, after.account, accounts.work)
            if after.resumed:
                house.log.say("turn began", task=after.task, attempt=after.id, session=after.session)


def conclude(house: House, attempt: Attempt, process: Process | None) -> None:
    """When it ended: whether the provider turned it away, and how much memory it took. It may be told twice."""
    with suppress(Unavailable):
        if attempt.memory:
            Needs(house.home).note(attempt.coder, attempt.memory)
        if attempt.ending is Ending.TURNED_AWAY and attempt.status is not None:
            now = attempt.ended or house.now()
            refusal = accounts.Refusal(attempt.id, now, attempt.status)
            known = Book(house.home).change(attempt.coder, attempt.account, partial(accounts.refuse, refusal=refusal))
            _say(house, attempt, known, now)
        elif attempt.ending in OF_EVERY_TASK:
            cause, cure = cure_of(house, attempt)
            now = attempt.ended or house.now()
            change = partial(accounts.bar, attempt=attempt.id, cause=cause, cure=cure, now=now)
            _say(house, attempt, Book(house.home).change(attempt.coder, attempt.account, change), now)
        elif attempt.ending is Ending.FINISHED:
            Book(house.home).change(attempt.coder, attempt.account, accounts.work)
        elif process is not None:
            change = partial(accounts.note_end, task=attempt.task, early=ended_early(house, attempt, process))
            Book(house.home).change(attempt.coder, attempt.account, change)


def _say(house: House, attempt: Attempt, known: accounts.Standing, now: float) -> None:
    closed = known.closed(now)
    if closed is not None:
        facts = {"coder": known.coder, "account": known.account or None, "until": closed.until, "cause": closed.cause}
        house.log.say("account closed", task=attempt.task, level="warning", **facts)

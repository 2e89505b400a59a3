"""The rules of this moment: from the settings, from what people paused, from what providers said, from the machine."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from fleet import keeper
from fleet.config.runtime import Runtime
from fleet.core.work import Attempt
from fleet.evidence.ledger import Ledger
from fleet.gates import Book, Closed, Needs, Pause, Pauses, Scope, Standing
from fleet.gates.memory import Budget, Memory
from fleet.gates.quiet import quiet
from fleet.gates.spending import Spending, spent_up
from fleet.host import machine
from fleet.supervisor.admit import Rules, Slots, short_of_disk
from fleet.supervisor.choice import attempt_directory
from fleet.supervisor.till import caps, till


def rules(home: Path, runtime: Runtime, now: float) -> Rules:
    """Whoever looks at the same moment gets the same rules: nothing of this is only in a supervisor's memory."""
    at_once = runtime.concurrent
    total, available, pressure = machine.memory()
    pauses = tuple(Pauses(home).all())
    allowed = caps(runtime)
    spending = till(home).today(now) if allowed else Spending()
    projects = {os.path.realpath(name): most for name, most in at_once.projects.items()}
    return Rules(
        slots=Slots(runtime.max_concurrent, at_once.coders, at_once.models, projects, at_once.accounts),
        closed=_disk(home, runtime)
        or quiet(runtime.quiet_hours, datetime.fromtimestamp(now))
        or _all_of(pauses)
        or spent_up(allowed, spending, now),
        spent={name: why for name in allowed.coders if (why := spent_up(allowed, spending, now, name))},
        pauses=pauses,
        accounts=_accounts(runtime, Book(home).all()),
        budget=Budget(Memory(total, available, pressure), runtime.memory, Needs(home).all(), runtime.agent_memory),
        beside=_in_terminals(home),
    )


def _in_terminals(home: Path) -> tuple[Attempt, ...]:
    """The agents that people began themselves, and that live."""
    begun = Ledger(home).talked_to()
    return tuple(attempt for attempt in begun if keeper.is_alive(attempt_directory(home, attempt)))


def _all_of(pauses: tuple[Pause, ...]) -> Closed | None:
    return next((one.closes("", None) for one in pauses if one.scope is Scope.ALL), None)


def _disk(home: Path, runtime: Runtime) -> Closed | None:
    short = short_of_disk(*machine.disk(home), runtime.min_free_disk)
    return Closed(short) if short else None


def _accounts(runtime: Runtime, book: list[Standing]) -> dict[str, tuple[Standing, ...]]:
    """The accounts of each coder as they are declared; a coder without any has its own login."""
    known = {(standing.coder, standing.account): standing for standing in book}
    found: dict[str, tuple[Standing, ...]] = {}
    for name, account in runtime.accounts.items():
        standing = known.get((account.coder, name)) or Standing(account.coder, name)
        found[account.coder] = (*found.get(account.coder, ()), standing)
    own = {standing.coder: (standing,) for standing in book if not standing.account}
    return own | found

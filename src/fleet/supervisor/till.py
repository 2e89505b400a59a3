"""The bills of the day: what every attempt of a home has cost since midnight. Loaded where there is a budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from threading import Lock

from fleet.config.local import Projects
from fleet.config.runtime import Runtime
from fleet.core.work import Attempt
from fleet.evidence.cost import Basis, reckon
from fleet.evidence.ledger import Ledger
from fleet.evidence.prices import price
from fleet.evidence.requests import Records, Served
from fleet.gates.spending import Caps, Spending, midnight

FRESH = 1.0  # seconds for which an agent at work takes for known what the others spent


@dataclass(frozen=True, slots=True)
class Bill:
    """What one attempt has cost so far; None is unknown."""

    coder: str
    cost: Decimal | None
    estimated: bool = False


class Till:
    """The bills of the day in one home. What it does not know yet is in the ledger and in the gateways' records."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self._records, self._clock = Ledger(home), Records(home), clock
        self._lock = Lock()
        self._bills: dict[str, Bill] = {}
        self._served: dict[str, list[Served]] = {}
        self._projects = Projects()
        self._counted = float("-inf")

    def today(self, now: float, current: Attempt | None = None) -> Spending:
        """What was spent since midnight. With an attempt, what is known of it now, and of the others a moment ago."""
        with self._lock:
            if current is None or self._clock() - self._counted >= FRESH:
                self._served, self._projects = self._records.served(), Projects()
                found = self._ledger.since(midnight(now))
                self._bills = {one.id: self._bill(one) for one in found if one.started is not None}
                self._counted = self._clock()
            if current is not None:
                self._bills[current.id] = self._bill(current)
            return _added(list(self._bills.values()))

    def is_free(self, attempt: Attempt) -> bool:
        """Whether it is known to cost nothing: its models run on machines of one's own."""
        return self._bill(attempt).cost == 0

    def _bill(self, attempt: Attempt) -> Bill:
        found = reckon(attempt, self._served.get(attempt.id, ()), price, self._is_local)
        return Bill(attempt.coder, found.cost, found.counted is not None and Basis.ESTIMATED in found.counted.basis)

    def _is_local(self, attempt: Attempt, model: str) -> bool:
        return self._projects.is_local(attempt, model)


@lru_cache(maxsize=16)
def till(home: Path) -> Till:
    return Till(home)


def _added(bills: list[Bill]) -> Spending:
    coders: dict[str, Decimal] = {}
    for bill in bills:
        coders[bill.coder] = coders.get(bill.coder, Decimal(0)) + (bill.cost or 0)
    unknown = Counter(bill.coder for bill in bills if bill.cost is None)
    return Spending(coders, unknown, frozenset(bill.coder for bill in bills if bill.estimated))


def caps(runtime: Runtime) -> Caps:
    coders = {name: Decimal(repr(cap)) for name, cap in runtime.budget.coders.items()}
    return Caps(None if runtime.budget.day is None else Decimal(repr(runtime.budget.day)), coders)

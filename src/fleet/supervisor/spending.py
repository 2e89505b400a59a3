"""What is spent, while it is spent: estimates for agents that tell no money, and the budget of the day."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from threading import Lock

from fleet.coders.base import Can
from fleet.config.local import Projects
from fleet.config.runtime import Runtime
from fleet.core.work import Attempt, Ending, Limits, Usage
from fleet.evidence.cost import Basis, by_agent, reckon
from fleet.evidence.ledger import Ledger
from fleet.evidence.prices import price
from fleet.evidence.requests import Records, Served
from fleet.gates.spending import Caps, Spending, left, midnight, spent_up
from fleet.supervisor.house import House
from fleet.supervisor.limits import Reached, unkept

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


def day_left(house: House, attempt: Attempt) -> float | None:
    """The US dollars that its coder may still spend today; None without a cap."""
    allowed = caps(house.runtime)
    rest = left(allowed, till(house.home).today(house.now()), attempt.coder) if allowed else None
    return None if rest is None else float(rest)


def passed(house: House, attempt: Attempt) -> Reached | None:
    """Whether an agent is to be ended because the day's money is spent; one that costs nothing is left."""
    allowed = caps(house.runtime)
    if not allowed or not house.runtime.budget.ends:
        return None
    now = house.now()
    spending = till(house.home).today(now, attempt)
    closed = spent_up(allowed, spending, now) or spent_up(allowed, spending, now, attempt.coder)
    if closed is None or till(house.home).is_free(attempt):
        return None
    return Reached(Ending.BUDGET, closed.cause)


def estimated(house: House, attempt: Attempt) -> Attempt:
    """The attempt with what it cost by the price list, if its agent tells tokens and no money, and that is limited."""
    limited = attempt.limits is not None and attempt.limits.cost is not None
    if attempt.cost is not None or not attempt.usage or not limited:
        return attempt
    told = by_agent(attempt, price, Projects().is_local)
    cost = told.cost if told is not None else None
    return replace(attempt, estimate=None if cost is None else float(cost))


def not_kept(limits: Limits, coder: str, can: Can, model: str) -> dict[str, str]:
    """The limits that cannot be kept with this coder and this model, and why."""
    counts = limits.cost is not None and can.usage and not can.cost
    return unkept(limits, coder, can, priced=counts and price(model, Usage(1, 1), time.time()) is not None)

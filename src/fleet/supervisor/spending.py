"""What is spent, while it is spent: estimates for agents that tell no money, and the budget of the day.

How prices and budgets are reckoned is loaded where there is something to reckon: most people limit neither.
"""

from __future__ import annotations

import time
from dataclasses import replace

from fleet.coders.base import Can
from fleet.config.runtime import Runtime
from fleet.core.work import Attempt, Ending, Limits, Usage
from fleet.supervisor.house import House
from fleet.supervisor.limits import Reached, unkept


def _has_caps(runtime: Runtime) -> bool:
    return runtime.budget.day is not None or bool(runtime.budget.coders)


def day_left(house: House, attempt: Attempt) -> float | None:
    """The US dollars that its coder may still spend today; None without a cap."""
    if not _has_caps(house.runtime):
        return None
    from fleet.gates.spending import left
    from fleet.supervisor.till import caps, till

    rest = left(caps(house.runtime), till(house.home).today(house.now()), attempt.coder)
    return None if rest is None else float(rest)


def passed(house: House, attempt: Attempt) -> Reached | None:
    """Whether an agent is to be ended because the day's money is spent; one that costs nothing is left."""
    if not _has_caps(house.runtime) or not house.runtime.budget.ends:
        return None
    from fleet.gates.spending import spent_up
    from fleet.supervisor.till import caps, till

    now, allowed = house.now(), caps(house.runtime)
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
    from fleet.config.local import Projects
    from fleet.evidence.cost import by_agent
    from fleet.evidence.prices import price

    told = by_agent(attempt, price, Projects().is_local)
    cost = told.cost if told is not None else None
    return replace(attempt, estimate=None if cost is None else float(cost))


def not_kept(limits: Limits, coder: str, can: Can, model: str) -> dict[str, str]:
    """The limits that cannot be kept with this coder and this model, and why."""
    counts = limits.cost is not None and can.usage and not can.cost
    return unkept(limits, coder, can, priced=counts and _has_price(model))


def _has_price(model: str) -> bool:
    from fleet.evidence.prices import price

    return price(model, Usage(1, 1), time.time()) is not None

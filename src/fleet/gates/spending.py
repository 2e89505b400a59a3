"""What may be spent in a day, by all agents and by each coder's: once it is, nothing more is started that day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from fleet.gates.base import Closed


@dataclass(frozen=True, slots=True)
class Caps:
    """US dollars a day; None, or no entry, is no cap."""

    day: Decimal | None = None
    coders: Mapping[str, Decimal] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.day is not None or bool(self.coders)


@dataclass(frozen=True, slots=True)
class Spending:
    """What attempts that ended today, or run, have cost, by coder. Of `unknown` many of a coder nobody can say it: they
    count nothing here, which is not the same as 0. `estimated` are coders of whom some of it is.
    """

    coders: Mapping[str, Decimal] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    estimated: frozenset[str] = frozenset()

    @property
    def total(self) -> Decimal:
        return sum(self.coders.values(), Decimal(0))

    def of(self, coder: str) -> Decimal:
        return self.coders.get(coder, Decimal(0))


def spent_up(caps: Caps, spending: Spending, now: float, coder: str | None = None) -> Closed | None:
    """Whether the day's money is spent: everybody's, or that of one coder."""
    cap = caps.day if coder is None else caps.coders.get(coder)
    used = spending.total if coder is None else spending.of(coder)
    if cap is None or used < cap:
        return None
    whose = "the day's budget" if coder is None else f"the day's budget of {coder}"
    unknown = sum(spending.unknown.values()) if coder is None else spending.unknown.get(coder, 0)
    estimated = bool(spending.estimated) if coder is None else coder in spending.estimated
    how = (", estimated" if estimated else "") + (f", of {unknown} attempts unknown" if unknown else "")
    setting = "budget.day" if coder is None else f"budget.coders.{coder}"
    return Closed(f"{whose} is spent: ${used:.2f} of ${cap:.2f}{how} ({setting})", tomorrow(now))


def left(caps: Caps, spending: Spending, coder: str) -> Decimal | None:
    """What this coder may still spend today; None without a cap."""
    rests = [cap - used for cap, used in ((caps.day, spending.total), (caps.coders.get(coder), spending.of(coder)))
             if cap is not None]  # fmt: skip
    return max(Decimal(0), min(rests)) if rests else None


def midnight(now: float) -> float:
    """When today began, by the clock on the wall."""
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def tomorrow(now: float) -> float:
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today + timedelta(days=1)).timestamp()

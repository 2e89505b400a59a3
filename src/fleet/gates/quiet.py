"""Quiet hours: times of the day at which nothing new is started. What runs goes on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, time, timedelta

from fleet.gates.base import Closed


def quiet(hours: Iterable[str], now: datetime) -> Closed | None:
    """Whether it is a quiet hour, by the clock on the wall. A span such as 22:00-07:00 goes over midnight, and
    several may follow one another.
    """
    until = now
    for written in sorted(hours) * 2:
        until = max(until, _end(written, until) or until)
    return Closed(f"quiet hours until {until:%H:%M}", until.timestamp()) if until > now else None


def _end(written: str, at: datetime) -> datetime | None:
    """When the span ends that a moment lies in; None when it lies in none."""
    first, last = (time.fromisoformat(one) for one in written.split("-"))
    today = at.replace(hour=last.hour, minute=last.minute, second=0, microsecond=0)
    if first < last:
        return today if first <= at.time() < last else None
    if at.time() >= first:
        return today + timedelta(days=1)
    return today if at.time() < last else None

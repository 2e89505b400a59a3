"""Who may start now: a pure function of what is ready, what runs, and the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.core.task import Task
from fleet.core.work import Attempt, Verdict

LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ready task, and what it would run with."""

    task: Task
    coder: str
    model: str | None
    last: Attempt | None = None
    own_coder: bool = False
    own_model: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """How many may run at once: in all, of a coder, of a model."""

    total: int
    coders: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)


def admit(candidates: Iterable[Candidate], running: Sequence[Attempt], room: Room, now: float) -> list[Candidate]:
    """The candidates that may start, in their order. A coder that is full holds up nobody else."""
    busy = {attempt.task for attempt in running}
    coders = Counter(attempt.coder for attempt in running)
    models = Counter(attempt.model for attempt in running)
    chosen: list[Candidate] = []
    for candidate in candidates:
        if len(running) + len(chosen) >= room.total:
            break
        if candidate.task.id in busy or wait(candidate.last, now) > 0:
            continue
        if _full(candidate.coder, coders, room.coders) or _full(candidate.model, models, room.models):
            continue
        coders[candidate.coder] += 1
        models[candidate.model] += 1
        chosen.append(candidate)
    return chosen


def wait(last: Attempt | None, now: float) -> float:
    """Seconds until a task may be tried again. A clock that was set back ends the wait rather than stretching it."""
    if last is None or last.verdict is not Verdict.RETRY or last.ended is None or last.forgiven:
        return 0.0
    passed = now - last.ended
    return last.retry_after - passed if 0 <= passed < last.retry_after else 0.0


def short_of_disk(free: int, total: int, least: int) -> str | None:
    """Why nothing may start for want of disk, or None."""
    if free < least:
        return f"{free / 1e9:.1f} GB of disk free, and min_free_disk is {least / 1e9:.1f} GB"
    if total and free / total < LEAST_SHARE:
        return f"{free / total:.0%} of the disk free, and it must be 5 %"
    return None


def _full(name: str | None, running: Counter[str | None] | Counter[str], limits: Mapping[str, int]) -> bool:
    return name is not None and name in limits and running[name] >= limits[name]

"""What agents cost, for people: attempts from the ledger and requests from the gateways, added up by what is asked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from fleet.app.home import ensure_home, last_run_began
from fleet.app.spent import is_known, reckon_all
from fleet.config.local import Projects, where
from fleet.core import BadConfig
from fleet.core.fleet import Fleet
from fleet.core.text import clean
from fleet.core.work import Attempt
from fleet.evidence.cost import Account, Basis, Part, Reckoned, total
from fleet.evidence.ledger import Ledger

SPAN = re.compile(r"([0-9]{1,5})([dhw])\Z")
HOURS = {"h": 1, "d": 24, "w": 7 * 24}
BESIDE = "not through the gateway"
UNNAMED = "unknown"


class By(StrEnum):
    """What is added up together."""

    ATTEMPT = "attempt"
    TASK = "task"
    CODER = "coder"
    MODEL = "model"
    DAY = "day"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Line:
    """One row. Scripts rely on these names. What is None is not known; money is in US dollars.

    `unknown` attempts cost something that nobody told and that is in no price list: it is not in `cost`.
    """

    name: str
    attempts: int
    requests: int | None
    tokens: int | None
    prompt: int | None
    completion: int | None
    cache_read: int | None
    cache_write: int | None
    cost: Decimal | None
    basis: tuple[str, ...]
    unknown: int
    agent_cost: Decimal | None
    gateway_cost: Decimal | None
    counted: tuple[str, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    by: By
    since: float | None
    rows: tuple[Line, ...]
    total: Line


@dataclass(frozen=True, slots=True)
class _Share:
    """What of one attempt belongs to one row."""

    of: Reckoned
    parts: tuple[Part, ...]
    first: bool = True  # what is known of the attempt only as a whole is said with its first share


def report(by: By, since: str | None) -> Report:
    """Everything that ended since then, or runs; without a time, everything there ever was."""
    home, now = ensure_home(), time.time()
    moment = None if since is None else beginning(since, now, home)
    projects = Projects()
    attempts = sorted(Ledger(home).since(moment or 0.0), key=lambda attempt: attempt.created)
    found = [reckoned for reckoned in reckon_all(home, attempts, projects.is_local) if _counts(reckoned)]
    rows: dict[str, list[_Share]] = {}
    for one in found:
        for name, share in _shares(one, by, now, projects):
            rows.setdefault(name, []).append(share)
    lines = [_line(name, shares) for name, shares in rows.items()]
    if by not in (By.ATTEMPT, By.TASK, By.DAY):
        lines.sort(key=lambda line: (-(line.cost or 0), line.name))
    elif by is By.DAY:
        lines.sort(key=lambda line: line.name)
    return Report(by, moment, tuple(lines), _line("total", [_Share(one, _parts(one)) for one in found]))


def beginning(written: str, now: float, home: Path) -> float:
    """The moment that `7d`, `12h`, `today`, `run` or a date means, by the clock on the wall."""
    if written == "run":
        return last_run_began(home) or now
    if found := SPAN.match(written):
        return now - int(found[1]) * HOURS[found[2]] * 3600
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if written in ("today", "yesterday"):
        return (today - timedelta(days=int(written == "yesterday"))).timestamp()
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        raise BadConfig(
            f"{clean(written, 80)!r} is no time: 7d, 12h, 2w, today, yesterday, run, or a date such as 2026-11-01",
            hint="fleet cost --since 7d",
        ) from None


def day_of(attempt: Attempt, now: float) -> str:
    """The day on which an attempt counts: when it ended; one that runs counts today."""
    return f"{datetime.fromtimestamp(attempt.ended or now):%Y-%m-%d}"


def _counts(one: Reckoned) -> bool:
    return one.attempt.started is not None or one.counted is not None


def _parts(one: Reckoned) -> tuple[Part, ...]:
    return one.counted.parts if one.counted else ()


def _shares(one: Reckoned, by: By, now: float, projects: Projects) -> Iterable[tuple[str, _Share]]:
    attempt = one.attempt
    whole: dict[By, Callable[[], str]] = {
        By.ATTEMPT: lambda: attempt.id,
        By.TASK: lambda: attempt.task,
        By.CODER: lambda: attempt.coder,
        By.DAY: lambda: day_of(attempt, now),
    }
    if by in whole:
        return [(whole[by](), _Share(one, _parts(one)))]
    named: dict[str, list[Part]] = {}
    for part in _parts(one):
        name = (part.model or UNNAMED) if by is By.MODEL else _agent(projects.of(where(attempt)), part.alias)
        named.setdefault(name, []).append(part)
    if not named:
        named[(attempt.thinks_with or attempt.model or UNNAMED) if by is By.MODEL else BESIDE] = []
    return [(name, _Share(one, tuple(parts), n == 0)) for n, (name, parts) in enumerate(named.items())]


def _agent(fleet: Fleet | None, alias: str | None) -> str:
    """The agents of fleet.yaml that think with what was asked for; else what was asked for."""
    if alias is None:
        return BESIDE
    agents = [] if fleet is None else [a.name for a in fleet.agents.values() if fleet.models[a.model].alias == alias]
    return ", ".join(agents) or alias


def _line(name: str, shares: list[_Share]) -> Line:
    parts = [part for share in shares for part in share.parts]
    used = [part.usage for part in parts if part.usage is not None]
    first = [share.of for share in shares if share.first]
    bases = {part.basis for part in parts} or {Basis.UNKNOWN}
    return Line(
        name=name,
        attempts=len({share.of.attempt.id for share in shares}),
        requests=total(None if one.gateway is None else one.gateway.requests for one in first),
        tokens=total(part.tokens for part in parts),
        prompt=total(usage.prompt for usage in used),
        completion=total(usage.completion for usage in used),
        cache_read=total(usage.cache_read for usage in used),
        cache_write=total(usage.cache_write for usage in used),
        cost=total(part.cost for part in parts),
        basis=tuple(basis.value for basis in Basis if basis in bases),
        unknown=len({share.of.attempt.id for share in shares if not _is_known(share)}),
        agent_cost=total(_cost(one.agent) for one in first),
        gateway_cost=total(_cost(one.gateway) for one in first),
        counted=tuple(sorted({one.of.counted.source.value for one in shares if one.of.counted is not None})),
        differences=tuple(f"{one.attempt.id}: {one.difference}" for one in first if one.difference),
    )


def _is_known(share: _Share) -> bool:
    account = share.of.counted
    if account is None:
        return is_known(share.of)
    return not account.untold and all(part.cost is not None for part in share.parts)


def _cost(account: Account | None) -> Decimal | None:
    return None if account is None else account.cost

"""What attempts used together, by the same rules as `fleet cost`: tokens, money, and of how many nobody knows it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.core.work import Attempt, Hindrance, Usage, names_model
from fleet.evidence.cost import IsLocal, Reckoned, reckon, total


@dataclass(frozen=True, slots=True)
class Spent:
    """What is None is not known; `unknown` attempts cost something that is not in `cost`."""

    tokens: int | None = None
    cost: float | None = None  # US dollars
    unknown: int = 0


def reckon_all(home: Path, attempts: Sequence[Attempt], is_local: IsLocal) -> list[Reckoned]:
    """Each attempt with what its agent and the gateways say of its cost, and which of the two counts."""
    served = {}
    if attempts and os.path.isdir(home / "gateway"):
        from fleet.evidence.requests import Records  # what nobody pays for who has no gateway

        served = Records(home).served()
    return [reckon(attempt, served.get(attempt.id, ()), _price, is_local) for attempt in attempts]


def _price(model: str, usage: Usage, at: float) -> Decimal | None:
    from fleet.evidence.prices import price  # what nobody pays for whose agents tell what they cost

    return price(model, usage, at)


def _is_local(attempt: Attempt, model: str) -> bool:
    """Whether an attempt means a model on a machine of one's own, as was noted before its agent ran."""
    if attempt.local is not None:
        return names_model(attempt.local, model)
    from fleet.config.local import Projects  # what nobody pays for who has no attempts of an older fleet

    return Projects().is_local(attempt, model)


def spent(home: Path, attempts: Sequence[Attempt]) -> Spent:
    """What all of these attempts used together."""
    return add_up(reckon_all(home, attempts, _is_local))


def spent_by_task(home: Path, attempts: Sequence[Attempt]) -> dict[str, Spent]:
    """What each task used, in all of the attempts that are given."""
    found: dict[str, list[Reckoned]] = {}
    for one in reckon_all(home, attempts, _is_local):
        found.setdefault(one.attempt.task, []).append(one)
    return {task: add_up(members) for task, members in found.items()}


def add_up(found: Sequence[Reckoned]) -> Spent:
    """What these attempts used together."""
    accounts = [one.counted for one in found if one.counted is not None]
    cost = total([account.cost for account in accounts])
    return Spent(
        tokens=total([account.tokens for account in accounts]),
        cost=None if cost is None else float(cost),
        unknown=sum([not is_known(one) for one in found]),
    )


def is_known(one: Reckoned) -> bool:
    """Whether all that an attempt cost is known. One that reached no model cost nothing; one that runs tells later."""
    if one.counted is not None:
        return one.whole
    attempt = one.attempt
    return attempt.started is None or attempt.ended is None or attempt.hindrance not in (None, Hindrance.UNKNOWN)

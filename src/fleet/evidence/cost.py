"""What attempts cost: by the agents' own word, by the gateway's records, and which of the two is counted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from fleet.core.frozen import dataclass
from fleet.core.work import Attempt, Usage

if TYPE_CHECKING:
    from fleet.evidence.requests import Served

ALL = Decimal("0.95")  # of the tokens that its agent tells of, when a gateway has seen all of an attempt's requests
APART = Decimal("0.05")  # of the larger figure, from when on a difference is named
DUST = Decimal("0.0005")  # US dollars; less than this is no difference

N = TypeVar("N", int, float, Decimal)
Price = Callable[[str, Usage, float], Decimal | None]
IsLocal = Callable[[Attempt, str], bool]


class Basis(StrEnum):
    """Where a figure comes from."""

    REPORTED = "reported"  # by the agent
    GATEWAY = "gateway"  # by LiteLLM
    ESTIMATED = "estimated"  # tokens times the price list
    LOCAL = "local"  # on a machine of one's own, which costs nothing
    UNKNOWN = "unknown"


class Source(StrEnum):
    """Whose account it is."""

    AGENT = "agent"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Part:
    """What an attempt used with one model. What is None is not known."""

    model: str
    usage: Usage | None
    tokens: int | None
    cost: Decimal | None
    basis: Basis
    alias: str | None = None  # what the agent asked the gateway for


@dataclass(frozen=True, slots=True)
class Account:
    """What one attempt used, by one source."""

    source: Source
    parts: tuple[Part, ...]
    requests: int | None = None
    untold: int = 0  # requests of which nobody knows what they used

    @property
    def tokens(self) -> int | None:
        return total(part.tokens for part in self.parts)

    @property
    def cost(self) -> Decimal | None:
        """Of the parts whose cost is known; None when it is of none."""
        return total(part.cost for part in self.parts)

    @property
    def whole(self) -> bool:
        """Whether its cost is that of everything."""
        return bool(self.parts) and not self.untold and all(part.cost is not None for part in self.parts)

    @property
    def basis(self) -> frozenset[Basis]:
        return frozenset(part.basis for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reckoned:
    """One attempt, both accounts of it, and the one that counts; None when there is none."""

    attempt: Attempt
    agent: Account | None
    gateway: Account | None
    counted: Account | None
    difference: str = ""

    @property
    def cost(self) -> Decimal | None:
        return None if self.counted is None else self.counted.cost

    @property
    def whole(self) -> bool:
        return self.counted is not None and self.counted.whole


def reckon(attempt: Attempt, served: Sequence[Served], price: Price, is_local: IsLocal) -> Reckoned:
    """What one attempt cost. The gateway's account counts when it saw all of its requests, else the agent's."""
    told = by_agent(attempt, price, is_local)
    seen = by_gateway(attempt, served, price)
    counted = seen if seen is not None and saw_all(told, seen) else told or seen
    return Reckoned(attempt, told, seen, counted, _difference(told, seen, counted))


def saw_all(told: Account | None, seen: Account) -> bool:
    """Whether the gateway saw what the agent tells of; of one that tells nothing nobody knows better."""
    if told is None or told.tokens is None:
        return True
    return (seen.tokens or 0) >= ALL * told.tokens


def by_agent(attempt: Attempt, price: Price, is_local: IsLocal) -> Account | None:
    """What the agent says itself; None when it told neither tokens nor cost."""
    if attempt.tokens is None and attempt.cost is None:
        return None
    used: dict[str, Usage | None] = {**attempt.usage} or {attempt.thinks_with or attempt.model or "": None}
    told = total(None if one is None else one.cost for one in used.values())
    alone = len(used) == 1
    split = alone or all(one is not None and one.cost is not None for one in used.values())
    if attempt.cost is not None and not split and not all(is_local(attempt, name) for name in used):
        together = reduce(Usage.plus, (one for one in used.values() if one is not None), Usage())
        part = Part(", ".join(used), together, attempt.tokens, exact(attempt.cost), Basis.REPORTED)
        return Account(Source.AGENT, (part,))
    whole = attempt.cost if alone or told is None else None
    parts = (_told(attempt, name, one, whole, price, is_local) for name, one in used.items())
    return Account(Source.AGENT, tuple(parts))


def _told(
    attempt: Attempt, model: str, usage: Usage | None, whole: float | None, price: Price, is_local: IsLocal
) -> Part:
    tokens = attempt.tokens if usage is None else usage.total
    said = whole if whole is not None else None if attempt.cost is None or usage is None else usage.cost
    if is_local(attempt, model):
        return Part(model, usage, tokens, Decimal(0), Basis.LOCAL)
    if said is not None:
        return Part(model, usage, tokens, exact(said), Basis.REPORTED)
    found = None if usage is None else price(model, usage, attempt.started or attempt.created)
    return Part(model, usage, tokens, found, Basis.UNKNOWN if found is None else Basis.ESTIMATED)


def by_gateway(attempt: Attempt, served: Sequence[Served], price: Price) -> Account | None:
    """What LiteLLM saw of it; None when it saw nothing. What came before the attempt is of another of its name."""
    ours = [one for one in served if one.last >= attempt.created]
    if not ours:
        return None
    parts = tuple(_seen(attempt, one, price) for one in ours if one.usage.total)
    return Account(Source.GATEWAY, parts, sum(one.requests for one in ours), sum(one.untold for one in ours))


def _seen(attempt: Attempt, served: Served, price: Price) -> Part:
    usage, alias = served.usage, served.alias
    if served.local:
        return Part(served.model, usage, usage.total, Decimal(0), Basis.LOCAL, alias)
    if usage.cost is not None:
        return Part(served.model, usage, usage.total, exact(usage.cost), Basis.GATEWAY, alias)
    found = price(served.model, usage, attempt.started or attempt.created)
    return Part(served.model, usage, usage.total, found, Basis.UNKNOWN if found is None else Basis.ESTIMATED, alias)


def _difference(told: Account | None, seen: Account | None, counted: Account | None) -> str:
    """What is to be said of two accounts that do not agree."""
    if told is None or seen is None or counted is None:
        return ""
    if counted is told:
        return f"the gateway saw {seen.tokens or 0} of {told.tokens} tokens: the agent's word counts"
    one, other = told.cost, seen.cost
    if one is None or other is None or abs(one - other) <= max(DUST, APART * max(one, other)):
        return ""
    return f"the agent says {dollars(one)}, the gateway {dollars(other)}, which counts"


def exact(cost: float) -> Decimal:
    """A sum as it was written, to the billionth of a dollar: what a float adds to it is not money."""
    return round(Decimal(repr(float(cost))), 9)


def dollars(cost: Decimal) -> str:
    """`$5.00`; less than ten cents to the hundredth of a cent."""
    return f"${cost:.2f}" if cost >= Decimal("0.1") or cost == 0 else f"${cost:.4f}"


def total(values: Iterable[N | None]) -> N | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], start=known[0]) if known else None

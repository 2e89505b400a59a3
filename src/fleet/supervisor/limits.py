"""Which limit is reached, and what is said of it: pure. Whose limit it is, config has found out before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from fleet.coders.base import Can
from fleet.config.limits import Origin
from fleet.config.units import dollars_text, time_text, tokens_text
from fleet.core.frozen import dataclass
from fleet.core.life import Life, LifeState
from fleet.core.text import clean
from fleet.core.work import AGENT, Attempt, Ending, Limits

FULL = 100  # percent
DEFAULT = "fleet's default"
NUDGED, SEEN = "nudged: ", 500  # how the cause of a nudge begins; characters of it


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that ends an attempt, and the reason in words."""

    ending: Ending
    cause: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What attempts at a task have used together, as far as they said; None when none of them did."""

    tokens: int | None = None
    cost: float | None = None
    estimated: bool = False  # some of the cost is tokens times the price list


def spent(attempts: Iterable[Attempt]) -> Spent:
    """The sum over these attempts. Those of which it is unknown add nothing, which is not the same as 0."""
    return reduce(_together, map(_of, attempts), Spent())


def _of(attempt: Attempt) -> Spent:
    """What one attempt used; its cost by the agent's own word, else as it was estimated."""
    if attempt.cost is None and attempt.estimate is not None:
        return Spent(attempt.tokens, attempt.estimate, estimated=True)
    return Spent(attempt.tokens, attempt.cost)


def overspent(attempt: Attempt, before: Spent) -> Reached | None:
    """The limit of its task that an attempt has reached, with what earlier ones used."""
    limits = attempt.limits
    together = _together(before, _of(attempt))
    if limits is None:
        return None
    if limits.tokens is not None and (together.tokens or 0) >= limits.tokens:
        said = f"{tokens_text(together.tokens or 0)} tokens"
        return Reached(Ending.TOKENS, f"{said} ({named(attempt, 'tokens', tokens_text(limits.tokens))})")
    if limits.cost is not None and (together.cost or 0) >= limits.cost:
        said = f"{dollars_text(together.cost or 0)} spent{', estimated' if together.estimated else ''}"
        return Reached(Ending.COST, f"{said} ({named(attempt, 'cost', dollars_text(limits.cost))})")
    return None


def stuck(attempt: Attempt, life: Life, silence: float | None, now: float) -> Reached:
    """Why an agent is ended by the policy of the state it is in. One that has done its work has not failed."""
    lasted = time_text(max(0.0, round(now - life.since)))
    match life.state:
        case LifeState.SILENT:
            return Reached(Ending.SILENT, f"silent for {time_text(silence or 0)} ({named(attempt, 'silence')})")
        case LifeState.LINGERING:
            return Reached(Ending.FINISHED, f"it said that it was done, and lived on for {lasted}")
        case state:
            return Reached(Ending.STUCK, f"{state} for {lasted}: {life.why}")


def nudged(reached: Reached) -> Reached:
    """The same of an agent that is to go on, told of it: what was seen is partly the agent's own words."""
    if reached.ending is Ending.FINISHED:
        return reached
    return Reached(Ending.NUDGED, clean(f"{NUDGED}{reached.cause}", SEEN))


def full(attempt: Attempt, threshold: int) -> Reached | None:
    """Whether its context is nearly full. One that is more than full was taken for smaller than it is."""
    share = attempt.context_share
    guessed = attempt.context_from != AGENT and share is not None and share > FULL
    if share is None or share <= threshold or guessed:
        return None
    size = f"{tokens_text(attempt.context_limit or 0)} tokens, according to {attempt.context_from or DEFAULT}"
    return Reached(Ending.CONTEXT, f"its context was {share} % full (of {size})")


def left(limits: Limits, before: Spent) -> float | None:
    """The US dollars that a task may still cost; None without a limit."""
    return None if limits.cost is None else max(0.0, limits.cost - (before.cost or 0.0))


def lesser(one: float | None, other: float | None) -> float | None:
    """Of two limits the one that is reached first; None is no limit."""
    return other if one is None else one if other is None else min(one, other)


def unkept(limits: Limits, coder: str, can: Can, *, priced: bool = False) -> dict[str, str]:
    """The limits that cannot be kept with this coder, and why. `priced`: what it costs can be estimated."""
    found = {}
    if limits.tokens is not None and not can.usage:
        found["tokens"] = f"{coder} does not tell its tokens while it works"
    if limits.cost is not None and not can.cost and not priced:
        found["cost"] = f"{coder} does not tell its cost" + (", and its model has no price" if can.usage else "")
    return found


def model_of(history: Sequence[Attempt]) -> str | None:
    """What the agents of a task think with, by the last of them of whom that is known."""
    return next((one.thinks_with or one.model for one in reversed(history) if one.thinks_with or one.model), None)


def untold(history: Sequence[Attempt]) -> dict[str, str]:
    """Of what use nobody knows how much it was: attempts that are over, and of whose session no later one told."""
    found = {}
    for name in ("tokens", "cost"):
        over = [(one, history[n + 1 :]) for n, one in enumerate(history) if one.started and one.ended]
        missing = [str(one.number) for one, later in over if not _is_told(one, later, name)]
        if missing:
            found[name] = f"not told by attempt {', '.join(missing)}"
    return found


def _is_told(attempt: Attempt, later: Sequence[Attempt], name: str) -> bool:
    known = [one for one in later if one.session is not None and one.session == attempt.session]
    return any(getattr(one, name) is not None for one in (attempt, *known)) or (
        name == "cost" and attempt.estimate is not None
    )


def named(attempt: Attempt, limit: str, figure: str = "") -> str:
    """`limit tokens 2M, set by fleet.yaml`."""
    who = Origin(attempt.origins.get(limit, Origin.DEFAULT)).words
    return f"limit {limit}{' ' if figure else ''}{figure}, {who}"


def context_limit(told: int | None, coders: int | None, *, declared: bool) -> tuple[int | None, str | None]:
    """How much an attempt's model reads at once, until the agent says so itself; and according to whom."""
    if told is not None:
        return told, "an earlier attempt"
    if coders is not None:
        return coders, "runtime.toml" if declared else DEFAULT
    return None, None


def _together(one: Spent, other: Spent) -> Spent:
    tokens = one.tokens if other.tokens is None else (one.tokens or 0) + other.tokens
    cost = one.cost if other.cost is None else (one.cost or 0.0) + other.cost
    return Spent(tokens, cost, one.estimated or other.estimated)

"""Whether the requests of an agent are answered: a decision from what is known of its alias and of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    SERVED = "served"  # a node that has the model answers, and the gateway knows the alias
    NOT_SERVED = "not served"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """A model that may answer an alias, on its node."""

    model: str
    node: str
    has: bool | None  # its node answers and has the model; None: it answers, and does not say what it has
    why: str = ""


@dataclass(frozen=True, slots=True)
class Readiness:
    state: State
    why: str

    @property
    def served(self) -> bool | None:
        return {State.NOT_SERVED: False, State.UNKNOWN: None}.get(self.state, True)


def judge(obstacle: str | None, places: Sequence[Place]) -> Readiness:
    """What is to be said of an agent. `obstacle`: why its requests get no further than the gateway."""
    if obstacle is not None:
        return Readiness(State.NOT_SERVED, obstacle)
    if any(place.has for place in places):
        return Readiness(State.SERVED, "served")
    if any(place.has is None for place in places):
        return Readiness(State.UNKNOWN, "the node does not tell which models it has")
    if len(places) == 1:
        return Readiness(State.NOT_SERVED, places[0].why)
    return Readiness(State.NOT_SERVED, "; ".join(f"{place.node}: {place.why}" for place in places))

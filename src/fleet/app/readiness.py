"""Whether the requests of an agent are answered: a decision from what is known of its alias and of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from fleet.core.fleet import Fleet
from fleet.gateway import run, served
from fleet.gateway.answers import Answer


class State(StrEnum):
    ANSWERED = "answered"  # a request of an agent's kind went through
    UNTRIED = "untried"  # nothing is in the way, and nobody has tried since the gateway was started
    PARTLY = "partly"  # one of its models answers, and another did not
    REFUSED = "refused"  # a request of an agent's kind was not answered
    NOT_SERVED = "not served"  # something is in the way
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """A model that may answer an alias, on its node."""

    model: str
    node: str
    has: bool | None  # its node answers and has the model; None: it answers, and does not say what it has
    why: str = ""  # why not
    last: Answer | None = None
    busy: bool = False  # just now, when it was asked


@dataclass(frozen=True, slots=True)
class Readiness:
    state: State
    why: str

    @property
    def served(self) -> bool | None:
        return {State.NOT_SERVED: False, State.REFUSED: False, State.UNKNOWN: None}.get(self.state, True)


def obstacle(fleet: Fleet, name: str, gateway: run.Status) -> str | None:
    """Why requests for a name get no further than the gateway, or to another model; None when they do."""
    if gateway.answers:
        return served.difference(name, fleet, gateway.deployments)
    return "the gateway is not running" if not gateway.running else str(gateway.reason)


def judge(blocked: str | None, places: Sequence[Place], since: float, now: float) -> Readiness:
    """What is to be said of an agent. `blocked`: why its requests get no further than the gateway, which was started at
    `since`.
    """
    if blocked is not None:
        return Readiness(State.NOT_SERVED, blocked)
    usable = [place for place in places if place.has is not False]
    if not usable:
        return Readiness(State.NOT_SERVED, _why_none(places))
    tried = [place for place in usable if place.last and place.last.at >= since]
    refused = [place for place in tried if place.last and not place.last.ok]
    if refused:
        state = State.REFUSED if len(refused) == len(usable) else State.PARTLY
        return Readiness(state, "; ".join(say_last(place, now) for place in refused))
    if tried:
        return Readiness(State.ANSWERED, "; ".join(say_last(place, now) for place in tried))
    return _untried(usable, now)


def _untried(usable: Sequence[Place], now: float) -> Readiness:
    if not any(place.has for place in usable):
        return Readiness(State.UNKNOWN, "the node does not tell which models it has")
    earlier = next((place for place in usable if place.last), None)
    if earlier:
        return Readiness(State.UNTRIED, f"before the gateway was started, {say_last(earlier, now)}")
    busy = next((f"{place.node} is busy, " for place in usable if place.busy), "")
    return Readiness(State.UNTRIED, f"{busy}not tried yet")


def _why_none(places: Sequence[Place]) -> str:
    if len(places) == 1:
        return places[0].why
    return "; ".join(f"{place.node}: {place.why}" for place in places)


def say_last(place: Place, now: float) -> str:
    """`small-box answered at 14:02 in 0.8 s`."""
    if place.last is None:
        return f"{place.node} was never asked"
    moment, seconds = say_when(place.last.at, now), f"{place.last.seconds:.1f} s"
    if place.busy:
        return f"{place.node} is busy, last {'answered' if place.last.ok else 'refused'} {moment}"
    if place.last.ok:
        return f"{place.node} answered at {moment} in {seconds}"
    return f"{place.node} did not answer at {moment}: {place.last.reason}"


def say_when(at: float, now: float) -> str:
    """The time of day, with the day unless that is today."""
    then, today = (datetime.fromtimestamp(moment, UTC).astimezone() for moment in (at, now))
    return then.strftime("%H:%M" if then.date() == today.date() else "%Y-%m-%d %H:%M")

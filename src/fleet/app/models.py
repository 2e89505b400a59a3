"""What the models plane answers: discover, warm up, status."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleet import nodes
from fleet.app import capabilities
from fleet.app.probes import probe_models
from fleet.app.readiness import Place, State, judge, obstacle
from fleet.core import NotFound
from fleet.core.fleet import Fleet, Model, Route
from fleet.core.text import clean, nearest
from fleet.gateway import answers, direct, run
from fleet.gateway.probe import Probe, Result
from fleet.host import files

DISCOVERY = ".subagent-fleet/discovery.json"


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """A route, and whether a request for its alias would be served; None is unknown."""

    route: Route
    served: bool | None
    why: str
    state: State
    alias_known: bool | None  # the running gateway answers it with the models of fleet.yaml; None: no gateway tells
    places: tuple[Place, ...]  # every model that has the alias
    last: answers.Answer | None = None  # of all of them


@dataclass(frozen=True, slots=True)
class WarmModel:
    """How warming a model went, and what it made of a request as agents send it."""

    model: str
    node: str
    served: str
    ok: bool
    reason: str
    asked: Probe | None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    project: str
    nodes: tuple[nodes.Survey, ...]
    gateway: run.Status | direct.Direct
    routes: tuple[RouteStatus, ...]


def discover(fleet: Fleet, out: Path, timeout: float) -> list[nodes.Survey]:
    surveys, known = capabilities.ask(fleet, out, timeout)
    capabilities.keep(fleet, out, known)
    return surveys


def write_discovery(fleet: Fleet, found: Sequence[nodes.Survey], out: Path) -> Path:
    path = out / DISCOVERY
    body = {
        "project": fleet.project,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": [asdict(survey) for survey in found],
    }
    files.own_dir(out)
    files.write(path, (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode())
    return path


def to_warm(fleet: Fleet, model: str | None, agent: str | None) -> list[Model]:
    """The models to warm: all of them, or the one named, or those an agent may think with."""
    if model is not None:
        _must_know(model, fleet.models, "model")
        return [fleet.models[model]]
    if agent is not None:
        _must_know(agent, fleet.agents, "agent")
        alias = fleet.models[fleet.agents[agent].model].alias
        return [model for model in fleet.models.values() if model.alias == alias]  # any of them may get its request
    return list(fleet.models.values())


def _must_know(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        words = f"fleet.yaml has no {what} {clean(name)!r}{nearest(name, names)}"
        raise NotFound(words, hint=f"the {what}s are: {', '.join(map(clean, names))}")


def warmup(
    fleet: Fleet, out: Path, models: Sequence[Model], done: Callable[[nodes.Warmed], None], *, paid: bool = False
) -> list[WarmModel]:
    """Load models, then ask each of them through the gateway as an agent asks."""
    warmed = asyncio.run(nodes.warm(fleet, models, done))
    loaded = [fleet.models[one.model] for one in warmed if one.ok]
    asked = {one.model: one for one in probe_models(fleet, out, loaded, load=True, paid=paid)}
    return [_warm_model(one, asked.get(one.model)) for one in warmed]


def _warm_model(warmed: nodes.Warmed, asked: Probe | None) -> WarmModel:
    ok, reason = warmed.ok, warmed.reason
    if asked and asked.result is Result.REFUSED:
        ok, reason = False, f"{reason}, and does not answer an agent: {asked.reason}"
    elif asked and asked.answer:
        reason = f"{reason}; answered an agent's request in {asked.answer.seconds:.1f} s"
    elif asked:
        reason = f"{reason}; not asked as an agent asks: {asked.reason}"
    return WarmModel(warmed.model, warmed.node, warmed.served, ok, reason, asked)


def status(fleet: Fleet, out: Path, timeout: float) -> FleetStatus:
    surveys = asyncio.run(nodes.survey(list(fleet.nodes.values()), timeout=timeout, loaded=True))
    gateway, routes = judged(fleet, out, surveys)
    return FleetStatus(fleet.project, tuple(surveys), gateway, routes)


def judged(
    fleet: Fleet, out: Path, surveys: Sequence[nodes.Survey], busy: Collection[str] = ()
) -> tuple[run.Status | direct.Direct, tuple[RouteStatus, ...]]:
    """The gateway, and what is to be said of every agent, by what the nodes said; `busy`: models that were just asked
    and had no time.
    """
    gateway = _direct(fleet, surveys) if fleet.is_direct else run.status(fleet, out)
    by_name, last = {survey.node: survey for survey in surveys}, answers.recall(fleet, out)
    found = {
        model.name: place(model, by_name[model.node], last.get(model.name), busy=model.name in busy)
        for model in fleet.models.values()
    }
    return gateway, tuple(judge_route(fleet, route, found, gateway, time.time()) for route in fleet.routes())


def _direct(fleet: Fleet, surveys: Sequence[nodes.Survey]) -> direct.Direct:
    """In direct mode the node is the gateway; whether it speaks Anthropic's API is asked by `gateway status`."""
    online = any(s.state is nodes.State.ONLINE and s.endpoint == fleet.base_url for s in surveys)
    return direct.Direct(fleet.base_url, online, None if online else "the node is offline")


def judge_route(
    fleet: Fleet, route: Route, found: Mapping[str, Place], gateway: run.Status | direct.Direct, now: float
) -> RouteStatus:
    alias_known, blocked, since = None, None, 0.0
    if isinstance(gateway, run.Status):
        blocked, since = obstacle(fleet, route.alias, gateway), gateway.started or 0.0
        alias_known = blocked is None if gateway.answers else None
    places = tuple(found[model.name] for model in may_answer(fleet, route))
    decided = judge(blocked, places, since, now)
    last = max((place.last for place in places if place.last), key=lambda last: last.at, default=None)
    return RouteStatus(route, decided.served, decided.why, decided.state, alias_known, places, last)


def may_answer(fleet: Fleet, route: Route) -> list[Model]:
    """The models that may answer the route: those of its alias, or in direct mode the one that it names."""
    if fleet.is_direct:
        return [fleet.models[route.model]]
    return [model for model in fleet.models.values() if model.alias == route.alias]


def place(model: Model, survey: nodes.Survey, last: answers.Answer | None, *, busy: bool) -> Place:
    if survey.state is nodes.State.OFFLINE:
        return Place(model.name, model.node, False, f"node offline: {survey.cause}", last)
    has = survey.serves(model)
    return Place(model.name, model.node, has, "the node does not have the model" if has is False else "", last, busy)

"""What the models plane answers: discover, warm up, status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleet import nodes
from fleet.app import capabilities
from fleet.app.readiness import Place, State, judge
from fleet.core import NotFound
from fleet.core.fleet import Fleet, Model, Route
from fleet.core.text import clean, nearest
from fleet.gateway import direct, run, served
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


def warmup(fleet: Fleet, models: Sequence[Model], done: Callable[[nodes.Warmed], None]) -> list[nodes.Warmed]:
    return asyncio.run(nodes.warm(fleet, models, done))


def status(fleet: Fleet, out: Path, timeout: float) -> FleetStatus:
    surveys = asyncio.run(nodes.survey(list(fleet.nodes.values()), timeout=timeout, loaded=True))
    gateway, routes = judged(fleet, out, surveys)
    return FleetStatus(fleet.project, tuple(surveys), gateway, routes)


def judged(
    fleet: Fleet, out: Path, surveys: Sequence[nodes.Survey]
) -> tuple[run.Status | direct.Direct, tuple[RouteStatus, ...]]:
    """The gateway, and what is to be said of every agent, by what the nodes said."""
    gateway = _direct(fleet, surveys) if fleet.is_direct else run.status(fleet, out)
    by_name = {survey.node: survey for survey in surveys}
    return gateway, tuple(judge_route(fleet, route, by_name, gateway) for route in fleet.routes())


def _direct(fleet: Fleet, surveys: Sequence[nodes.Survey]) -> direct.Direct:
    """In direct mode the node is the gateway; whether it speaks Anthropic's API is asked by `gateway status`."""
    online = any(s.state is nodes.State.ONLINE and s.endpoint == fleet.base_url for s in surveys)
    return direct.Direct(fleet.base_url, online, None if online else "the node is offline")


def judge_route(
    fleet: Fleet, route: Route, surveys: Mapping[str, nodes.Survey], gateway: run.Status | direct.Direct
) -> RouteStatus:
    alias_known, obstacle = None, None
    if isinstance(gateway, run.Status):
        obstacle = _obstacle(fleet, route.alias, gateway)
        alias_known = obstacle is None if gateway.answers else None
    found = places(fleet, route, surveys)
    decided = judge(obstacle, found)
    return RouteStatus(route, decided.served, decided.why, decided.state, alias_known, found)


def _obstacle(fleet: Fleet, alias: str, gateway: run.Status) -> str | None:
    if gateway.answers:
        return served.difference(alias, fleet, gateway.deployments)
    return "the gateway is not running" if not gateway.running else str(gateway.reason)


def places(fleet: Fleet, route: Route, surveys: Mapping[str, nodes.Survey]) -> tuple[Place, ...]:
    """Every model that may answer the route: those of its alias, or in direct mode the one that it names."""
    models = [
        m for m in fleet.models.values() if m.alias == route.alias and (not fleet.is_direct or m.name == route.model)
    ]
    return tuple(_place(model, surveys[model.node]) for model in models)


def _place(model: Model, survey: nodes.Survey) -> Place:
    if survey.state is nodes.State.OFFLINE:
        return Place(model.name, model.node, False, f"node offline: {survey.cause}")
    has = survey.serves(model)
    return Place(model.name, model.node, has, "the node does not have the model" if has is False else "")

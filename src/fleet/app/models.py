"""What the models plane answers: discover, warm up, status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleet import nodes
from fleet.app import capabilities
from fleet.core import NotFound
from fleet.core.fleet import Fleet, Model, Route
from fleet.core.text import clean, nearest
from fleet.gateway import direct, run
from fleet.host import files

DISCOVERY = ".subagent-fleet/discovery.json"


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """A route, and whether a request along it would be served; None is unknown."""

    route: Route
    served: bool | None
    why: str


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
    gateway = _direct(fleet, surveys) if fleet.is_direct else run.status(fleet, out)
    by_name = {survey.node: survey for survey in surveys}
    routes = tuple(judge(fleet, route, by_name[route.node], gateway) for route in fleet.routes())
    return FleetStatus(fleet.project, tuple(surveys), gateway, routes)


def _direct(fleet: Fleet, surveys: Sequence[nodes.Survey]) -> direct.Direct:
    """In direct mode the node is the gateway; whether it speaks Anthropic's API is asked by `gateway status`."""
    online = any(s.state is nodes.State.ONLINE and s.endpoint == fleet.base_url for s in surveys)
    return direct.Direct(fleet.base_url, online, None if online else "the node is offline")


def judge(fleet: Fleet, route: Route, survey: nodes.Survey, gateway: run.Status | direct.Direct) -> RouteStatus:
    if survey.state is nodes.State.OFFLINE:
        return RouteStatus(route, False, f"node offline: {survey.cause}")
    has = survey.serves(fleet.models[route.model])
    if has is False:
        return RouteStatus(route, False, "the node does not have the model")
    if isinstance(gateway, run.Status):
        if not gateway.running or not gateway.answers:
            return RouteStatus(
                route, False, "the gateway is not running" if not gateway.running else str(gateway.reason)
            )
        if route.alias not in (gateway.aliases or ()):
            return RouteStatus(route, False, "the running gateway does not know the alias")
    return RouteStatus(route, has, "served" if has else "the node does not tell which models it has")

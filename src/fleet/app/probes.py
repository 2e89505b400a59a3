"""Asking the models of a fleet as agents ask, and remembering how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from fleet import nodes
from fleet.app.readiness import obstacle
from fleet.core.fleet import Fleet, Model
from fleet.gateway import answers, keys, probe, run
from fleet.gateway.probe import Probe, Result

SURVEY_TIMEOUT_S = 3.0


def probe_models(
    fleet: Fleet,
    out: Path,
    models: Sequence[Model],
    done: Callable[[Probe], None] = lambda _: None,
    *,
    load: bool = False,
    paid: bool = False,
) -> list[Probe]:
    """One for each model, in their order. Those that nothing is known to hold back are asked."""
    reachable = fleet.within_reach()
    models = [model for model in models if model in reachable]
    surveys = asyncio.run(nodes.survey(list(fleet.nodes.values()), timeout=SURVEY_TIMEOUT_S, loaded=True))
    by_name = {survey.node: survey for survey in surveys}
    gateway = None if fleet.is_direct else run.status(fleet, out)
    found: dict[str, Probe] = {}
    for model in models:
        blocked = obstacle(fleet, probe.asked_name(fleet, model), gateway) if gateway else None
        reason = blocked or probe.why_not(fleet, model, by_name[model.node], load=load, paid=paid)
        if reason:
            found[model.name] = Probe(model.name, model.node, model.alias, Result.NOT_TRIED, reason)
            done(found[model.name])
    asked = [model for model in models if model.name not in found]
    key = "" if fleet.is_direct else keys.chosen(fleet, out) or ""
    found |= {one.model: one for one in asyncio.run(probe.ask_all(fleet, asked, key, load, done))}
    answers.keep(fleet, out, {name: one.answer for name, one in found.items() if one.answer})
    return [found[model.name] for model in models]

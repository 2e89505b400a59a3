"""What the models of each node can do, as the nodes last said: kept in a file, for when a node is silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet import nodes
from fleet.config.document import parse
from fleet.config.fleet_yaml import InvalidFleet, text_of
from fleet.config.problems import Problem
from fleet.core.fleet import Fleet, Model
from fleet.core.text import clean
from fleet.generate import write
from fleet.generate.roles import defaults
from fleet.host import files

PATH = f"{files.OWN}/capabilities.json"
MAX_NAMED = 5  # models that are offered instead of one
GENERATE_TIMEOUT_S = 1.0  # generate works without the nodes, and does not wait long for one that sleeps
ABILITIES = ("tools", "thinking", "vision")
FACTS = (*ABILITIES, "context")
WITHOUT_TOOLS = {"aider"}  # agent CLIs that edit files by what a model says, not by tools

Capabilities = Mapping[str, tuple[nodes.ServedModel, ...]]
"""By the name of the node: its models, with what each can do."""


def ask(fleet: Fleet, out: Path, timeout: float, *, loaded: bool = False) -> tuple[list[nodes.Survey], Capabilities]:
    """What every node says now; and what its models can do, from what a silent one said before."""
    asked = nodes.survey(list(fleet.nodes.values()), timeout=timeout, loaded=loaded, described=True)
    surveys = asyncio.run(asked)
    return surveys, combine(recall(fleet, out), surveys)


def ask_shortly(fleet: Fleet, out: Path) -> Capabilities:
    return ask(fleet, out, GENERATE_TIMEOUT_S)[1]


def combine(before: Capabilities, surveys: Iterable[nodes.Survey]) -> Capabilities:
    """What each node said now, else what it said before; a model that it did not describe now is as it was."""
    known = dict(before)
    for survey in surveys:
        if survey.models is not None:
            old = before.get(survey.node, ())
            known[survey.node] = tuple(_complete(model, nodes.find_model(old, model.name)) for model in survey.models)
    return known


def _complete(now: nodes.ServedModel, before: nodes.ServedModel | None) -> nodes.ServedModel:
    if before is None:
        return now
    return replace(now, **{key: getattr(before, key) for key in FACTS if getattr(now, key) is None})


def recall(fleet: Fleet, out: Path) -> Capabilities:
    """What was kept of the fleet's nodes; nothing of one that has another address since, or that cannot be read."""
    try:
        kept = json.loads(files.read(out / PATH) or b"{}")
        said = kept["nodes"]
        return {
            name: tuple(_model(model, facts) for model, facts in said[name]["models"].items())
            for name, node in fleet.nodes.items()
            if name in said and said[name]["endpoint"] == node.endpoint
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _model(name: str, facts: Mapping[str, object]) -> nodes.ServedModel:
    context = facts["context"]
    tools, thinking, vision = (value if isinstance(value := facts[key], bool) else None for key in ABILITIES)
    return nodes.ServedModel(
        name, context=context if type(context) is int else None, tools=tools, thinking=thinking, vision=vision
    )


def keep(fleet: Fleet, out: Path, known: Capabilities) -> None:
    """Write it down where it changed. Nobody depends on it: where nothing can be written, it is asked again."""
    said = {
        name: {"endpoint": fleet.nodes[name].endpoint, "models": dict(map(_facts, models))}
        for name, models in sorted(known.items())
        if not fleet.nodes[name].is_cloud
    }
    content = (json.dumps({"nodes": said}, indent=2, ensure_ascii=False) + "\n").encode()
    try:
        if said and files.read(out / PATH) != content:
            files.own_dir(out)
            files.write(out / PATH, content)
    except OSError:
        return


def _facts(model: nodes.ServedModel) -> tuple[str, dict[str, object]]:
    return model.name, {key: getattr(model, key) for key in FACTS}


@dataclass(frozen=True, slots=True)
class Toolless:
    """A model that an agent thinks with, whose node says that it has no tools; and models there that have them."""

    agent: str
    model: Model
    others: tuple[str, ...]

    @property
    def finding(self) -> str:
        node, served = clean(self.model.node), clean(self.model.served)
        said = f"{self.agent}: {served} on {node} has no tools, and so cannot be a coding agent"
        return f"{said}; on {node} these have: {', '.join(map(clean, self.others))}" if self.others else said

    @property
    def remedy(self) -> str:
        if self.others:
            return f"set models.{self.model.name}.ollama_model to {clean(self.others[0])}"
        return f"set models.{self.model.name} to a model with tools, such as qwen2.5-coder:7b"


def find_toolless(fleet: Fleet, known: Capabilities, targets: Sequence[str]) -> Iterator[Toolless]:
    """A coding agent does everything by tools: every model that one of them may get, and that has none."""
    if targets and WITHOUT_TOOLS.issuperset(targets):
        return
    for agent, alias in _aliases(fleet).items():
        for model in fleet.models.values():
            served = known.get(model.node, ())
            found = nodes.find_model(served, model.served)
            if model.alias == alias and found is not None and found.tools is False:
                yield Toolless(agent, model, tuple(one.name for one in served if one.tools)[:MAX_NAMED])


def _aliases(fleet: Fleet) -> dict[str, str]:
    """What each agent asks for; and the main conversation, unless one of them has the same model."""
    asked = {agent.name: fleet.models[agent.model].alias for agent in fleet.agents.values()}
    main = defaults(fleet).heavy.alias
    return asked if main in asked.values() else {"the main conversation": main, **asked}


def refuse_toolless(fleet: Fleet, config: Path, out: Path, known: Capabilities, targets: Sequence[str] = ()) -> None:
    """InvalidFleet where an agent has a model without tools."""
    found = list(find_toolless(fleet, known, (*write.known(out).targets, *targets)))
    if not found:
        return
    document = parse(text_of(config))
    problems = []
    for one in found:
        path = ("models", one.model.name, "ollama_model")
        problems.append(Problem(document.place(path), path, one.finding))
    raise InvalidFleet(config, problems, hint=f"{found[0].remedy}; if its node has another now: fleet discover")

"""Asking every node at once: a dead one is a row, not a crash, and never delays the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from fleet.core.fleet import Fleet, Kind, Model, Node
from fleet.host import machine
from fleet.host.http import Http, Unanswered
from fleet.nodes.anthropic import Anthropic
from fleet.nodes.base import Backend, LoadedModel, ServedModel, State, Survey
from fleet.nodes.ollama import Ollama
from fleet.nodes.openai import LMStudio, OpenAI, OpenRouter, Resident

BACKENDS: dict[Kind, Backend] = {
    Kind.OLLAMA: Ollama(),
    Kind.VLLM: Resident(),
    Kind.LLAMACPP: Resident(),
    Kind.LMSTUDIO: LMStudio(),
    Kind.OPENROUTER: OpenRouter(),
    Kind.OPENAI: OpenAI(),
    Kind.ANTHROPIC: Anthropic(),
}
MAX_DESCRIBED = 200  # models of one node
MAX_AT_ONCE = 2  # requests to one node


def client(nodes: Iterable[Node], timeout: float, *, together: bool = False) -> Http:
    """A client for these nodes; the certificate store is read only when one of them needs it."""
    return Http(timeout, tls=any(node.endpoint.startswith("https:") for node in nodes), together=together)


async def survey(
    nodes: Sequence[Node], *, timeout: float = 5.0, loaded: bool = False, described: bool = False
) -> list[Survey]:
    """What every node said, in the order given; takes one timeout however many are silent.

    With `described` each model is asked for what it can do.
    """
    machine.allow_files(MAX_AT_ONCE * len(nodes) + 128)  # a silent node holds its socket until the timeout
    async with client(nodes, timeout, together=True) as http:
        return await asyncio.gather(*(_ask(http, node, loaded, described) for node in nodes))


async def _ask(http: Http, node: Node, loaded: bool, described: bool) -> Survey:
    backend = BACKENDS[node.kind]
    about = (node.name, str(node.kind), node.endpoint, node.tags)
    models, memory = await asyncio.gather(_models(backend, http, node), _loaded(backend, http, node, loaded))
    if isinstance(models, Unanswered):
        return Survey(*about, State.OFFLINE, models.cause, models.detail)
    if described and models:
        models = await _described(backend, http, node, models)
    return Survey(*about, State.ONLINE, models=models, loaded=memory)


async def _described(
    backend: Backend, http: Http, node: Node, models: Sequence[ServedModel]
) -> tuple[ServedModel, ...]:
    """The models with what each can do; one that the node does not describe in time stays as it is listed."""
    turns = asyncio.Semaphore(MAX_AT_ONCE)

    async def describe(model: ServedModel) -> ServedModel:
        async with turns:
            try:
                return await backend.describe(http, node, model)
            except Unanswered:
                return model

    return (*await asyncio.gather(*map(describe, models[:MAX_DESCRIBED])), *models[MAX_DESCRIBED:])


async def _models(backend: Backend, http: Http, node: Node) -> tuple[ServedModel, ...] | Unanswered | None:
    try:
        return await backend.models(http, node)
    except Unanswered as problem:
        return problem


async def _loaded(backend: Backend, http: Http, node: Node, wanted: bool) -> tuple[LoadedModel, ...] | None:
    """Older servers cannot tell what is loaded; that does not make the node offline."""
    try:
        return await backend.loaded(http, node) if wanted else None
    except Unanswered:
        return None


@dataclass(frozen=True, slots=True)
class Warmed:
    """How warming one model went."""

    model: str
    node: str
    served: str
    ok: bool
    reason: str


async def warm(fleet: Fleet, models: Sequence[Model], done: Callable[[Warmed], None]) -> list[Warmed]:
    """Warm models: nodes in parallel, the models of one node in order. `done` hears each result as it comes."""
    by_node: dict[str, list[Model]] = {}
    for model in models:
        by_node.setdefault(model.node, []).append(model)
    nodes = [fleet.nodes[name] for name in by_node]
    async with client(nodes, 5.0) as http:
        chains: list[Awaitable[list[Warmed]]] = [
            _warm_node(http, fleet.nodes[n], ms, fleet.is_direct, done) for n, ms in by_node.items()
        ]
        results = [result for chain in await asyncio.gather(*chains) for result in chain]
    order = [model.name for model in models]
    return sorted(results, key=lambda result: order.index(result.model))


async def _warm_node(
    http: Http, node: Node, models: list[Model], direct: bool, done: Callable[[Warmed], None]
) -> list[Warmed]:
    results = []
    absent = await _models(BACKENDS[node.kind], http, node)  # a dead node is found out once, not once a model
    for model in models:
        try:
            if isinstance(absent, Unanswered):
                raise absent
            context = None if direct else model.context
            ok, reason = True, await BACKENDS[node.kind].warm(http, node, model, context)
        except Unanswered as problem:
            ok, reason = False, f"{problem.cause}: {problem.detail}"
        result = Warmed(model.name, node.name, model.served, ok, reason)
        done(result)
        results.append(result)
    return results

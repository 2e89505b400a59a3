"""Asking as a coding agent asks: with tools, thinking and streaming, through the gateway, to one model on one node."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet.core.fleet import Fleet, Kind, Model
from fleet.core.text import clean
from fleet.gateway.answers import Answer
from fleet.generate.litellm import own_name, shared_aliases
from fleet.host.http import Answer as HttpAnswer
from fleet.host.http import Http, Unanswered
from fleet.nodes import State as NodeState
from fleet.nodes import Survey, find_model, same_name
from fleet.nodes.anthropic import headers as node_headers

HEADER = "x-fleet-probe"  # the gateway's queue refuses a request with it where others are at work, and nobody counts it
BUSY_STATUS = 423  # what the queue says then
LOADED_TIMEOUT_S = 60.0  # of a model that is in memory already
MAX_TOKENS = 16  # some clouds take no fewer
ANSWERED_BY = "x-litellm-model-id"
BODY = {
    "max_tokens": MAX_TOKENS,
    "stream": True,
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "tools": [
        {"name": "nothing", "description": "Does nothing.", "input_schema": {"type": "object", "properties": {}}}
    ],
    "messages": [{"role": "user", "content": "Reply with ok."}],
}


class Result(StrEnum):
    ANSWERED = "answered"
    REFUSED = "refused"
    BUSY = "busy"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Probe:
    """How asking one model went; `answer` is what to remember of it."""

    model: str
    node: str
    alias: str
    result: Result
    reason: str = ""
    answer: Answer | None = None


def why_not(fleet: Fleet, model: Model, survey: Survey, *, load: bool, paid: bool) -> str | None:
    """Why a model is not asked; None when it is. Nothing is loaded or pushed out of memory unless `load` is set."""
    node, known = fleet.node_of(model), find_model(survey.models or (), model.served)
    if (node.is_cloud or (known and known.remote)) and not paid:
        return "it would cost money: --paid"
    if survey.state is NodeState.OFFLINE:
        return f"node offline: {survey.cause}"
    if survey.serves(model) is False:
        return "the node does not have the model"
    return None if load or node.is_cloud else _why_not_loaded(fleet, model, survey)


def _why_not_loaded(fleet: Fleet, model: Model, survey: Survey) -> str | None:
    if survey.loaded is None:
        return "whether it is in memory is unknown"
    held = next((one for one in survey.loaded if same_name(one.name, model.served)), None)
    if held is None:
        return "not in memory"
    sends_context = fleet.node_of(model).kind is Kind.OLLAMA and not fleet.is_direct
    if sends_context and held.context not in (None, model.context):
        return f"in memory with a context of {held.context}, not {model.context}"
    return None


async def ask_all(
    fleet: Fleet, models: Sequence[Model], key: str, load: bool, done: Callable[[Probe], None]
) -> list[Probe]:
    """Ask models: nodes in parallel, the models of one node in order. `done` gets each result as it comes."""
    by_node: dict[str, list[Model]] = {}
    for model in models:
        by_node.setdefault(model.node, []).append(model)

    async def chain(of_node: list[Model]) -> list[Probe]:
        found = []
        for model in of_node:
            found.append(await _ask(http, fleet, model, key, model.timeout if load else LOADED_TIMEOUT_S))
            done(found[-1])
        return found

    async with Http(tls=fleet.base_url.startswith("https:")) as http:
        return [one for found in await asyncio.gather(*map(chain, by_node.values())) for one in found]


async def _ask(http: Http, fleet: Fleet, model: Model, key: str, timeout: float) -> Probe:
    began, clock = time.time(), time.monotonic()
    try:
        said = await http.post(
            f"{fleet.base_url}/v1/messages", _body(fleet, model), _headers(fleet, model, key), timeout
        )
        reason = why_unanswered(said, model)
    except Unanswered as problem:
        if problem.status == BUSY_STATUS:
            return Probe(model.name, model.node, model.alias, Result.BUSY, "busy with other requests")
        reason = f"{problem.detail}: {problem.error}" if problem.error else f"{problem.cause}: {problem.detail}"
    answer = Answer(began, round(time.monotonic() - clock, 3), not reason, reason)
    result = Result.REFUSED if reason else Result.ANSWERED
    return Probe(model.name, model.node, model.alias, result, reason, answer)


def _body(fleet: Fleet, model: Model) -> dict[str, object]:
    if fleet.is_direct:
        return {**BODY, "model": model.served}
    return {**BODY, "model": asked_name(fleet, model)}


def asked_name(fleet: Fleet, model: Model) -> str:
    """The name by which the gateway is asked for this model and no other of its alias."""
    return own_name(model) if model.alias in shared_aliases(fleet) else model.alias


def _headers(fleet: Fleet, model: Model, key: str) -> dict[str, str]:
    ours = {HEADER: "1", "anthropic-version": "2023-06-01"}
    return ours | (node_headers(fleet.node_of(model)) if fleet.is_direct else {"authorization": f"Bearer {key}"})


def why_unanswered(said: HttpAnswer, model: Model) -> str:
    """Why an answer is none: it broke off, or another model gave it; nothing when it is whole."""
    by = said.headers.get(ANSWERED_BY)
    if by and not by.endswith(f"={model.name}@{model.node}"):
        return f"another model answered: {clean(by)}"
    events = said.body.split(b"\n")
    if any(line.startswith(b"event: error") for line in events):
        return f"the answer is an error: {_error(events)}"
    if any(line.startswith(b"event: message_stop") for line in events):
        # LiteLLM makes a whole answer without a word of anything that comes with a 200.
        has_words = b"event: content_block_delta" in said.body or b'"tool_use"' in said.body
        return "" if has_words else "the answer is empty"
    if _is_message(said.body):
        return ""
    return "the answer broke off before its end" if b"event: " in said.body else "what came is no answer of a model"


def _error(events: Sequence[bytes]) -> str:
    data = next((line for line in events if line.startswith(b"data: ") and b'"error"' in line), b"")
    return clean(data.removeprefix(b"data: ").decode(errors="replace"))


def _is_message(body: bytes) -> bool:
    """Some servers answer at once what they were asked to stream."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("type") == "message"

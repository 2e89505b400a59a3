"""No gateway at all: one node that speaks the Anthropic API itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fleet.core.fleet import Fleet, Model
from fleet.host.http import Cause, Http, Unanswered
from fleet.nodes.anthropic import headers


@dataclass(frozen=True, slots=True)
class Direct:
    url: str
    answers: bool
    reason: str | None = None


def check(fleet: Fleet) -> Direct:
    """Whether the node answers an Anthropic request for the first agent's model."""
    model = fleet.models[next(iter(fleet.agents.values())).model]
    try:
        asyncio.run(_ask(fleet, model))
    except Unanswered as problem:
        reason = f"{problem.cause}: {problem.detail}"
        if problem.status in (404, 405):
            reason = "the node does not speak the Anthropic API, or lacks the model; use gateway.provider litellm"
        return Direct(fleet.base_url, False, reason)
    return Direct(fleet.base_url, True)


async def _ask(fleet: Fleet, model: Model) -> None:
    body = {"model": model.served, "max_tokens": 1, "messages": [{"role": "user", "content": "Reply with ok."}]}
    async with Http(model.timeout) as http:
        answer = (await http.post(f"{fleet.base_url}/v1/messages", body, headers(fleet.node_of(model)))).json()
    if not isinstance(answer, dict) or answer.get("type") != "message":
        raise Unanswered(Cause.WRONG_KIND, "what it answers is not a message of the Anthropic API")

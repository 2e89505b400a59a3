"""Anthropic-compatible endpoints."""

from __future__ import annotations

from fleet.core.fleet import Model, Node
from fleet.host.http import Http, Unanswered
from fleet.nodes.base import Backend, LoadedModel, ServedModel, api_key, listed, text


class Anthropic:
    async def models(self, http: Http, node: Node) -> tuple[ServedModel, ...] | None:
        """Its models; None when it has no listing, which many compatible servers lack."""
        try:
            answer = (await http.get(f"{node.endpoint}/v1/models", headers(node))).json()
        except Unanswered as refusal:
            if refusal.status in (404, 405):
                return None
            raise
        return tuple(ServedModel(name) for item in listed(answer, "data") if (name := text(item, "id")))

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        return None

    async def describe(self, http: Http, node: Node, model: ServedModel) -> ServedModel:
        return model

    async def warm(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        await self.models(http, node)
        return "it answers; this API does not load models on purpose"


def headers(node: Node) -> dict[str, str]:
    key = api_key(node)
    version = {"anthropic-version": "2023-06-01"}
    return version | {"x-api-key": key, "authorization": f"Bearer {key}"} if key else version


_promise: type[Backend] = Anthropic

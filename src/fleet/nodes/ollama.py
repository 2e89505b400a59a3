"""Ollama, by its own API."""

from __future__ import annotations

import re
from dataclasses import replace

from fleet.core.fleet import Model, Node
from fleet.host.http import Answer, Cause, Http, Unanswered
from fleet.nodes.base import Backend, LoadedModel, ServedModel, bearer, count, get, listed, same_name, text


class Ollama:
    async def models(self, http: Http, node: Node) -> tuple[ServedModel, ...] | None:
        answer = await get(http, node, "/api/tags", "Ollama")
        return tuple(_served(item) for item in listed(answer, "models") if text(item, "name"))

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        answer = await get(http, node, "/api/ps", "Ollama")
        return tuple(
            LoadedModel(text(item, "name") or "", count(item, "size"), count(item, "context_length"), _expiry(item))
            for item in listed(answer, "models")
        )

    async def describe(self, http: Http, node: Node, model: ServedModel) -> ServedModel:
        answer = (await http.post(f"{node.endpoint}/api/show", {"model": model.name}, bearer(node))).json()
        said = answer if isinstance(answer, dict) else {}
        found, known = said.get("model_info"), said.get("capabilities")
        info = found if isinstance(found, dict) else {}
        context = next((count(info, key) for key in info if str(key).endswith(".context_length")), None)
        described = replace(model, context=context or model.context)
        if not isinstance(known, list):  # an Ollama of before 0.6.4
            return described
        return replace(described, tools="tools" in known, thinking="thinking" in known, vision="vision" in known)

    async def warm(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        """Load it with the context of the requests to come: another one would load it again at the first of them."""
        body: dict[str, object] = {
            "model": model.served,
            "messages": [],
            "stream": False,
            "keep_alive": model.keep_alive,
            **({"options": {"num_ctx": context}} if context else {}),
        }
        try:
            await _chat(http, node, model, body)
        except Unanswered as refusal:
            if refusal.status != 400:
                raise
            await _chat(http, node, model, {**body, "messages": [{"role": "user", "content": "Reply with ok."}]})
        return await self._proof(http, node, model, context)

    async def _proof(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        """What the node says it holds now, rather than what it was asked for."""
        try:
            held = next(m for m in await self.loaded(http, node) or () if same_name(m.name, model.served))
        except (Unanswered, StopIteration):
            return "loaded, says the node"
        if held.context is None:
            return "loaded"
        asked = f", not the {context} it was asked for" if context and held.context != context else ""
        return f"loaded with {held.context} tokens of context{asked}"


async def _chat(http: Http, node: Node, model: Model, body: dict[str, object]) -> None:
    try:
        _believe(await http.post(f"{node.endpoint}/api/chat", body, bearer(node), timeout=model.timeout))
    except Unanswered as refusal:
        if refusal.status == 404:
            raise missing(node, model) from refusal
        if refusal.error:
            raise Unanswered(refusal.cause, f"{refusal.detail}: {refusal.error}", refusal.status) from refusal
        raise


def _believe(answer: Answer) -> None:
    """A page that says 200 to everything has loaded nothing."""
    said = answer.json()
    if not isinstance(said, dict) or said.get("done") is not True:
        raise Unanswered(Cause.MISSING_KEY, 'the answer has no "done"')


def missing(node: Node, model: Model) -> Unanswered:
    return Unanswered(Cause.HTTP_ERROR, f"the model is not there; on {node.name} run: ollama pull {model.served}", 404)


def _served(item: dict[str, object]) -> ServedModel:
    found = item.get("details")
    details = found if isinstance(found, dict) else {}
    name = text(item, "name") or ""
    family = text(details, "family") or ""
    return ServedModel(
        name,
        bytes=count(item, "size"),
        parameters=billions(text(details, "parameter_size") or ""),
        quantisation=text(details, "quantization_level"),
        embeds="bert" in family or "embed" in name,
        remote=bool(item.get("remote_host") or item.get("remote_model")) or name.endswith(("-cloud", ":cloud")),
    )


def billions(words: str) -> float | None:
    """`7.6B` is 7.6, `134.52M` is 0.13452."""
    found = re.search(r"(\d+(?:\.\d+)?)\s*([KMBT])", words.upper())
    if not found:
        return None
    return float(found[1]) * {"K": 1e-6, "M": 1e-3, "B": 1.0, "T": 1e3}[found[2]]


def _expiry(item: dict[str, object]) -> str | None:
    """When it will be unloaded. Ollama writes `for ever` as a year some centuries off, or as one in the past."""
    when = text(item, "expires_at")
    if not when or not re.match(r"\d{4}-", when):
        return None
    return "never" if not 2000 <= int(when[:4]) < 2200 else when


_promise: type[Backend] = Ollama

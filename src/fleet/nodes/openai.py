"""Everything that speaks the OpenAI API: vLLM, LM Studio, llama.cpp, OpenRouter and the rest."""

from __future__ import annotations

from fleet.core.fleet import Kind, Model, Node
from fleet.host.http import Http
from fleet.nodes.base import Backend, LoadedModel, ServedModel, bearer, count, get, listed, text
from fleet.nodes.ollama import billions


class OpenAI:
    """Any OpenAI-compatible endpoint."""

    async def models(self, http: Http, node: Node) -> tuple[ServedModel, ...] | None:
        items = listed(await get(http, node, "/v1/models", TITLES[node.kind]), "data")
        return tuple(_served(item) for item in items if text(item, "id"))

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        return None

    async def describe(self, http: Http, node: Node, model: ServedModel) -> ServedModel:
        return model

    async def warm(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        body = {"model": model.served, "messages": [{"role": "user", "content": "Reply with ok."}], "max_tokens": 1}
        url = f"{node.endpoint}/v1/chat/completions"
        listed((await http.post(url, body, bearer(node), timeout=model.timeout)).json(), "choices")
        return "answered one token"


class Resident(OpenAI):
    """vLLM and llama.cpp: what they serve is what they hold in memory."""

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        models = await self.models(http, node) or ()
        return tuple(LoadedModel(model.name, model.bytes, model.context, "never") for model in models)


class LMStudio(OpenAI):
    """LM Studio's own listing says more than its OpenAI one: what is loaded, quantisation, context."""

    async def models(self, http: Http, node: Node) -> tuple[ServedModel, ...] | None:
        return tuple(_served(item) for item in await self._items(http, node) if text(item, "id"))

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        items = [item for item in await self._items(http, node) if item.get("state") == "loaded"]
        return tuple(LoadedModel(text(item, "id") or "", None, count(item, "loaded_context_length")) for item in items)

    async def _items(self, http: Http, node: Node) -> list[dict[str, object]]:
        return listed(await get(http, node, "/api/v0/models", TITLES[node.kind]), "data")


class OpenRouter(OpenAI):
    """A cloud: nothing is loaded on purpose, and asking costs money."""

    async def warm(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        await self.models(http, node)
        return "it answers; there is nothing to load in a cloud"


def _served(item: dict[str, object]) -> ServedModel:
    """What the various servers add to OpenAI's bare id."""
    found = item.get("meta")
    meta = found if isinstance(found, dict) else {}
    name = text(item, "id") or ""
    parameters = count(meta, "n_params")
    return ServedModel(
        name,
        bytes=count(meta, "size"),
        parameters=parameters / 1e9 if parameters else billions(name.rpartition("/")[2]),
        quantisation=text(item, "quantization"),
        context=count(item, "max_model_len")
        or count(item, "max_context_length")
        or count(item, "context_length")
        or count(meta, "n_ctx_train"),
        embeds=item.get("type") == "embeddings" or "embed" in name,
    )


TITLES = {
    Kind.VLLM: "vLLM",
    Kind.LMSTUDIO: "LM Studio",
    Kind.LLAMACPP: "llama.cpp",
    Kind.OPENROUTER: "OpenRouter",
    Kind.OPENAI: "an OpenAI-compatible server",
}

_promise: type[Backend] = OpenAI

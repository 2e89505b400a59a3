"""The promise of this room: what fleet asks of a machine that serves models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fleet.core.fleet import Model, Node
from fleet.core.text import clean
from fleet.host.http import Cause, Http, Unanswered

MAX_MODELS = 5000


class State(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as its node describes it; what the node does not say is None."""

    name: str
    bytes: int | None = None
    parameters: float | None = None
    quantisation: str | None = None
    context: int | None = None  # the longest that the model was made for
    embeds: bool = False
    remote: bool = False
    """The node only passes requests on, to somebody else's machine."""
    tools: bool | None = None
    thinking: bool | None = None
    vision: bool | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    name: str
    bytes: int | None = None
    context: int | None = None
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What one node said. `models` and `loaded` are None where the node does not tell."""

    node: str
    kind: str
    endpoint: str
    tags: tuple[str, ...]
    state: State
    cause: Cause | None = None
    detail: str | None = None
    models: tuple[ServedModel, ...] | None = None
    loaded: tuple[LoadedModel, ...] | None = None

    def serves(self, model: Model) -> bool | None:
        """Whether the node has the model; None when it does not tell."""
        if self.models is None:
            return None
        return find_model(self.models, model.served) is not None


class Backend(Protocol):
    """One kind of node. Every method raises Unanswered when the node gives no usable answer."""

    async def models(self, http: Http, node: Node) -> tuple[ServedModel, ...] | None: ...

    async def loaded(self, http: Http, node: Node) -> tuple[LoadedModel, ...] | None:
        """What is in memory now; None where the kind cannot tell."""
        ...

    async def describe(self, http: Http, node: Node, model: ServedModel) -> ServedModel:
        """The same model with what the node says only when it is asked for this one; loads nothing."""
        ...

    async def warm(self, http: Http, node: Node, model: Model, context: int | None) -> str:
        """Load the model with the context that requests will ask for (None: they name none); says what was done."""
        ...


def same_name(one: str, other: str) -> bool:
    """Ollama calls `qwen` also `qwen:latest`."""
    return one == other or one.removesuffix(":latest") == other.removesuffix(":latest")


def find_model(models: Iterable[ServedModel], served: str) -> ServedModel | None:
    return next((model for model in models if same_name(model.name, served)), None)


def api_key(node: Node, environ: Mapping[str, str] = os.environ) -> str | None:
    """The node's key, from the environment variable it names."""
    if node.api_key_env is None:
        return None
    key = environ.get(node.api_key_env)
    if not key:
        raise Unanswered(Cause.NO_API_KEY, f"${node.api_key_env} is not set")
    if not key.isascii() or not key.isprintable():
        raise Unanswered(Cause.NO_API_KEY, f"${node.api_key_env} holds characters that no key has")
    return key


def bearer(node: Node) -> dict[str, str]:
    key = api_key(node)
    return {"authorization": f"Bearer {key}"} if key else {}


async def get(http: Http, node: Node, path: str, title: str) -> object:
    """What the node answers at a path of its API; when it has no such path, it is not what it should be."""
    try:
        answer: object = (await http.get(node.endpoint + path, bearer(node))).json()
    except Unanswered as refusal:
        if refusal.status in (404, 405):
            raise Unanswered(Cause.WRONG_KIND, f"not {title}: {path} is not there", refusal.status) from refusal
        raise
    return answer


def listed(answer: object, key: str) -> list[dict[str, object]]:
    """The list of objects under a key of an answer; anything else in it is passed over."""
    if not isinstance(answer, dict) or not isinstance(answer.get(key), list):
        raise Unanswered(Cause.MISSING_KEY, f'the answer has no list "{key}"')
    return [item for item in answer[key][:MAX_MODELS] if isinstance(item, dict)]


def text(item: Mapping[str, object], key: str) -> str | None:
    value = item.get(key)
    return clean(value) if isinstance(value, str) and value else None


def count(item: Mapping[str, object], key: str) -> int | None:
    value = item.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None

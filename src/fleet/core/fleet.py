"""The nouns of the models plane: nodes serve models, agents think with them, a route says which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from urllib.parse import urlsplit

from fleet.core.work import ProjectLimits
from fleet.core.workspace import Workspace


class Kind(StrEnum):
    """What a node speaks."""

    OLLAMA = "ollama"
    VLLM = "vllm"
    LMSTUDIO = "lmstudio"
    LLAMACPP = "llamacpp"
    OPENROUTER = "openrouter"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Provider(StrEnum):
    """What stands between the agents and the nodes: LiteLLM, or nothing."""

    LITELLM = "litellm"
    DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Gateway:
    provider: Provider
    host: str
    port: int
    master_key_env: str

    @property
    def url(self) -> str:
        """Where clients on this machine reach the gateway."""
        anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - recognised here, never bound to
        host = anywhere.get(self.host, f"[{self.host}]" if ":" in self.host else self.host)
        return f"http://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    kind: Kind
    endpoint: str
    tags: tuple[str, ...] = ()
    api_key_env: str | None = None
    memory_gb: float | None = None

    @property
    def is_local(self) -> bool:
        return is_loopback(urlsplit(self.endpoint).hostname or "")

    @property
    def is_cloud(self) -> bool:
        """Somebody else's machine: paid for by the token, reached over the internet, and with room for everybody."""
        return self.kind is Kind.OPENROUTER or (self.endpoint.startswith("https:") and self.api_key_env is not None)


@dataclass(frozen=True, slots=True)
class Model:
    """An LLM on a node. `served` is the node's own name for it, `alias` the name agents ask for."""

    name: str
    node: str
    served: str
    alias: str
    context: int
    timeout: int
    max_parallel: int | None
    keep_alive: str | int = -1


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    model: str
    description: str
    tools: tuple[str, ...]
    prompt: str


@dataclass(frozen=True, slots=True)
class Route:
    """agent -> alias -> model -> node."""

    agent: str
    alias: str
    model: str
    served: str
    node: str


@dataclass(frozen=True, slots=True)
class Fleet:
    project: str
    gateway: Gateway
    nodes: Mapping[str, Node]
    models: Mapping[str, Model]
    agents: Mapping[str, Agent]
    limits: ProjectLimits | None = None
    workspace: Workspace | None = None

    def routes(self) -> list[Route]:
        return [self.route(agent) for agent in self.agents.values()]

    def route(self, agent: Agent) -> Route:
        model = self.models[agent.model]
        return Route(agent.name, model.alias, model.name, model.served, model.node)

    @property
    def is_direct(self) -> bool:
        return self.gateway.provider is Provider.DIRECT

    @property
    def base_url(self) -> str:
        """Where agents send their requests: the gateway, or in direct mode the one node they all use."""
        if not self.is_direct:
            return self.gateway.url
        return self.node_of(self.models[next(iter(self.agents.values())).model]).endpoint

    def within_reach(self) -> list[Model]:
        """The models agents can ask for: all of them, or in direct mode those of the one node."""
        found = self.models.values()
        return [model for model in found if not self.is_direct or self.node_of(model).endpoint == self.base_url]

    def asked(self, model: Model) -> str:
        """The name agents ask for: the alias, or in direct mode the node's own name for the model."""
        return model.served if self.is_direct else model.alias

    def node_of(self, model: Model) -> Node:
        return self.nodes[model.node]

    def models_on(self, node: Node) -> list[Model]:
        return [model for model in self.models.values() if model.node == node.name]


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")

"""The shape of fleet.yaml, as it is written in the file."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from fleet.core import Kind, Provider
from fleet.core.text import has_controls

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
SHELL_NAMES = {"BASH_ENV", "ENV", "HOME", "IFS", "PATH", "PROMPT_COMMAND", "PS1", "PWD", "SHELL", "USER"}
METADATA_HOSTS = {"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "metadata.google.internal"}


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    if text.startswith("os.environ/"):
        raise ValueError("must not begin with os.environ/, which LiteLLM replaces by a variable of its environment")
    return text


def _alias(text: str) -> str:
    if "*" in _one_line(text):
        raise ValueError("must not contain *, which LiteLLM takes for a pattern")
    return text


def _prose(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if has_controls(text, allow="\n\t\u2028\u2029\x85"):
        raise ValueError("contains control characters")
    return text


def _env_name(text: str) -> str:
    if not ENV_NAME.match(text):
        raise ValueError("must be the name of an environment variable, such as MY_API_KEY (never the key itself)")
    if text in SHELL_NAMES or text.startswith(("LD_", "DYLD_")):
        raise ValueError(f"must not be {text}, which the shell or the loader needs")
    return text


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(_one_line(text))
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or any(c in text for c in " \\"):
        raise ValueError("must be an HTTP or HTTPS address, such as http://192.168.1.50:11434")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user name or password; name an environment variable in api_key_env")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    if host in METADATA_HOSTS:
        raise ValueError("is a cloud metadata address, which is never a node")
    return text.rstrip("/")


def _host(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", text):
            return text
        raise ValueError("must be an address or a host name to listen on, such as 127.0.0.1") from None


Line = Annotated[StrictStr, Field(max_length=300), AfterValidator(_one_line)]
Prose = Annotated[StrictStr, Field(max_length=200_000), AfterValidator(_prose)]
EnvName = Annotated[StrictStr, Field(max_length=100), AfterValidator(_env_name)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GatewayPart(Part):
    """What agents talk to."""

    provider: Provider = Field(
        Provider.LITELLM, description="litellm: a LiteLLM proxy. direct: one node, no proxy, straight to its own API."
    )
    host: Annotated[StrictStr, AfterValidator(_host)] = Field("127.0.0.1", description="The address to listen on.")
    port: StrictInt = Field(4000, ge=1, le=65535, description="The port to listen on.")
    master_key_env: EnvName = Field(
        "LITELLM_MASTER_KEY", description="The environment variable that carries the gateway's key."
    )


class ProjectPart(Part):
    """What this fleet is called."""

    name: Line = Field(description="The name of the project.")
    gateway: GatewayPart | None = Field(None, description="The same as `gateway` at the top level.")


class NodePart(Part):
    """A machine that serves models."""

    endpoint: Annotated[StrictStr, Field(max_length=500), AfterValidator(_endpoint)] | None = Field(
        None, description="Where it answers, such as http://192.168.1.50:11434. OpenRouter needs none."
    )
    kind: Kind = Field(Kind.OLLAMA, description="What it speaks.")
    tags: tuple[Line, ...] = Field((), description="Words of your own, shown by status.")
    api_key_env: EnvName | None = Field(
        None, description="The environment variable that holds its API key. The key itself never stands here."
    )
    memory_gb: float | None = Field(None, gt=0, le=100_000, description="Memory for models, checked by doctor.")


class ModelPart(Part):
    """An LLM on a node."""

    node: StrictStr = Field(description="The node that serves it.")
    ollama_model: Line | None = Field(None, description="The name Ollama knows it by, such as qwen2.5-coder:7b.")
    model: Line | None = Field(None, description="The name the node knows it by, for any kind of node.")
    litellm_alias: Annotated[StrictStr, Field(max_length=300), AfterValidator(_alias)] = Field(
        description="The name agents ask for, such as claude-sonnet-local."
    )
    context: StrictInt = Field(8192, ge=256, le=100_000_000, description="Context window, in tokens.")
    timeout: StrictInt = Field(300, ge=1, le=86_400, description="Seconds one answer may take.")
    max_parallel: StrictInt | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Requests that may run at once; more wait in the gateway. 1 by default, no limit in a cloud.",
    )
    keep_alive: StrictInt | Line = Field(-1, description="How long Ollama keeps it loaded: -1 for ever, or 30m.")


class AgentPart(Part):
    """A role, and the model it thinks with."""

    model: StrictStr = Field(description="The model it thinks with.")
    description: Prose = Field(description="When this agent should be used.")
    tools: tuple[Line, ...] = Field((), description="Tools it may use; none listed means the agent CLI's default.")
    prompt: Prose | None = Field(None, description="Its instructions.")


class FleetFile(Part):
    """One file that says which model on which machine each agent role thinks with."""

    project: ProjectPart
    gateway: GatewayPart | None = Field(None, description="The same as `project.gateway`.")
    nodes: dict[str, NodePart] = Field(description="Machines that serve models, by name.")
    models: dict[str, ModelPart] = Field(description="LLMs on those machines, by name.")
    agents: dict[str, AgentPart] = Field(description="Roles and the models they think with, by name.")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of fleet.yaml, for editors."""
    schema = FleetFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "fleet.yaml"}

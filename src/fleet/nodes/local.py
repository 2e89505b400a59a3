"""Which model servers run on this machine, and which of their models suits which role."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleet.core.fleet import Kind, Node
from fleet.nodes.base import ServedModel, State
from fleet.nodes.ollama import billions
from fleet.nodes.survey import survey

PORTS = {Kind.OLLAMA: 11434, Kind.LMSTUDIO: 1234, Kind.LLAMACPP: 8080, Kind.VLLM: 8000}


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered, and the models on it that can chat and do not leave this machine."""

    node: Node
    models: tuple[ServedModel, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """The model for quick roles and the one for heavy roles; the same when there is only one."""

    small: tuple[Node, ServedModel]
    big: tuple[Node, ServedModel]


def usual_places(environ: Mapping[str, str] = os.environ) -> list[Node]:
    """Where model servers listen on this machine; $OLLAMA_HOST is honoured as Ollama's own client does."""
    nodes = [Node(f"local-{kind}", kind, f"http://127.0.0.1:{port}") for kind, port in PORTS.items()]
    chosen = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if chosen:
        nodes[0] = Node("local-ollama", Kind.OLLAMA, _ollama_host(chosen))
    return nodes


def _ollama_host(chosen: str) -> str:
    """As Ollama reads it: port 11434, unless one is given or the scheme implies one."""
    scheme, sign, rest = chosen.rpartition("://")
    default = {"https": "443", "http": "80"}.get(scheme, "11434")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isdigit():
        host, port = rest, default
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - recognised here, never bound to
    return f"{scheme if sign else 'http'}://{host}:{port}"


def find(places: Sequence[Node], timeout: float = 1.5) -> list[Found]:
    """The servers that really are what their port suggests, with their chat models."""
    surveys = asyncio.run(survey(places, timeout=timeout, described=True))
    return [
        Found(node, tuple(model for model in said.models if not model.embeds and not model.remote))
        for node, said in zip(places, surveys, strict=True)
        if said.state is State.ONLINE and said.models is not None
    ]


def pair(found: Sequence[Found]) -> Pair | None:
    """The smallest and the biggest model by parameters, then by bits a weight; None when there is no model.

    One without tools is no choice for a coding agent, while there is another.
    """
    known = [(place.node, model) for place in found for model in place.models]
    if not known:
        return None
    able = [entry for entry in known if entry[1].tools is not False] or known
    sized = [entry for entry in able if weight(entry[1])[0] > 0]
    ranked = sorted(sized or able, key=lambda entry: weight(entry[1]))
    return Pair(ranked[0], ranked[-1])


def weight(model: ServedModel) -> tuple[float, float, int]:
    """How big a model is: parameters in billions (from its name or size on disk when untold), bits, bytes."""
    bits = bits_per_weight(model.quantisation or model.name)
    parameters = model.parameters or billions(model.name.replace(":", " "))
    if parameters is None:
        parameters = (model.bytes or 0) * 8 / bits / 1e9
    return parameters, bits, model.bytes or 0


def bits_per_weight(quantisation: str) -> float:
    """`Q4_K_M` is 4, `F16` is 16; 4.5 when it is not said, which is what most downloads are."""
    found = re.search(r"(?i)(?:^|[^a-z0-9])(?:i?q|f|bf|fp|int|mxfp)(\d{1,2})(?!\d)", f" {quantisation}")
    return float(found[1]) if found else 4.5

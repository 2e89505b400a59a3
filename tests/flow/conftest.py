"""A project with two demonstration nodes: the small box plans, the big box implements."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import parts
from fleet.nodes.demonstration import DemonstrationNode, Mind, Reply


@dataclass
class Boxes:
    small: DemonstrationNode
    big: DemonstrationNode
    port: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fleet_yaml(boxes: Boxes, extra_models: str = "", extra_nodes: str = "") -> str:
    return f"""\
project: {{name: two-boxes}}
gateway: {{port: {boxes.port}}}
nodes:
  small-box: {{endpoint: "{boxes.small.endpoint}"}}
  big-box: {{endpoint: "{boxes.big.endpoint}"}}
{extra_nodes}
models:
  small-coder: {{node: small-box, ollama_model: "demo:7b", litellm_alias: claude-haiku-local, context: 16384}}
  heavy-coder: {{node: big-box, ollama_model: "demo:32b", litellm_alias: claude-sonnet-local, context: 32768}}
{extra_models}
agents:
  planner:
    model: small-coder
    description: "Use for planning: \\"first\\", --- and 'always'.\\nmodel: opus"
    tools: [Read, Grep, Glob]
    prompt: PLANNER-INSTRUCTIONS. You plan.
  implementer:
    model: heavy-coder
    description: Use for writing code.
    tools: [Read, Write, Edit, Bash]
    prompt: IMPLEMENTER-INSTRUCTIONS. You write code.
"""


def direct_yaml(boxes: Boxes) -> str:
    """One node, no gateway."""
    return f"""
project: {{name: one}}
gateway: {{provider: direct}}
nodes: {{only: {{endpoint: "{boxes.small.endpoint}"}}}}
models: {{m: {{node: only, ollama_model: "demo:7b", litellm_alias: x}}}}
agents: {{planner: {{model: m, description: plans}}}}
"""


@pytest.fixture
def boxes(project: Path) -> Iterator[Callable[..., Boxes]]:
    """Start the two nodes with the given minds and write the project's fleet.yaml."""
    with ExitStack() as stack:

        def start(small: Mind | None = None, big: Mind | None = None, **more: Any) -> Boxes:
            small_node = DemonstrationNode(("demo:7b",), small or (lambda _: Reply("small speaking")))
            big_node = DemonstrationNode(("demo:32b",), big or (lambda _: Reply("big speaking")))
            made = Boxes(stack.enter_context(small_node), stack.enter_context(big_node), free_port())
            (project / "fleet.yaml").write_text(fleet_yaml(made, **more))
            return made

        yield start


@pytest.fixture
def agents_path() -> str:
    """The search path with the real agent CLIs on it."""
    return f"{parts.find('agents').bin}:{parts.find('node').bin}:{os.environ['PATH']}"

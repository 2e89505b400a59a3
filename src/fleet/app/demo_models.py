"""The main job end to end on two demonstration nodes, in a scratch directory: nothing is kept, nothing is installed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.app.files import generate
from fleet.app.models import FleetStatus, discover, status
from fleet.config import read
from fleet.core.fleet import Fleet
from fleet.generate.write import Step
from fleet.host.http import Http
from fleet.nodes import Survey
from fleet.nodes.demonstration import DemonstrationNode, Reply

FLEET = """
project: {{name: demonstration}}
nodes:
  small-box: {{endpoint: "{small}", tags: [demonstration]}}
  big-box: {{endpoint: "{big}", tags: [demonstration]}}
models:
  small-coder: {{node: small-box, ollama_model: "demo-coder:7b", litellm_alias: claude-haiku-local}}
  heavy-coder:
    {{node: big-box, ollama_model: "demo-coder:32b", litellm_alias: claude-sonnet-local, context: 32768, timeout: 600}}
agents:
  planner: {{model: small-coder, description: Use for planning., tools: [Read, Grep, Glob]}}
  implementer: {{model: heavy-coder, description: Use for writing code., tools: [Read, Edit, Bash]}}
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """One request along one route."""

    agent: str
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    nodes: list[Survey]
    files: tuple[Step, ...]
    status: FleetStatus
    answers: list[Answered]
    crossed: int


@contextmanager
def demonstration() -> Iterator[tuple[Fleet, Path, DemonstrationNode, DemonstrationNode]]:
    small = DemonstrationNode(("demo-coder:7b",), lambda _: Reply("small-box: a plan in three steps (scripted)"))
    big = DemonstrationNode(("demo-coder:32b",), lambda _: Reply("big-box: the code (scripted)"))
    with small, big, tempfile.TemporaryDirectory(prefix="fleet-demo-") as scratch:
        out = Path(scratch)
        text = FLEET.format(small=small.endpoint, big=big.endpoint)
        yield read(text, out / "fleet.yaml").fleet, out, small, big


def demo(say: Callable[[str, object], None]) -> Shown:
    """Run every step and tell each as it is done."""
    with demonstration() as (fleet, out, small, big):
        found = discover(fleet, out, timeout=5.0)
        say("discover", found)
        files = generate(fleet, out).steps
        say("generate", files)
        answers = [asyncio.run(ask(fleet, agent)) for agent in fleet.agents]
        say("request", answers)
        now = status(fleet, out, timeout=5.0)
        say("status", now)
        # Each node must have seen exactly the one request of its own agent.
        seen = [[body["model"] for body in node.asked("/api/chat")] for node in (small, big)]
        crossed = sum(found != [model.served] for found, model in zip(seen, fleet.models.values(), strict=True))
        return Shown(found, files, now, answers, crossed)


async def ask(fleet: Fleet, agent: str) -> Answered:
    """Send one request along an agent's route, straight to its node."""
    model = fleet.models[fleet.agents[agent].model]
    node = fleet.node_of(model)
    body = {
        "model": model.served,
        "messages": [{"role": "user", "content": "Say who you are."}],
        "options": {"num_ctx": model.context},
        "stream": False,
    }
    async with Http(30.0, tls=False) as http:
        answer = (await http.post(f"{node.endpoint}/api/chat", body)).json()
    return Answered(agent, node.name, str(answer["message"]["content"]))

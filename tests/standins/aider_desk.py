"""A desk for the real Aider: the desk of the other agents, and what Aider needs to find its model there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import parts
from standins.agent_desk import KEY, Desk, desk
from standins.agent_models import Answer, Mind, turns
from standins.model_server import Asked, Say

MODEL = "openai/local-coder"
FENCE = "```"
# What it would else look up, over the network, in a list of cloud models; the prices make its costs seen.
KNOWN = {
    "max_input_tokens": 65536, "max_output_tokens": 4096, "max_tokens": 4096, "input_cost_per_token": 0.000001,
    "output_cost_per_token": 0.000002, "litellm_provider": "openai", "mode": "chat",
}  # fmt: skip


def environment(where: Desk) -> dict[str, str]:
    """What the desk of the other agents does not have."""
    own = where.environment()
    return {
        "PATH": os.pathsep.join([str(parts.find("aider").bin), own["PATH"]]),
        "AIDER_OPENAI_API_KEY": KEY,
        "AIDER_OPENAI_API_BASE": f"{where.model.endpoint}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


@contextmanager
def aider_desk(directory: Path, mind: Mind) -> Iterator[Desk]:
    """The project is a repository with a name and an address of its own."""
    with desk(directory, mind) as where:
        (where.home / ".aider.model.metadata.json").write_text(json.dumps({MODEL: KNOWN}))
        repository(where.project)
        yield where


def repository(path: Path) -> None:
    path.mkdir(exist_ok=True)
    (path / "README.md").write_text("# Empty\n")
    for args in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "owner"),
        ("config", "user.email", "owner@fleet.invalid"),
        ("add", "README.md"),
        ("commit", "--quiet", "-m", "begin"),
    ):
        env = {"PATH": os.defpath, "HOME": str(path)}
        subprocess.run(["git", "-C", str(path), *args], env=env, capture_output=True, check=True)


def edits(name: str, text: str) -> Mind:
    """Answer with a whole file, as Aider asks for it; and with a subject when it wants to commit."""

    def mind(asked: Asked) -> Answer:
        if is_about_a_commit(asked):
            return Say(f"feat: add {name}")
        return Say(f"It is made.\n\n{name}\n{FENCE}\n{text}\n{FENCE}\n")

    return mind


def is_about_a_commit(asked: Asked) -> bool:
    return "Git commit messages" in json.dumps(turns(asked)[:1])

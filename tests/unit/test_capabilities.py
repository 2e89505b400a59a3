"""What models can do: what is kept, what a node's silence leaves, and whom a model without tools concerns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.app.capabilities import PATH, Capabilities, combine, find_toolless, keep, recall
from fleet.config import read
from fleet.host.http import Cause
from fleet.nodes import ServedModel, State, Survey

FLEET = read(
    """
project: {name: p}
nodes:
  box: {endpoint: "http://10.0.0.7:11434"}
  twin: {endpoint: "http://10.0.0.8:11434"}
models:
  small: {node: box, ollama_model: "small:7b", litellm_alias: quick}
  other: {node: twin, ollama_model: "small:7b", litellm_alias: quick}
  heavy: {node: box, ollama_model: "heavy", litellm_alias: claude-sonnet-local}
agents: {planner: {model: small, description: d}}
""",
    Path("f"),
).fleet
ABLE, POOR = ServedModel("able:7b", tools=True), ServedModel("small:7b", tools=False, thinking=False, context=8192)
HEAVY = ServedModel("heavy:latest", tools=False)
NOW = Survey("box", "ollama", "http://10.0.0.7:11434", (), State.ONLINE, models=(POOR,))


@pytest.mark.parametrize(
    ("known", "targets", "found"),
    [
        ({}, [], []),
        ({"box": (POOR, ABLE)}, [], [("planner", "small", ("able:7b",))]),
        ({"box": (POOR, ABLE)}, ["claude", "aider"], [("planner", "small", ("able:7b",))]),
        ({"box": (POOR, ABLE)}, ["aider"], []),  # it edits by what a model says
        ({"twin": (POOR,)}, [], [("planner", "other", ())]),  # it may get the request
        ({"box": (HEAVY,)}, ["codex"], [("the main conversation", "heavy", ())]),
        ({"box": (replace(POOR, tools=None),)}, [], []),  # an old Ollama, or another kind of server
    ],
)
def test_a_model_without_tools_is_found_for_whoever_may_get_it(
    known: Capabilities, targets: list[str], found: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    assert [(one.agent, one.model.name, one.others) for one in find_toolless(FLEET, known, targets)] == found


def test_a_silent_node_and_a_model_that_was_not_described_are_as_they_were() -> None:
    before = {"box": (POOR, ABLE), "twin": (POOR,)}
    silent = replace(NOW, state=State.OFFLINE, cause=Cause.TIMED_OUT, models=None)
    assert combine(before, [silent]) == before
    listed = combine(before, [replace(NOW, models=(ServedModel("small:7b", bytes=5),))])
    assert listed == {"box": (replace(POOR, bytes=5),), "twin": (POOR,)}
    assert combine(before, [replace(NOW, models=(replace(POOR, tools=True),))])["box"][0].tools is True


def test_what_was_kept_comes_back_unless_the_node_is_another_now(tmp_path: Path) -> None:
    keep(FLEET, tmp_path, {"box": (POOR, ABLE)})
    assert recall(FLEET, tmp_path) == {"box": (POOR, ABLE)}
    moved = replace(FLEET, nodes={**FLEET.nodes, "box": replace(FLEET.nodes["box"], endpoint="http://10.0.0.9:11434")})
    assert recall(moved, tmp_path) == {}
    facts = {"tools": "no", "thinking": 1, "vision": None, "context": True}
    said = {"nodes": {"box": {"endpoint": "http://10.0.0.7:11434", "models": {"small:7b": facts}}}}
    (tmp_path / PATH).write_text(json.dumps(said))
    assert recall(FLEET, tmp_path) == {"box": (ServedModel("small:7b"),)}


@pytest.mark.parametrize(
    "content", ["", "no json", "[]", '{"nodes": 5}', '{"nodes": {"box": {}}}', '{"nodes": {"box": []}}']
)
def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / PATH).parent.mkdir()
    (tmp_path / PATH).write_text(content)
    assert recall(FLEET, tmp_path) == {}

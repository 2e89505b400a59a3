"""Generated text: what it says, and that no name in fleet.yaml can make it say anything else."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.config import InvalidFleet, read
from fleet.core.fleet import Fleet, Kind, Provider
from fleet.generate import claude, env, litellm

FLEET = read(
    """
project: {name: p}
nodes:
  big: {endpoint: http://b:11434}
  small: {endpoint: http://s:11434}
models:
  h: {node: big, ollama_model: "coder:32b", litellm_alias: claude-sonnet-local, context: 32768, timeout: 600}
  s: {node: small, ollama_model: "coder:7b", litellm_alias: claude-haiku-local}
agents:
  planner: {model: s, description: plans, tools: [Read, Grep]}
  implementer: {model: h, description: writes}
""",
    Path("fleet.yaml"),
).fleet

any_text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
nasty = st.one_of(
    any_text,
    st.sampled_from(
        ["---", "a\n---\nb", "x: y", '"', "'", "$(touch x)", "`id`", "# c", "a\nmodel: opus", "{{x}}", "null", "- a",
         "a: b\npermissionMode: bypass", "\u2028---", "%s", "!!python/none", "&a *a", "yes", "1e3", "\ttab",
         "'; rm -rf /;'"]
    ),
)  # fmt: skip


def config(fleet: Fleet) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(litellm.render(fleet)[0].content)
    return loaded


def front(content: bytes) -> dict[str, Any]:
    assert content.startswith(b"---\n"), "Claude Code reads front matter at byte 0 only"
    head = content.decode().removeprefix("---\n").split("---", 1)[0]  # where Claude Code ends it
    loaded: dict[str, Any] = yaml.safe_load(head)
    return loaded


def test_the_key_stands_where_litellm_reads_it() -> None:
    assert config(FLEET)["general_settings"]["master_key"] == "os.environ/LITELLM_MASTER_KEY"
    assert "master_key" not in config(FLEET)["litellm_settings"]


def test_ollama_gets_its_window_and_stays_loaded() -> None:
    params = config(FLEET)["model_list"][0]["litellm_params"]
    assert params["model"] == "ollama_chat/coder:32b"
    assert (params["num_ctx"], params["keep_alive"], params["timeout"]) == (32768, -1, 600)
    assert params["api_base"] == "http://b:11434"
    assert params["extra_body"] == {"truncate": False, "shift": False}


@pytest.mark.parametrize(("context", "most"), [(8192, 6307), (16384, 12615), (32768, 25231), (131072, 100925)])
def test_a_prompt_may_be_as_long_as_leaves_room_for_an_answer(context: int, most: int) -> None:
    heavy = replace(FLEET.models["h"], context=context)
    made = config(replace(FLEET, models={**FLEET.models, "h": heavy}))
    assert made["router_settings"]["enable_pre_call_checks"] is True
    limits = {entry["litellm_params"]["model"]: entry["model_info"]["max_input_tokens"] for entry in made["model_list"]}
    assert limits["ollama_chat/coder:32b"] == most
    exported = claude.exports(replace(FLEET, models={**FLEET.models, "h": heavy}))
    assert exported["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(context)
    assert exported["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == str(context // 8)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.OPENROUTER, Kind.ANTHROPIC)])
def test_no_model_of_ones_own_is_asked_to_think_that_may_not_be_able_to(kind: Kind) -> None:
    nodes = {**FLEET.nodes, "big": replace(FLEET.nodes["big"], kind=kind)}
    params = config(replace(FLEET, nodes=nodes))["model_list"][0]["litellm_params"]
    assert params["additional_drop_params"] == ["reasoning_effort"]


def test_settings_that_do_harm_are_not_written() -> None:
    text = litellm.render(FLEET)[0].content.decode()
    assert not re.search(r"\b(rpm|tpm|max_parallel_requests)\b", text)
    assert config(FLEET)["general_settings"]["background_health_checks"] is False


def test_every_other_claude_name_stays_at_home() -> None:
    last = config(FLEET)["model_list"][-1]
    assert (last["model_name"], last["litellm_params"]["model"]) == ("claude-*", "ollama_chat/coder:32b")


@pytest.mark.parametrize(
    ("kind", "model", "base"),
    [
        (Kind.VLLM, "hosted_vllm/coder:32b", "http://b:11434/v1"),
        (Kind.LLAMACPP, "hosted_vllm/coder:32b", "http://b:11434/v1"),
        (Kind.OPENAI, "hosted_vllm/coder:32b", "http://b:11434/v1"),
        (Kind.LMSTUDIO, "lm_studio/coder:32b", "http://b:11434/v1"),
        (Kind.OPENROUTER, "openrouter/coder:32b", "http://b:11434/v1"),
        (Kind.ANTHROPIC, "anthropic/coder:32b", "http://b:11434"),
    ],
)
def test_every_kind_has_its_prefix_and_its_address(kind: Kind, model: str, base: str) -> None:
    node = replace(FLEET.nodes["big"], kind=kind, api_key_env="BIG_KEY")
    params = config(replace(FLEET, nodes={**FLEET.nodes, "big": node}))["model_list"][0]["litellm_params"]
    assert (params["model"], params["api_base"], params["api_key"]) == (model, base, "os.environ/BIG_KEY")
    assert "num_ctx" not in params


def test_a_shared_alias_can_be_served_by_each_of_its_nodes_alone() -> None:
    second = replace(FLEET.models["h"], name="h2", node="small")
    made = config(replace(FLEET, models={**FLEET.models, "h2": second}))
    (fallback,) = made["router_settings"]["fallbacks"]
    served = {entry["model_name"] for entry in made["model_list"]}
    assert set(fallback["claude-sonnet-local"]) <= served
    assert len(fallback["claude-sonnet-local"]) == 2


def test_an_agent_file_is_what_claude_code_reads() -> None:
    file = claude.render(FLEET)[0]
    assert file.path == ".claude/agents/planner.md"
    expected = {"name": "planner", "description": "plans", "model": "claude-haiku-local", "tools": "Read, Grep"}
    assert front(file.content) == expected


def test_nothing_overrules_the_model_of_a_subagent() -> None:
    assert claude.exports(FLEET)["CLAUDE_CODE_SUBAGENT_MODEL"] is None


def test_opus_sonnet_and_haiku_all_stay_at_home() -> None:
    exports = claude.exports(FLEET)
    chosen = {exports[f"ANTHROPIC_DEFAULT_{size}_MODEL"] for size in ("OPUS", "SONNET", "HAIKU")}
    assert chosen == {"claude-sonnet-local", "claude-haiku-local"}


@given(description=nasty, prompt=nasty, alias=nasty, served=nasty)
def test_no_text_adds_a_key_or_becomes_another(description: str, prompt: str, alias: str, served: str) -> None:
    document = {
        "project": {"name": "p"},
        "nodes": {"n": {"endpoint": "http://n:1"}},
        "models": {"m": {"node": "n", "ollama_model": served, "litellm_alias": alias}},
        "agents": {"a": {"model": "m", "description": description, "prompt": prompt}},
    }
    try:
        fleet = read(yaml.safe_dump(document, allow_unicode=False), Path("f")).fleet
    except InvalidFleet:
        return
    head = front(claude.render(fleet)[0].content)
    assert head == {"name": "a", "description": description.strip(), "model": alias}
    made = config(fleet)
    assert set(made) == {"model_list", "litellm_settings", "general_settings", "router_settings"}
    assert made["model_list"][0]["model_name"] == alias
    assert made["model_list"][0]["litellm_params"]["model"] == f"ollama_chat/{served}"
    (file,) = env.render(fleet, "sk-key", claude.exports(fleet), claude.KEY_VARIABLES)
    words = shlex.split(file.content.decode(), comments=True)
    assert f"ANTHROPIC_DEFAULT_SONNET_MODEL={alias}" in words


@given(name=st.one_of(any_text, st.from_regex(r"[a-z./_-]{1,80}", fullmatch=True)))
def test_no_name_leaves_the_directory(name: str) -> None:
    document = {
        "project": {"name": "p"},
        "nodes": {"n": {"endpoint": "http://n:1"}},
        "models": {"m": {"node": "n", "ollama_model": "x", "litellm_alias": "y"}},
        "agents": {name: {"model": "m", "description": "d"}},
    }
    try:
        fleet = read(yaml.safe_dump(document), Path("f")).fleet
    except InvalidFleet:
        return
    assert Path(claude.render(fleet)[0].path).parent == Path(".claude/agents")


def test_in_direct_mode_agents_ask_the_node_for_its_own_names() -> None:
    gateway = replace(FLEET.gateway, provider=Provider.DIRECT)
    direct = replace(FLEET, gateway=gateway, agents={"planner": FLEET.agents["planner"]})
    assert front(claude.render(direct)[0].content)["model"] == "coder:7b"
    (file,) = env.render(direct, "", claude.exports(direct), claude.KEY_VARIABLES)
    assert "ANTHROPIC_BASE_URL=http://s:11434" in file.content.decode()
    assert "LITELLM_MASTER_KEY" not in file.content.decode()

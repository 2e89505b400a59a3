"""What Codex, OpenCode and Aider are given: read back with each format's own parser, whatever the names are."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.fleet import Agent, Fleet, Gateway, Kind, Model, Node, Provider
from fleet.generate import aider, codex, opencode
from fleet.generate.base import NOTICE, File
from fleet.generate.targets import Target

TARGETS: list[Target] = [codex, opencode, aider]
NASTY = [
    "a: b",
    'it\'s "quoted"',
    "first\nsecond: x\n---\nmode: primary",
    '"""\n[model_providers.evil]\nbase_url = "http://evil"',
    "]\n[x",
    "{env:HOME} {file:/etc/passwd}",
    '"apiKey": "{env:HOME}"',
    "back\\slash \\u007b \\n",
    "# not a comment",
    "{{ jinja }} ${HOME} $(id) `id`",
    "émoji \N{ROCKET} \u2028 \x85 end",
    "- list",
    "no",
    "*anchor &alias !tag",
    "trailing \\",
    'ends in """',
    "/* */ // x",
]

text = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip),
    st.lists(st.sampled_from([*NASTY, "\n", " ", '"', "'", "\\", "{env:", "}", "---\n"]), min_size=1).map("".join),
).filter(str.strip)
line = text.map(lambda said: " ".join(said.split())).filter(bool)


def a_fleet(
    *,
    served: str = "qwen3:8b",
    alias: str = "local-coder",
    description: str = "Writes code.",
    prompt: str = "Write code.\n",
    tools: tuple[str, ...] = (),
    provider: Provider = Provider.LITELLM,
    api_key_env: str | None = None,
) -> Fleet:
    return Fleet(
        project="demo",
        gateway=Gateway(provider, "127.0.0.1", 4000, "FLEET_KEY"),
        nodes={
            "desk": Node("desk", Kind.OLLAMA, "http://10.0.0.5:11434", api_key_env=api_key_env),
            "far": Node("far", Kind.VLLM, "http://10.0.0.6:8000"),
        },
        models={
            "small": Model("small", "desk", "qwen3:1b", "local-planner", 8192, 60, 1),
            "main": Model("main", "desk", served, alias, 32768, 60, 1),
            "huge": Model("huge", "far", "qwen3:235b", "local-huge", 131072, 60, 1),
        },
        agents={
            "planner": Agent("planner", "small", "Plans.", ("Read", "Grep"), "Plan.\n"),
            "implementer": Agent("implementer", "main", description, tools, prompt),
        },
    )


def files(target: Target, fleet: Fleet) -> dict[str, bytes]:
    return {file.path: file.content for file in target.render(fleet)}


def toml(target: Target, fleet: Fleet, path: str) -> dict[str, Any]:
    return tomllib.loads(files(target, fleet)[path].decode())


def jsonc(content: bytes) -> dict[str, Any]:
    """The file as OpenCode reads it: without its first line, which is the comment."""
    comment, _, body = content.decode().partition("\n")
    assert comment == f"// {NOTICE}"
    parsed: dict[str, Any] = json.loads(body)
    return parsed


def front_matter(content: bytes) -> tuple[dict[str, Any], str]:
    """Fields and body as a front matter reader splits them: at lines that are exactly three hyphens."""
    opening, fields, body = re.split(r"^---\n", content.decode(), maxsplit=2, flags=re.MULTILINE)
    assert opening == ""
    return yaml.safe_load(fields), body


def config(fleet: Fleet) -> dict[str, Any]:
    return jsonc(files(opencode, fleet)[opencode.CONFIG])


def role(fleet: Fleet, name: str = "implementer") -> tuple[dict[str, Any], str]:
    return front_matter(files(opencode, fleet)[f".opencode/agents/{name}.md"])


# Codex


def test_codex_gets_a_profile_with_the_gateway_as_its_provider() -> None:
    assert toml(codex, a_fleet(), ".codex/fleet.config.toml") == {
        "model": "local-coder",
        "model_context_window": 32768,
        "model_provider": "fleet",
        "web_search": "disabled",
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "features": {"plugins": False},
        "model_providers": {
            "fleet": {
                "name": "fleet",
                "base_url": "http://127.0.0.1:4000/v1",
                "wire_api": "responses",
                "env_key": "FLEET_KEY",
                "env_http_headers": {"x-fleet-attempt": "FLEET_ATTEMPT"},
            }
        },
    }


def test_codex_gets_each_role_as_a_custom_agent() -> None:
    assert toml(codex, a_fleet(), ".codex/agents/planner.toml") == {
        "name": "planner",
        "description": "Plans.",
        "model": "local-planner",
        "model_context_window": 8192,
        "developer_instructions": "Plan.\n",
    }


def test_a_long_prompt_stays_readable_in_toml() -> None:
    content = files(codex, a_fleet(prompt="One.\nTwo.\n"))[".codex/agents/implementer.toml"].decode()
    assert "One.\nTwo.\n" in content


@given(alias=line, description=text, prompt=text)
def test_no_text_gets_out_of_its_place_in_codex(alias: str, description: str, prompt: str) -> None:
    fleet = a_fleet(alias=alias, description=description, prompt=prompt)
    assert toml(codex, fleet, ".codex/fleet.config.toml") == toml(codex, a_fleet(), ".codex/fleet.config.toml") | {
        "model": alias
    }
    assert toml(codex, fleet, ".codex/agents/implementer.toml") == {
        "name": "implementer",
        "description": description,
        "model": alias,
        "model_context_window": 32768,
        "developer_instructions": prompt,
    }


@pytest.mark.parametrize("prompt", ["one\r\ntwo", "\rone\n", "bell \x07\nnul \x00 del \x7f\n", "\n\nlate start"])
def test_a_prompt_with_control_characters_reaches_codex_as_it_is(prompt: str) -> None:
    assert toml(codex, a_fleet(prompt=prompt), ".codex/agents/implementer.toml")["developer_instructions"] == prompt


# OpenCode


def test_opencode_gets_the_gateway_as_a_provider_and_the_aliases_as_models() -> None:
    said = config(a_fleet())
    assert said["model"] == "fleet/local-coder"
    assert said["small_model"] == "fleet/local-planner"
    assert said["provider"] == {
        "fleet": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "fleet",
            "options": {
                "baseURL": "http://127.0.0.1:4000/v1",
                "apiKey": "{env:FLEET_KEY}",
                "headers": {"x-fleet-attempt": "{env:FLEET_ATTEMPT}"},
            },
            "models": {
                "local-planner": {"name": "local-planner", "limit": {"context": 8192, "output": 2048}},
                "local-coder": {"name": "local-coder", "limit": {"context": 32768, "output": 8192}},
                "local-huge": {"name": "local-huge", "limit": {"context": 131072, "output": 8192}},
            },
        }
    }


def test_an_editor_finds_the_schema_of_opencode_s_file() -> None:
    assert next(iter(config(a_fleet()))) == "$schema"


def test_the_references_to_the_key_and_the_attempt_are_the_only_ones_opencode_sees() -> None:
    header = '"x-fleet-attempt": "{env:HOME}"'
    for secret in ("{env:HOME}", "{file:/etc/passwd}", '"apiKey": "{env:HOME}"', '\\"apiKey": "{env:HOME}"', header):
        content = files(opencode, a_fleet(alias=secret))[opencode.CONFIG].decode()
        assert re.findall(r"\{(?:env|file):[^}]+\}", content) == ["{env:FLEET_KEY}", "{env:FLEET_ATTEMPT}"]
        assert secret in jsonc(content.encode())["provider"]["fleet"]["models"]


@given(alias=line, description=text, prompt=text)
def test_no_text_gets_out_of_its_place_in_opencode(alias: str, description: str, prompt: str) -> None:
    fleet = a_fleet(alias=alias, description=description, prompt=prompt)
    plain, said = config(a_fleet()), config(fleet)
    assert said["model"] == f"fleet/{alias}"
    assert set(said["provider"]["fleet"]["models"]) == {"local-planner", alias, "local-huge"}
    assert said["provider"]["fleet"]["options"] == plain["provider"]["fleet"]["options"]
    assert said["permission"] == plain["permission"]
    content = files(opencode, fleet)[opencode.CONFIG].decode()
    assert re.findall(r"\{(?:env|file):[^}]+\}", content) == ["{env:FLEET_KEY}", "{env:FLEET_ATTEMPT}"]
    fields, body = role(fleet)
    assert fields == {
        "description": description.strip(),
        "mode": "subagent",
        "model": f"fleet/{alias}",
        "permission": opencode.permission(()),
    }
    assert body.strip() == prompt.strip()


ALLOWED_TO_READ = {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"}


@pytest.mark.parametrize(
    ("tools", "granted"),
    [
        (("Read",), {"read": ALLOWED_TO_READ}),
        (("Read", "Grep", "Glob", "LS"), {"read": ALLOWED_TO_READ, "grep": "allow", "glob": "allow", "list": "allow"}),
        (("Write",), {"edit": "allow"}),
        (("Edit", "MultiEdit", "NotebookEdit"), {"edit": "allow"}),
        (("Bash",), {"bash": "allow"}),
        (("WebFetch", "WebSearch"), {"webfetch": "allow", "websearch": "allow"}),
        (("Task", "Agent", "Skill", "TodoWrite"), {"task": "allow", "skill": "allow", "todowrite": "allow"}),
        (("Bash(git log:*)", "mcp__db__query", "edit", "*", "unheard-of"), {}),
    ],
)
def test_a_role_may_do_what_its_tools_say_and_nothing_else(tools: tuple[str, ...], granted: dict[str, object]) -> None:
    assert opencode.permission(tools) == {"*": "deny", "invalid": "allow"} | granted
    assert next(iter(opencode.permission(tools))) == "*"  # the last line that matches counts, so the rule comes first


@pytest.mark.parametrize("tools", [(), ("Read",), ("Bash", "Edit"), ("unheard-of",)])
def test_nothing_ever_waits_for_a_person(tools: tuple[str, ...]) -> None:
    said = [opencode.permission(tools), config(a_fleet())["permission"]]
    assert "ask" not in json.dumps(said)


def test_a_role_without_tools_gets_the_cli_s_own_and_is_still_never_asked() -> None:
    said = opencode.permission(())
    assert said["*"] == "allow"
    assert {said[name] for name in ("doom_loop", "external_directory", "question")} == {"deny"}
    assert said["read"] == ALLOWED_TO_READ


# Aider


def test_aider_gets_a_model_for_each_of_its_jobs() -> None:
    assert yaml.safe_load(files(aider, a_fleet())[".aider.conf.yml"]) == {
        "model": "openai/local-coder",
        "weak-model": "openai/local-planner",
        "editor-model": "openai/local-coder",
        "openai-api-base": "http://127.0.0.1:4000/v1",
        "analytics": False,
        "check-update": False,
    }


def test_aider_is_told_how_much_each_model_holds() -> None:
    known = json.loads(files(aider, a_fleet())[".aider.model.metadata.json"])
    assert {name: limits["max_input_tokens"] for name, limits in known.items()} == {
        "openai/local-planner": 8192,
        "openai/local-coder": 32768,
        "openai/local-huge": 131072,
    }


@given(alias=line)
def test_no_text_gets_out_of_its_place_in_aider(alias: str) -> None:
    said = files(aider, a_fleet(alias=alias))
    plain = yaml.safe_load(files(aider, a_fleet())[aider.CONFIG])
    names = {"model": f"openai/{alias}", "editor-model": f"openai/{alias}"}
    assert yaml.safe_load(said[aider.CONFIG]) == plain | names
    assert set(json.loads(said[aider.METADATA])) == {"openai/local-planner", f"openai/{alias}", "openai/local-huge"}


# All of them


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_says_where_its_files_come_from_and_keeps_no_secret(target: Target) -> None:
    rendered = target.render(a_fleet())
    assert all(isinstance(file, File) and not file.private for file in rendered)
    assert all(NOTICE.encode() in file.content for file in rendered if file.path != aider.METADATA)
    assert len({file.path for file in rendered}) == len(rendered)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_fleet_gives_the_same_files(target: Target) -> None:
    assert target.render(a_fleet()) == target.render(a_fleet())


def test_only_aider_needs_the_key_under_a_name_of_its_own() -> None:
    assert [target.KEY_VARIABLES for target in TARGETS] == [(), (), ("AIDER_OPENAI_API_KEY",)]
    assert [target.exports(a_fleet()) for target in TARGETS] == [
        {},
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ]


def test_models_that_share_an_alias_are_as_large_as_the_smallest() -> None:
    fleet = a_fleet()
    shared = replace(fleet, models={**fleet.models, "huge": replace(fleet.models["huge"], alias="local-coder")})
    small = replace(shared, models={**shared.models, "huge": replace(shared.models["huge"], context=4096)})
    assert toml(codex, shared, codex.PROFILE)["model_context_window"] == 32768
    assert toml(codex, small, codex.PROFILE)["model_context_window"] == 4096
    assert config(small)["provider"]["fleet"]["models"]["local-coder"]["limit"] == {"context": 4096, "output": 1024}


# Direct mode: no gateway, the node itself


def test_without_a_gateway_every_cli_talks_to_the_node_in_its_own_words() -> None:
    fleet = a_fleet(provider=Provider.DIRECT)
    profile = toml(codex, fleet, codex.PROFILE)
    assert profile["model"] == "qwen3:8b"
    assert profile["model_providers"]["fleet"]["base_url"] == "http://10.0.0.5:11434/v1"
    assert toml(codex, fleet, ".codex/agents/planner.toml")["model"] == "qwen3:1b"
    assert config(fleet)["model"] == "fleet/qwen3:8b"
    assert config(fleet)["provider"]["fleet"]["options"] == {"baseURL": "http://10.0.0.5:11434/v1"}
    assert role(fleet, "planner")[0]["model"] == "fleet/qwen3:1b"
    settings = yaml.safe_load(files(aider, fleet)[aider.CONFIG])
    assert (settings["model"], settings["openai-api-base"]) == ("openai/qwen3:8b", "http://10.0.0.5:11434/v1")


def test_without_a_gateway_models_of_other_nodes_are_not_offered() -> None:
    fleet = a_fleet(provider=Provider.DIRECT)
    assert set(config(fleet)["provider"]["fleet"]["models"]) == {"qwen3:1b", "qwen3:8b"}
    assert set(json.loads(files(aider, fleet)[aider.METADATA])) == {"openai/qwen3:1b", "openai/qwen3:8b"}


def test_without_a_gateway_and_a_known_role_the_default_model_is_one_the_node_has() -> None:
    fleet = a_fleet(provider=Provider.DIRECT)
    nameless = replace(fleet, agents={"odd": replace(fleet.agents["planner"], name="odd")})
    assert toml(codex, nameless, codex.PROFILE)["model"] == "qwen3:8b"


def test_without_a_gateway_the_key_is_the_node_s_own_or_none() -> None:
    keyless = toml(codex, a_fleet(provider=Provider.DIRECT), codex.PROFILE)
    assert "env_key" not in keyless["model_providers"]["fleet"]
    keyed = a_fleet(provider=Provider.DIRECT, api_key_env="DESK_KEY")
    assert toml(codex, keyed, codex.PROFILE)["model_providers"]["fleet"]["env_key"] == "DESK_KEY"
    assert config(keyed)["provider"]["fleet"]["options"]["apiKey"] == "{env:DESK_KEY}"

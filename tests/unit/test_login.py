"""Which login an agent is given: a table of settings, environments and homes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.config.runtime_schema import AccountSettings, CoderSettings
from fleet.supervisor.login import Passed, passed_on

KEY, TOKEN, BASE = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"
MODEL = "ANTHROPIC_DEFAULT_SONNET_MODEL"
OWN_KEY = {KEY: "sk-x"}
GATEWAY = {TOKEN: "sk-of-the-gateway", BASE: "http://127.0.0.1:4000", MODEL: "claude-sonnet-local"}


@pytest.mark.parametrize(
    ("coder", "outer", "names"),
    [
        ("claude", OWN_KEY, {KEY}),
        ("claude", {"CLAUDE_CODE_OAUTH_TOKEN": "x"}, {"CLAUDE_CODE_OAUTH_TOKEN"}),
        ("claude", GATEWAY, {TOKEN, BASE, MODEL}),
        ("claude", {BASE: "http://127.0.0.1:4000", MODEL: "x"}, set()),
        ("claude", {KEY: "", "OPENAI_API_KEY": "x", "GH_TOKEN": "x"}, set()),
        ("codex", {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "y", KEY: "z"}, {"OPENAI_API_KEY", "OPENAI_BASE_URL"}),
        ("gemini", {"GEMINI_API_KEY": "x", KEY: "z"}, {"GEMINI_API_KEY"}),
        ("opencode", {"OPENAI_API_KEY": "x", BASE: "y"}, {"OPENAI_API_KEY"}),
        ("mine", OWN_KEY, set()),
    ],
)  # fmt: skip
def test_each_coder_is_given_its_own_login_and_the_address_it_is_good_for(
    coder: str, outer: dict[str, str], names: set[str], tmp_path: Path
) -> None:
    found = passed_on(coder, None, outer | {"HOME": str(tmp_path)}, {})
    assert set(found.names) == names
    assert bool(found.note) == bool(names)
    assert not any(value in f"{found.note}{found.change}" for value in outer.values() if value.startswith("sk-"))


def test_what_is_given_is_said_and_can_be_switched_off(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    found = passed_on("claude", None, OWN_KEY | home, {})
    assert (found.note, found.change, found.asked_about) == (
        "claude is given ANTHROPIC_API_KEY", "fleet config set coders.claude.pass_login=false", KEY
    )  # fmt: skip
    assert passed_on("claude", None, GATEWAY | home, {}).note == f"claude is given {TOKEN} and {BASE}"
    assert passed_on("claude", CoderSettings(pass_login=False), OWN_KEY | home, {}) == Passed()


@pytest.mark.parametrize(
    ("part", "given", "account"),
    [
        (None, {BASE: "http://elsewhere"}, None),  # a project's, perhaps: no key is sent there
        (None, {TOKEN: "another"}, None),
        (CoderSettings(pass_env=(TOKEN,)), {}, None),
        (None, {}, AccountSettings(coder="claude", env={"CLAUDE_CONFIG_DIR": "~/.claude-work"})),
    ],
)
def test_nothing_is_given_beside_a_login_that_was_chosen(
    part: CoderSettings | None, given: dict[str, str], account: AccountSettings | None, tmp_path: Path
) -> None:
    found = passed_on("claude", part, OWN_KEY | {"HOME": str(tmp_path)}, given, account)
    assert KEY not in found.names
    assert found.note == ""


@pytest.mark.parametrize(
    ("coder", "file", "holds", "is_login"),
    [
        ("claude", ".claude/.credentials.json", {"claudeAiOauth": {}}, True),
        ("claude", ".claude/.credentials.json", {"mcpOAuth": {}}, False),
        ("claude", ".claude.json", {"oauthAccount": {"x": 1}}, True),
        ("claude", ".claude.json", {"hasCompletedOnboarding": True}, False),
        ("claude", ".claude/settings.json", {"apiKeyHelper": "x"}, True),
        ("claude", ".claude/settings.json", [1], False),
        ("qwen", ".qwen/settings.json", {"security": {"auth": {"apiKey": "x"}}}, True),
        ("qwen", ".qwen/settings.json", {"security": "x"}, False),
        ("codex", ".codex/auth.json", {}, False),
        ("codex", ".codex/auth.json", {"tokens": {}}, True),
    ],
)
def test_who_is_logged_in_by_himself_is_given_no_key(
    coder: str, file: str, holds: object, is_login: bool, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(holds))
    key = KEY if coder == "claude" else "OPENAI_API_KEY"
    found = passed_on(coder, None, {key: "sk-x", "HOME": str(tmp_path)}, {})
    if is_login:
        assert found.note == f"{coder} uses its own login ({path}) and is not given {key}"
        assert found.change == f"fleet config set 'coders.{coder}.pass_env=[\"{key}\"]'"
    assert (key in found.names) is not is_login


def test_a_login_is_found_where_its_directory_was_moved_to(tmp_path: Path) -> None:
    (tmp_path / ".credentials.json").write_text('{"claudeAiOauth": {}}')
    found = passed_on("claude", None, OWN_KEY | {"HOME": "/nowhere"}, {"CLAUDE_CONFIG_DIR": str(tmp_path)})
    assert str(tmp_path) in found.note
    assert found.names == ()


def test_a_name_that_is_not_set_is_said() -> None:
    found = passed_on("mine", CoderSettings(argv=("mine",), pass_env=("MY_KEY", "PATH")), {"PATH": "/bin"}, {})
    assert found.warnings == ("mine: pass_env names MY_KEY, which is not set here",)

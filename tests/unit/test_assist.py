"""What assist decides: names, paths, manifests and refusals. Nothing here touches a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.assist.base import Skill, Target
from fleet.assist.bundle import SKILLS, USUAL, parse
from fleet.assist.install import Found, State, refuse
from fleet.assist.marketplace import TARGETS, commands, plugin_files
from fleet.assist.plan import chosen_skills, chosen_targets, skill_files
from fleet.core import BadConfig, FleetError

ALL = tuple(Target)
ONE = Skill("one", "Does one thing.", b"---\nname: one\n---\n")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), ALL),
        (("codex",), (Target.CODEX,)),
        (("opencode", "claude-code"), (Target.CLAUDE_CODE, Target.OPENCODE)),
        (("codex, claude-code",), (Target.CLAUDE_CODE, Target.CODEX)),
        (("codex", "codex,codex"), (Target.CODEX,)),
    ],
)
def test_targets_come_in_our_order_each_once(wanted: tuple[str, ...], expected: tuple[Target, ...]) -> None:
    assert chosen_targets(wanted, ALL) == expected


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("codx", "did you mean codex?"),
        ("claude", "did you mean claude-code?"),
        ("zzz", "the targets are claude-code, codex, opencode"),
        ("", "the targets are claude-code, codex, opencode"),
        ("codex,", "the targets are claude-code, codex, opencode"),
    ],
)
def test_an_unknown_target_is_answered_with_the_nearest(wanted: str, hint: str) -> None:
    with pytest.raises(BadConfig, match="there is no target") as refused:
        chosen_targets([wanted], ALL)
    assert refused.value.hint == hint


def test_opencode_has_no_plugin_marketplace() -> None:
    with pytest.raises(BadConfig, match="there is no target 'opencode'"):
        chosen_targets(["opencode"], TARGETS)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), USUAL),
        (("subagent-fleet-bootstrap",), ("subagent-fleet-bootstrap",)),
        ((",".join(reversed(SKILLS)),), SKILLS),
    ],
)
def test_skills_come_in_our_order(wanted: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert chosen_skills(wanted) == expected


@pytest.mark.parametrize(("wanted", "near"), [("setup", SKILLS[1]), ("subagent-fleet-operation", SKILLS[2])])
def test_an_unknown_skill_is_answered_with_the_nearest(wanted: str, near: str) -> None:
    with pytest.raises(BadConfig) as refused:
        chosen_skills([wanted])
    assert refused.value.hint == f"did you mean {near}?"


def test_each_target_has_its_own_directory() -> None:
    assert [file.path for file in skill_files(ALL, [ONE])] == [
        ".claude/skills/one/SKILL.md",
        ".codex/skills/one/SKILL.md",
        ".opencode/skills/one/SKILL.md",
    ]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target.CLAUDE_CODE, [".claude-plugin/marketplace.json", "plugins/subagent-fleet/.claude-plugin/plugin.json"]),
        (Target.CODEX, [".agents/plugins/marketplace.json", "plugins/subagent-fleet/.codex-plugin/plugin.json"]),
    ],
)
def test_a_bundle_holds_one_targets_manifests_and_the_skills(target: Target, expected: list[str]) -> None:
    paths = [file.path for file in plugin_files([target], [ONE], "1.2.3")]
    assert paths == [*expected, "plugins/subagent-fleet/skills/one/SKILL.md"]


@pytest.mark.parametrize("target", TARGETS)
def test_catalog_and_manifest_name_the_same_plugin(target: Target) -> None:
    catalog, manifest, _ = (file.content for file in plugin_files([target], [ONE], "1.2.3"))
    entry = json.loads(catalog)["plugins"][0]
    assert json.loads(manifest)["version"] == "1.2.3"
    assert entry["name"] == json.loads(manifest)["name"] == json.loads(catalog)["name"] == "subagent-fleet"


def test_a_path_with_a_space_is_quoted_in_the_next_command() -> None:
    assert commands(Target.CODEX, Path("/a b")) == (
        "codex plugin marketplace add '/a b'",
        "codex plugin add subagent-fleet@subagent-fleet",
    )


@pytest.mark.parametrize(
    ("state", "force", "refused"),
    [
        (State.ABSENT, False, False),
        (State.SAME, False, False),
        (State.DIFFERS, False, True),
        (State.DIFFERS, True, False),
        (State.BLOCKED, False, True),
        (State.BLOCKED, True, True),
    ],
)
def test_force_replaces_files_but_never_what_is_in_the_way(state: State, force: bool, refused: bool) -> None:
    found = [Found("fine", State.ABSENT), Found("a/b", state, "because")]
    if not refused:
        refuse(Path("out"), found, force=force)
        return
    with pytest.raises(FleetError, match="out/a/b: because") as raised:
        refuse(Path("out"), found, force=force)
    assert "fine" not in raised.value.message


def test_one_refusal_names_every_file() -> None:
    found = [Found(name, State.DIFFERS, "exists and differs") for name in ("a", "b", "c")]
    with pytest.raises(FleetError) as raised:
        refuse(Path(), found, force=False)
    assert [name for name in "abc" if f"  {name}: exists and differs" in raised.value.message] == ["a", "b", "c"]
    assert raised.value.hint is not None
    assert "--force" in raised.value.hint


def test_front_matter_is_read_from_the_first_byte_only() -> None:
    text = b"---\nname: x\ndescription: Does x.\n---\n\nA rule:\n---\nmore\n"
    assert parse(text) == Skill("x", "Does x.", text)
    with pytest.raises(ValueError, match="first byte"):
        parse(b"<!-- made by fleet -->\n" + text)

"""Skills and plugins, through the real program; the bundles are judged by the real agent CLIs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parts
from fleet.cli import WHERE

SETUP, OPERATIONS, BOOTSTRAP = "subagent-fleet-setup", "subagent-fleet-operations", "subagent-fleet-bootstrap"
PLUGIN = "subagent-fleet@subagent-fleet"
ROOT = Path(__file__).resolve().parents[2]
Run = subprocess.CompletedProcess[str]
Agent = Callable[..., Run]


def fleet(cwd: Path, *args: str) -> Run:
    argv = [sys.executable, "-m", "fleet", *args]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def data(ran: Run) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def agent(tmp_path: Path, project: Path) -> Agent:
    """Runs an agent CLI in the project with a home of its own, no credentials, and no model to talk to."""
    home = tmp_path / "home"
    for name in ("claude", "codex"):
        (home / name).mkdir(parents=True)
    path = [str(parts.find("agents").bin), str(parts.find("node").bin), os.environ["PATH"]]
    quiet = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
             "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE")  # fmt: skip
    env = {
        **dict.fromkeys(quiet, "1"),
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }

    def run(*argv: str, check: bool = True, cwd: Path = project) -> Run:
        ran = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        assert ran.returncode == 0 or not check, ran.stdout + ran.stderr
        return ran

    return run


def claude_sees(agent: Agent) -> set[str]:
    """The skills of a Claude Code session; its first event lists them before any model is asked."""
    ran = agent("claude", "-p", "hello", "--output-format", "stream-json", "--verbose", check=False)
    first = json.loads(ran.stdout.splitlines()[0])
    return {name for name in first["skills"] if "fleet" in name}


def codex_sees(agent: Agent) -> str:
    """What Codex would tell its model."""
    return agent("codex", "debug", "prompt-input", "hello").stdout


# Skills


def test_skills_go_where_each_assistant_looks(project: Path) -> None:
    ran = fleet(project, "skills", "install")
    assert ran.returncode == 0, ran.stderr
    homes = (".claude", ".codex", ".opencode")
    assert set(tree(project)) == {f"{home}/skills/{name}/SKILL.md" for home in homes for name in (SETUP, OPERATIONS)}


def test_list_says_what_is_there(project: Path) -> None:
    fleet(project, "skills", "install", "--target", "codex")
    (project / ".codex/skills" / SETUP / "SKILL.md").write_text("mine")
    answer = data(fleet(project, "skills", "list", "--json"))
    states = {(place["target"], place["skill"]): place["state"] for place in answer["places"]}
    assert len(states) == 9
    assert states["codex", SETUP] == "differs"
    assert states["codex", OPERATIONS] == "same"
    assert states["claude-code", SETUP] == "absent"
    assert {skill["name"]: skill["usual"] for skill in answer["skills"]} == {
        BOOTSTRAP: False,
        SETUP: True,
        OPERATIONS: True,
    }


def test_list_for_people_shows_path_and_state(project: Path) -> None:
    ran = fleet(project, "skills", "list")
    assert ran.returncode == 0, ran.stderr
    assert re.search(rf"{SETUP} +opencode +absent +\.opencode/skills/{SETUP}/SKILL\.md", ran.stdout)


def test_one_skill_for_two_targets_somewhere_else(project: Path) -> None:
    where = ("--out", "new/place", "--target", "opencode,codex", "--skill", BOOTSTRAP)
    answer = data(fleet(project, "skills", "install", *where, "--json"))
    assert [(file["path"], file["result"]) for file in answer["files"]] == [
        (f".codex/skills/{BOOTSTRAP}/SKILL.md", "written"),
        (f".opencode/skills/{BOOTSTRAP}/SKILL.md", "written"),
    ]
    assert set(tree(project)) == {f"new/place/{file['path']}" for file in answer["files"]}


def test_a_second_install_changes_nothing(project: Path) -> None:
    fleet(project, "skills", "install")
    before = {path: os.stat(project / path).st_mtime_ns for path in tree(project)}
    answer = data(fleet(project, "skills", "install", "--json"))
    assert {file["result"] for file in answer["files"]} == {"same"}
    assert before == {path: os.stat(project / path).st_mtime_ns for path in tree(project)}


def test_differing_files_are_all_named_and_nothing_is_written(project: Path) -> None:
    mine = [project / f".claude/skills/{name}/SKILL.md" for name in (SETUP, OPERATIONS)]
    for path in mine:
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    before = tree(project)
    ran = fleet(project, "skills", "install")
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert all(str(path.relative_to(project)) in ran.stderr for path in mine)
    assert "--force" in ran.stderr
    assert tree(project) == before


def test_force_replaces_what_differs(project: Path) -> None:
    path = project / f".claude/skills/{SETUP}/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    answer = data(fleet(project, "skills", "install", "--force", "--json"))
    assert [file["result"] for file in answer["files"]].count("replaced") == 1
    assert path.read_bytes().startswith(b"---\nname: ")


def test_a_link_is_replaced_by_force_and_its_target_left_alone(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    path = project / f".claude/skills/{SETUP}/SKILL.md"
    path.parent.mkdir(parents=True)
    path.symlink_to(other)
    assert fleet(project, "skills", "install").returncode == 1
    assert path.is_symlink()
    assert fleet(project, "skills", "install", "--force").returncode == 0
    assert not path.is_symlink()
    assert other.read_text() == "theirs"


def test_a_directory_that_leads_outside_is_refused_even_by_force(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".codex").symlink_to(outside)
    ran = fleet(project, "skills", "install", "--force")
    assert ran.returncode == 1
    assert "leads outside" in ran.stderr
    assert not list(outside.iterdir())
    assert not (project / ".claude").exists()


def test_a_directory_link_inside_the_project_is_followed(project: Path) -> None:
    (project / "shared").mkdir()
    (project / ".codex").symlink_to("shared")
    assert fleet(project, "skills", "install", "--target", "codex").returncode == 0
    assert (project / f"shared/skills/{SETUP}/SKILL.md").is_file()


@pytest.mark.parametrize("kind", ["file as parent", "directory as file", "dangling link as parent", "link to itself"])
def test_what_is_in_the_way_is_named_and_nothing_is_written(project: Path, kind: str) -> None:
    last = project / ".opencode"  # the last one written: the others must not be there either
    match kind:
        case "file as parent":
            last.write_text("mine")
        case "directory as file":
            (last / f"skills/{SETUP}/SKILL.md").mkdir(parents=True)
        case "dangling link as parent":
            last.symlink_to("nowhere")
        case _:
            last.symlink_to(".opencode")
    ran = fleet(project, "skills", "install", "--force")
    assert ran.returncode == 1
    assert f".opencode/skills/{SETUP}/SKILL.md: " in ran.stderr
    assert [path.name for path in project.iterdir()] == [".opencode"]
    places = data(fleet(project, "skills", "list", "--json"))["places"]
    assert [place["state"] for place in places if place["target"] == "opencode" and place["skill"] == SETUP] == [
        "blocked"
    ]


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (("skills", "install", "--target", "claud-code"), "claude-code"),
        (("skills", "install", "--skill", "setup"), SETUP),
        (("plugins", "install", "--target", "opencode"), "codex"),
    ],
)
def test_an_unknown_name_is_bad_usage(project: Path, args: tuple[str, ...], near: str) -> None:
    ran = fleet(project, *args)
    assert ran.returncode == 2
    assert near in ran.stderr
    assert not tree(project)


def test_skills_speak_of_commands_that_exist(project: Path) -> None:
    fleet(project, "skills", "install", "--target", "codex", "--skill", f"{SETUP},{OPERATIONS},{BOOTSTRAP}")
    said = {word for text in tree(project).values() for word in re.findall(r"`fleet ([a-z]+)", text.decode())}
    assert {"init", "generate", "doctor", "gateway", "skills"} <= said <= set(WHERE)


def test_skills_of_one_name_are_the_same_everywhere(project: Path) -> None:
    fleet(project, "skills", "install")
    fleet(project, "plugins", "install")
    texts = {content for path, content in tree(project).items() if path.endswith(f"{SETUP}/SKILL.md")}
    assert len(texts) == 1


# Plugins


def test_plugins_write_the_whole_bundle(project: Path) -> None:
    ran = fleet(project, "plugins", "install")
    assert ran.returncode == 0, ran.stderr
    plugin = "plugins/subagent-fleet"
    assert set(tree(project)) == {
        ".claude-plugin/marketplace.json",
        ".agents/plugins/marketplace.json",
        f"{plugin}/.claude-plugin/plugin.json",
        f"{plugin}/.codex-plugin/plugin.json",
        *(f"{plugin}/skills/{name}/SKILL.md" for name in (BOOTSTRAP, SETUP, OPERATIONS)),
    }
    assert f"claude plugin marketplace add {project}" in ran.stderr
    assert tree(project) == {path: (ROOT / path).read_bytes() for path in tree(project)}, "run: make docs"


def test_a_bundle_of_ones_own_is_not_overwritten(project: Path) -> None:
    catalog = project / ".claude-plugin/marketplace.json"
    catalog.parent.mkdir()
    catalog.write_text("{}")
    ran = fleet(project, "plugins", "install")
    assert ran.returncode == 1
    assert ".claude-plugin/marketplace.json: exists and differs" in ran.stderr
    assert tree(project) == {".claude-plugin/marketplace.json": b"{}"}
    assert fleet(project, "plugins", "install", "--force").returncode == 0
    assert json.loads(catalog.read_text())["name"] == "subagent-fleet"


# The real assistants


@pytest.mark.agents
def test_claude_code_sees_installed_skills(project: Path, agent: Agent) -> None:
    assert claude_sees(agent) == set()
    fleet(project, "skills", "install", "--target", "claude-code")
    agent("claude", "plugin", "validate", "--strict", ".claude")
    assert claude_sees(agent) == {SETUP, OPERATIONS}


@pytest.mark.agents
def test_codex_sees_installed_skills(project: Path, agent: Agent) -> None:
    assert SETUP not in codex_sees(agent)
    fleet(project, "skills", "install", "--target", "codex")
    seen = codex_sees(agent)
    assert SETUP in seen
    assert OPERATIONS in seen


@pytest.mark.agents
def test_opencode_sees_installed_skills(project: Path, agent: Agent) -> None:
    fleet(project, "skills", "install", "--target", "opencode")
    skills = json.loads(agent("opencode", "debug", "skill").stdout)
    where = {skill["name"]: skill["location"] for skill in skills if "fleet" in skill["name"]}
    assert where == {name: str(project / f".opencode/skills/{name}/SKILL.md") for name in (SETUP, OPERATIONS)}


@pytest.mark.agents
def test_claude_code_validates_and_installs_the_plugin(project: Path, agent: Agent) -> None:
    fleet(project, "plugins", "install", "--target", "claude-code")
    agent("claude", "plugin", "validate", "--strict", ".")
    agent("claude", "plugin", "validate", "--strict", "plugins/subagent-fleet")
    agent("claude", "plugin", "marketplace", "add", "./")
    agent("claude", "plugin", "install", PLUGIN)
    installed = json.loads(agent("claude", "plugin", "list", "--json").stdout)
    assert [(plugin["id"], plugin["enabled"]) for plugin in installed] == [(PLUGIN, True)]
    assert claude_sees(agent) == {f"subagent-fleet:{name}" for name in (BOOTSTRAP, SETUP, OPERATIONS)}


@pytest.mark.agents
def test_codex_installs_the_plugin(project: Path, agent: Agent) -> None:
    fleet(project, "plugins", "install", "--target", "codex")
    agent("codex", "plugin", "marketplace", "add", ".")
    agent("codex", "plugin", "add", PLUGIN)
    installed = json.loads(agent("codex", "plugin", "list", "--json").stdout)["installed"]
    assert [(plugin["pluginId"], plugin["enabled"]) for plugin in installed] == [(PLUGIN, True)]
    seen = codex_sees(agent)
    assert all(f"subagent-fleet:{name}" in seen for name in (BOOTSTRAP, SETUP, OPERATIONS))


@pytest.mark.agents
def test_the_repository_is_a_marketplace_and_its_bootstrap_skill_finds_the_program_there(
    agent: Agent, tmp_path: Path
) -> None:
    skills = {f"subagent-fleet:{name}" for name in (BOOTSTRAP, SETUP, OPERATIONS)}
    agent("claude", "plugin", "marketplace", "add", str(ROOT))
    agent("claude", "plugin", "install", "subagent-fleet")
    assert claude_sees(agent) == skills
    agent("codex", "plugin", "marketplace", "add", ".", cwd=ROOT)
    agent("codex", "plugin", "add", PLUGIN)
    assert all(name in codex_sees(agent) for name in skills)

    (found,) = json.loads(agent("claude", "plugin", "marketplace", "list", "--json").stdout)
    assert agent("codex", "plugin", "marketplace", "list").stdout.split()[-1] == found["installLocation"]
    assert 'name = "fleet-agents"' in (Path(found["installLocation"]) / "pyproject.toml").read_text()
    target = str(tmp_path / "it")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target]
    subprocess.run([*pip, found["installLocation"]], check=True, timeout=120)
    argv = [sys.executable, "-m", "fleet", "--version"]
    env = {**os.environ, "PYTHONPATH": target}
    said = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert target in said

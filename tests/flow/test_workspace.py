"""A project's workspace, through the program: how init writes it, how config shows it, from anywhere in the project."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Run


@pytest.fixture
def repository(project: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    return project


def workspace(project: Path) -> Any:
    return yaml.safe_load((project / "fleet.yaml").read_text()).get("workspace")


def put(project: Path, **files: str) -> None:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


RAILS = {"Gemfile": "", "package.json": "{}", "yarn.lock": "", "config/database.yml": "", "config/master.key": "k"}
KINDS = [
    (
        RAILS,
        {
            "credential_files": ["config/master.key"],
            "setup": ["bundle install", "yarn install --frozen-lockfile", "bundle exec rails db:create db:migrate"],
            "env": {"PORT": "{port}"},
        },
        "rails",
    ),
    (
        {"package.json": '{"scripts": {"build": "x"}}', "package-lock.json": "{}", ".env.local": ""},
        {"credential_files": [".env.local"], "setup": ["npm ci", "npm run build"], "env": {"PORT": "{port}"}},
        "node",
    ),
    (
        {"pyproject.toml": "", "uv.lock": "", "manage.py": "", "secrets.json": "{}"},
        {"credential_files": ["secrets.json"], "setup": ["uv sync", "uv run python manage.py migrate"]},
        "python",
    ),
    (
        {"requirements.txt": ""},
        {
            "setup": [
                "python3 -m venv .venv && echo '*' > .venv/.gitignore && .venv/bin/pip install -r requirements.txt"
            ]
        },
        "python",
    ),
    ({"go.mod": ""}, {"setup": ["go mod download"]}, "go"),
    ({"Cargo.toml": ""}, {"setup": ["cargo fetch"]}, "rust"),
    ({"package.json": "not json"}, {"setup": ["npm install"], "env": {"PORT": "{port}"}}, "node"),
]


@pytest.mark.parametrize(("files", "wanted", "kind"), KINDS, ids=lambda value: value if isinstance(value, str) else "")
def test_init_sees_what_kind_of_project_it_is(
    run: Run, project: Path, files: dict[str, str], wanted: dict[str, Any], kind: str
) -> None:
    put(project, **files)
    told = run("init", "--json").json()
    assert (told["type"], told["workspace"]) == (kind, wanted)
    assert workspace(project) == wanted
    assert run("validate").code == 0


def test_init_believes_what_it_is_told_and_writes_nothing_about_places_when_it_knows_nothing(
    run: Run, project: Path
) -> None:
    assert run("init").code == 0
    assert workspace(project) is None
    put(project, Gemfile="")
    ran = run("init", "--force", "--type", "go")
    assert workspace(project) == {"setup": ["go mod download"]}
    assert "look at the commands" in ran.err
    run("init", "--force", "--type", "python")
    assert workspace(project) is None, "an empty environment helps nobody"


def test_a_credential_file_in_git_is_not_listed(run: Run, repository: Path) -> None:
    put(repository, **{"go.mod": "", ".env": "public"})
    subprocess.run(["git", "-C", str(repository), "add", ".env"], check=True)
    run("init")
    assert workspace(repository) == {"setup": ["go mod download"]}


FLAT = """\
repo_root = "~/code/elsewhere"
worktree_root = "~/.ai_fleet/worktrees"
tmux_prefix = "ai_"
default_agent = "codecs"
claude_flags = "--dangerously-skip-permissions --append 'two words'"
credential_files = ["config/master.key", "../x"]
setup_commands = ["bundle install"]
quick_setup = true
theme = "dark"
"""
SECTIONS = """\
[project]
name = "my-awesome-project"
worktree_root = "~/.aifleet/worktrees/my-awesome-project"

[agent]
default = "claude"
claude_flags = "--permission-mode plan"

[setup]
credential_files = [".env"]
commands = ["npm install", "npm run build"]
"""


def test_settings_of_ai_fleet_are_taken_over_and_stay_as_they_are(run: Run, project: Path, tmp_path: Path) -> None:
    old = tmp_path / "home" / ".ai_fleet" / "config.toml"
    old.parent.mkdir()
    old.write_text(FLAT)
    ran = run("init", "--migrate-legacy")
    assert (ran.code, "repo_root is ~/code/elsewhere, another repository" in ran.err) == (3, True), ran.err
    assert not (project / "fleet.yaml").exists()
    flat = FLAT.replace("~/code/elsewhere", str(project))
    old.write_text(flat)
    ran = run("init", "--migrate-legacy")
    assert ran.code == 0, ran.err
    assert workspace(project) == {
        "worktree_root": "~/.ai_fleet/worktrees",
        "tmux_prefix": "ai_",
        "agent": "codex",
        "flags": {"claude": ["--dangerously-skip-permissions", "--append", "two words"]},
        "credential_files": ["config/master.key"],
        "setup": ["bundle install"],
        "quick": True,
    }
    for left in ("'../x' must be a path inside the project", "theme is not known"):
        assert left in ran.err
    assert old.read_text() == flat
    put(project, **{".aifleet/config.toml": SECTIONS})
    assert run("init", "--migrate-legacy", "--force").code == 0
    assert workspace(project) == {
        "worktree_root": "~/.aifleet/worktrees/my-awesome-project",
        "tmux_prefix": "ai_",
        "agent": "claude",
        "flags": {"claude": ["--permission-mode", "plan"]},
        "credential_files": [".env"],
        "setup": ["npm install", "npm run build"],
        "quick": True,
    }
    assert yaml.safe_load((project / "fleet.yaml").read_text())["project"]["name"] == "my-awesome-project"
    assert (project / ".aifleet/config.toml").read_text() == SECTIONS


def test_of_a_global_file_for_another_repository_nothing_is_taken(run: Run, project: Path, tmp_path: Path) -> None:
    old = tmp_path / "home" / ".ai_fleet" / "config.toml"
    old.parent.mkdir()
    old.write_text(FLAT)
    put(project, **{".aifleet/config.toml": '[agent]\ndefault = "claude"\n'})
    told = run("init", "--migrate-legacy", "--json").json()
    assert workspace(project) == {"agent": "claude"}
    assert [why.partition(": ")[2] for why in told["left_out"]] == [
        "repo_root is ~/code/elsewhere, another repository, so nothing of it is for this one"
    ]


def test_settings_of_ai_fleet_are_never_ignored_in_silence(run: Run, project: Path) -> None:
    put(project, **{".aifleet/config.toml": SECTIONS})
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "below").mkdir()
    named = f"settings of ai-fleet are in {project}/.aifleet/config.toml, and "
    remedy = "fleet init --migrate-legacy"
    for words in (["create", "fix", "-a", "nobody"], ["config"], ["multi", "a:b", "-a", "nobody"]):
        for where in (project, project / "below"):
            ran = run(*words, cwd=where)
            assert f"{named}nothing reads it; take it over with: {remedy}" in ran.err, words
    found = [check for check in run("doctor", "--json").json() if check["name"] == "unread"]
    assert [(check["health"], check["remedy"]) for check in found] == [("note", remedy)]
    ran = run("init")
    assert (ran.code, f"{named}fleet.yaml does not say all of it" in ran.err) == (0, True), ran.err
    (project / "fleet.yaml").unlink()
    assert "ai-fleet are in" not in run("init", "--migrate-legacy").err
    assert "ai-fleet" not in run("config").err, "taken over"


def test_a_queue_of_beads_from_before_is_named(run: Run, project: Path, clean_env: dict[str, str]) -> None:
    home = Path(clean_env["FLEET_HOME"])
    (home / ".beads").mkdir(parents=True)
    (home / "runtime.toml").write_text("max_concurrent = 10\ncontext_pressure_threshold_pct = 90\n")
    ran = run("init", "--home-only")
    assert "is a queue of beads, and nothing reads it" in ran.err
    assert "fleet init --home-only --tracker beads" in ran.err
    run("config", "set", "tracker=local")
    assert "beads" not in run("init", "--home-only").err, "who chose the other tracker knows"


def test_a_fleet_yaml_that_is_there_is_kept_and_what_to_add_is_said(run: Run, project: Path) -> None:
    put(project, **{".aifleet/config.toml": SECTIONS, "fleet.yaml": "limits: {attempts: 2}\n"})
    ran = run("init", "--migrate-legacy")
    assert ran.code == 1
    assert (project / "fleet.yaml").read_text() == "limits: {attempts: 2}\n"
    to_add = ran.out[ran.out.index("workspace:") :]
    put(project, **{"fleet.yaml": f"limits: {{attempts: 2}}\n{to_add}"})
    assert run("validate").out == "fleet.yaml is valid, for tasks alone: it names no models.\n"
    assert run("init", "--migrate-legacy").code == 0
    told = run("init", "--migrate-legacy", "--json").json()
    assert (told["to_add"], told["left_out"]) == (None, [])


def test_an_old_file_that_is_broken_or_missing_is_said_and_nothing_is_made(run: Run, project: Path) -> None:
    ran = run("init", "--migrate-legacy")
    assert ran.code == 3
    assert ".ai_fleet/config.toml" in ran.err
    put(project, **{".aifleet/config.toml": "[agent]\ndefault = \n"})
    ran = run("init", "--migrate-legacy")
    assert ran.code == 2
    assert f"{project}/.aifleet/config.toml:2:11: not TOML" in ran.err
    assert not (project / "fleet.yaml").exists()


def test_every_command_finds_the_file_from_a_subdirectory(run: Run, repository: Path) -> None:
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    ran = run("init", "--models", cwd=below)
    assert "Created ../../fleet.yaml\n" in ran.out
    assert (repository / "fleet.yaml").is_file()
    assert "Kept ../../fleet.yaml" in run("init", cwd=below).out
    assert run("validate", cwd=below).out == "../../fleet.yaml is valid.\n"
    assert run("generate", cwd=below).code == 0
    assert not list(below.iterdir())
    assert run("status", "--json", cwd=below).json()["project"] == "project"
    assert run("generate", "--check", cwd=below).code == 0
    (below / "fleet.yaml").write_text("limits: {}\n")
    assert "for tasks alone" in run("validate", cwd=below).out


def test_config_shows_and_checks_both_files(run: Run, repository: Path, tmp_path: Path) -> None:
    below = repository / "src"
    below.mkdir()
    home = tmp_path / "home" / ".fleet"
    run("config", "set", "max_concurrent=7")
    put(repository, **{"fleet.yaml": "workspace:\n  agent: codex\n  env: {API_TOKEN: x, A: '{port}'}\n"})
    lines = [line.split("  #") for line in run("config", "--show-origin", cwd=below).out.splitlines()]
    shown = {line[0].strip(): line[1].strip() for line in lines}
    assert shown['workspace.agent = "codex"'] == "fleet.yaml:2"
    assert shown['workspace.env.A = "{port}"'] == "fleet.yaml:3"
    assert shown['workspace.env.API_TOKEN = "(not shown)"'] == "fleet.yaml:3"
    assert shown['workspace.place = "worktree"'] == "default"
    assert shown["max_concurrent = 7"].startswith("runtime.toml:")
    assert run("config", "show", "--origin", cwd=below).out == run("config", "--show-origin", cwd=below).out
    assert run("config", cwd=below).out == run("config", "show", cwd=below).out
    assert run("config", "--json").json()["workspace.agent"] == "codex"
    ran = run("config", "--validate", cwd=below)
    assert (ran.code, ran.out) == (0, f"{home}/runtime.toml is valid.\n{repository}/fleet.yaml is valid.\n")
    put(repository, **{"fleet.yaml": "workspace:\n  credential_files: [../x]\n  quick: perhaps\n"})
    (home / "runtime.toml").write_text("max_concurrent = -1\n")
    ran = run("config", "--validate", cwd=below)
    assert ran.code == 2
    assert f"{repository}/fleet.yaml:2:22: workspace.credential_files[0] must be a path inside the project" in ran.err
    assert "fleet.yaml:3:10: workspace.quick must be true or false" in ran.err
    assert "max_concurrent must be" in ran.err
    told = run("config", "--validate", "--json").json()
    assert [(one.get("file"), one["line"], one.get("column")) for one in told["problems"][1:]] == [
        (f"{repository}/fleet.yaml", 2, 22), (f"{repository}/fleet.yaml", 3, 10),
    ]  # fmt: skip


def test_config_edits_the_projects_file_and_keeps_it_when_the_edit_is_wrong(
    run: Run, repository: Path, tmp_path: Path
) -> None:
    assert run("config", "--edit").code == 3
    put(repository, **{"fleet.yaml": "workspace: {agent: codex}\n"})
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/codex/$NEW/ "$1"\n')
    editor.chmod(0o755)
    assert run("config", "--edit", env={"EDITOR": str(editor), "NEW": "claude"}).code == 0
    assert (repository / "fleet.yaml").read_text() == "workspace: {agent: claude}\n"
    editor.write_text('#!/bin/sh\nsed -i s/agent/angel/ "$1"\n')
    ran = run("config", "--edit", env={"EDITOR": str(editor)})
    assert ran.code == 2
    assert "workspace.angel is not a known key (did you mean agent?)" in ran.err
    assert (repository / "fleet.yaml").read_text() == "workspace: {agent: claude}\n"


def test_in_a_linked_worktree_the_settings_are_those_of_the_main_one(
    run: Run, repository: Path, tmp_path: Path
) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    put(repository, **{"fleet.yaml": "workspace: {agent: codex}\n"})
    put(tmp_path / "linked", **{"fleet.yaml": "workspace: {agent: planted}\n"})
    assert run("config", "--json", cwd=tmp_path / "linked").json()["workspace.agent"] == "codex"

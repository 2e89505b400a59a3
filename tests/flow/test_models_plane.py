"""The story of a user without any real part: init, validate, discover, generate, status, doctor, clean."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fleet
from conftest import Run
from fleet.generate.env import fingerprint
from flow.conftest import Boxes
from standins import bad_nodes
from standins.coders.scratch import Ran

Start = Callable[..., Boxes]
GENERATED = {
    "litellm_config.yaml",
    ".claude/agents/planner.md",
    ".claude/agents/implementer.md",
    ".env.subagent-fleet",
}


def files(project: Path) -> dict[str, bytes]:
    return {str(p.relative_to(project)): p.read_bytes() for p in sorted(project.rglob("*")) if p.is_file()}


def test_init_without_a_model_server_writes_a_clear_placeholder(run: Run, project: Path) -> None:
    ran = run("init", "--models")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "Created fleet.yaml"
    assert "fleet discover" in ran.err
    text = (project / "fleet.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=.subagent-fleet/fleet.schema.json\n")
    assert "PLACEHOLDER" in text
    assert (project / ".subagent-fleet/fleet.schema.json").is_file()
    assert run("validate").out == "fleet.yaml is valid.\n"


def test_init_without_a_model_server_names_no_models_and_says_how_to_begin_with_tasks(
    run: Run, project: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\noptional-dependencies = {test = ['pytest']}\n")
    ran = run("init", env={"PATH": f"{programs}:{clean_env['PATH']}"})
    assert ran.code == 0, ran.err
    text = (project / "fleet.yaml").read_text()
    assert not {"models:", "nodes:", "agents:", "gateway:"} & set(text.splitlines())
    assert ".venv/bin/pip install -e '.[test]'" in text
    assert "agents on this machine: codex" in ran.err
    assert "discover" not in ran.err
    steps = [line.strip() for line in ran.err.partition("then run:\n")[2].splitlines()]
    assert steps[:3] == [
        "fleet config set coder=codex", 'fleet add "what is to be done" --check "a command that shows it"', "fleet run",
    ]  # fmt: skip
    assert run("validate").out == "fleet.yaml is valid, for tasks alone: it names no models.\n"
    nobody = run("init", "--force").err
    assert "npm install -g @anthropic-ai/claude-code" in nobody


def test_init_never_overwrites_without_force(run: Run, project: Path) -> None:
    (project / "fleet.yaml").write_text("mine")
    ran = run("init")
    assert (ran.code, (project / "fleet.yaml").read_text()) == (0, "mine")
    assert "Kept fleet.yaml (as it was)\n" in ran.out
    assert run("init", "--force").code == 0
    assert (project / "fleet.yaml").read_text() != "mine"


def test_init_gives_the_small_model_to_the_planner(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    two.small.models = ("tiny:3b", "huge:70b", "middle:14b", "nomic-embed-text:137m")
    ran = run("init", "--force", "--json", env={"OLLAMA_HOST": two.small.endpoint.removeprefix("http://")})
    assert ran.code == 0, ran.err
    assert ran.json()["placeholder"] is False
    routes = {r["route"]["agent"]: r["route"]["served"] for r in run("status", "--json").json()["routes"]}
    assert routes == {
        "planner": "tiny:3b", "summarizer": "tiny:3b", "implementer": "huge:70b", "reviewer": "huge:70b",
    }  # fmt: skip


def test_the_programs_are_one(clean_env: dict[str, str], project: Path) -> None:
    for program in ("fleet", "flt", "subagent-fleet"):
        argv = [str(Path(sys.executable).parent / program), "--version"]
        out = subprocess.run(argv, env=clean_env, cwd=project, capture_output=True, text=True, check=True).stdout
        assert out.startswith("fleet, version ")


def test_help_loads_neither_engine_nor_server_nor_configuration(clean_env: dict[str, str], project: Path) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "fleet", "--help"]
    done = subprocess.run(argv, env=clean_env, cwd=project, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert not loaded & {"msgspec", "h11", "yaml", "litellm", "dbos", "asyncio", "tomlkit", "rich"}


def test_invalid_files_exit_2_and_write_nothing(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    text = (project / "fleet.yaml").read_text().replace("node: small-box", "node: small-bx")
    (project / "fleet.yaml").write_text(text)
    before = files(project)
    for command in (["validate"], ["generate"], ["discover", "--write"], ["status"], ["warmup"]):
        ran = run(*command)
        assert ran.code == 2, (command, ran)
        assert "Invalid fleet.yaml:" in ran.err
        assert "models.small-coder.node references unknown node: small-bx (did you mean small-box?)" in ran.err
        assert ran.out == ""
    problem = run("validate", "--json").json()["problems"][0]
    assert (problem["line"], problem["column"], problem["path"]) == (8, 23, ["models", "small-coder", "node"])
    assert files(project) == before


def test_a_missing_file_exits_3_and_names_the_next_command(run: Run) -> None:
    ran = run("validate")
    assert ran.code == 3
    assert "next: make one with: fleet init" in ran.err


def test_wrong_calls_exit_2(run: Run, boxes: Start) -> None:
    boxes()
    assert run("generat").code == 2
    assert "did you mean generate?" in run("generat").err
    assert run("generate", "--target", "cladue").code == 2
    assert run("generate", "--litellm-only", "--claude-only").code == 2
    assert run("warmup", "--model", "a", "--agent", "b").code == 2


def test_unknown_names_exit_3(run: Run, boxes: Start) -> None:
    boxes()
    ran = run("warmup", "--agent", "planer")
    assert ran.code == 3
    assert "did you mean planner?" in ran.err


@pytest.mark.parametrize("rest", ["project: {name: early}", "", "models:\nagents: {}\n"])
def test_nodes_can_be_discovered_before_any_model_is_named(run: Run, boxes: Start, project: Path, rest: str) -> None:
    box = boxes().small
    (project / "fleet.yaml").write_text(f"nodes: {{box: {{endpoint: '{box.endpoint}'}}}}\n{rest}\n")
    found = run("discover", "--json").json()
    assert found["project"] == ("early" if "early" in rest else project.name)
    assert [model["name"] for node in found["nodes"] for model in node["models"]] == ["demo:7b"]
    ran = run("status")
    assert (ran.code, "models is missing" in ran.err or "models must" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: {}", "nodes must name at least one"),
        ("project: {name: x}", "the file names no nodes"),
        ("limits: {attempts: 2}", "the file names no nodes"),
        ("nodes: {a: {endpoint: 'http://127.0.0.1:9', kind: ollamo}}", "did you mean ollama?"),
        ("nodes: {a: {endpoint: 'http://127.0.0.1:9'}}\nmodels: {m: {node: b}}", "references unknown node: b"),
    ],
)
def test_what_is_wrong_with_the_nodes_is_said_before_they_are_asked(
    run: Run, project: Path, text: str, problem: str
) -> None:
    (project / "fleet.yaml").write_text(text)
    ran = run("discover")
    assert (ran.code, problem in ran.err) == (2, True), ran.err


def test_discover_shows_dead_nodes_as_rows(run: Run, boxes: Start) -> None:
    boxes(extra_nodes='  dead: {endpoint: "http://127.0.0.1:9"}')
    ran = run("discover", "--verbose")
    assert ran.code == 0
    assert "small-box  online   demo:7b" in ran.out
    assert "dead       offline  refused: nothing listens there" in ran.out


def test_json_is_json_however_long_the_line(run: Run, boxes: Start) -> None:
    two = boxes()
    two.small.models = ("demo:7b", "x" * 190 + ":7b")
    assert run("discover", "--json").json()["nodes"][0]["models"][1]["name"] == "x" * 190 + ":7b"


def test_generate_writes_what_it_says(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    ran = run("generate", "--json")
    assert ran.code == 0, ran.err
    assert {step["path"]: step["change"] for step in ran.json()["files"]} == dict.fromkeys(GENERATED, "new")
    assert set(files(project)) >= GENERATED
    assert os.stat(project / ".env.subagent-fleet").st_mode & 0o777 == 0o600
    assert os.stat(project / ".subagent-fleet/master.key").st_mode & 0o777 == 0o600
    before = files(project)
    again = run("generate", "--json")
    assert {step["change"] for step in again.json()["files"]} == {"same"}
    assert files(project) == before, "the key is made once"


def test_the_key_is_never_printed(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    key = (project / ".subagent-fleet/master.key").read_text().strip()
    (project / ".env.subagent-fleet").write_text("export A=b\n")
    for command in (["generate", "--diff"], ["generate", "--check"], ["generate", "--force"], ["status"], ["doctor"]):
        ran = run(*command)
        assert key not in ran.out + ran.err, command


def test_edited_and_foreign_files_are_kept_and_nothing_else_is_written(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/planner.md").write_text("written by hand")
    before = files(project)
    ran = run("generate")
    assert ran.code == 1
    assert ".claude/agents/planner.md: foreign" in ran.err
    assert files(project) == before, "all or nothing"
    (project / "litellm_config.yaml").write_text("# Generated by subagent-fleet.\n")
    assert "litellm_config.yaml: written by subagent-fleet, which came before fleet" in run("generate").err
    assert run("generate", "--force").code == 0
    (project / "litellm_config.yaml").write_text("edited")
    ran = run("generate")
    assert (ran.code, "litellm_config.yaml: edited" in ran.err) == (1, True)
    assert (project / "litellm_config.yaml").read_text() == "edited"


def next_commands(ran: Ran) -> list[str]:
    return [line.strip() for line in ran.err.partition("\nNext:\n")[2].splitlines()]


def test_generated_elsewhere_the_paths_and_next_commands_work_from_here(
    run: Run, boxes: Start, project: Path, clean_env: dict[str, str]
) -> None:
    boxes()
    ran = run("generate", "--config", "project/fleet.yaml", cwd=project.parent)
    assert {line.split()[-1] for line in ran.out.splitlines()[1:]} == {f"project/{name}" for name in GENERATED}
    assert next_commands(ran) == ["cd project", "fleet gateway up", "source .env.subagent-fleet", "claude"]
    out = run("generate", "--config", "project/fleet.yaml", "--out", "an other", cwd=project.parent)
    script = "\n".join(next_commands(out)[:-1]).replace("fleet gateway up", "! fleet gateway status --json")
    argv = ["bash", "-ec", f'{script}\nprintf %s "$LITELLM_MASTER_KEY"']
    done = subprocess.run(argv, cwd=project.parent, env=clean_env, capture_output=True, text=True, check=True)
    assert '"running": false' in done.stdout
    assert done.stdout.endswith((project.parent / "an other/.subagent-fleet/master.key").read_text().strip())
    (project / "litellm_config.yaml").write_text("edited")
    blocked = run("generate", "-c", "project/fleet.yaml", cwd=project.parent)
    assert "  project/litellm_config.yaml: edited" in blocked.err
    assert "replace them with: fleet generate --config project/fleet.yaml --force" in blocked.err
    (project / "below").mkdir()
    assert next_commands(run("generate", "--force", cwd=project / "below"))[:2] == ["cd ..", "fleet gateway up"]


@pytest.mark.parametrize("only", ["--claude-only", "--litellm-only"])
def test_no_file_that_is_not_there_is_named_as_the_next(run: Run, boxes: Start, only: str) -> None:
    boxes()
    ran = run("generate", only)
    assert ran.code == 0, ran.err
    assert "source" not in ran.err
    assert "ready" not in ran.err
    assert ("fleet gateway up" in next_commands(ran)) == (only == "--litellm-only")
    assert "fleet generate" in ran.err


def test_what_holds_a_key_is_kept_out_of_git_at_once(run: Run, boxes: Start, project: Path) -> None:
    """By info/exclude, which is never committed: in a directory of the repository, too."""
    boxes()
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert run("generate").code == 0
    assert run("generate", "--out", "below/here").code == 0
    subprocess.run([*git, "add", "-A"], check=True)
    added = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True).stdout.split()
    assert {"fleet.yaml", "litellm_config.yaml", "below/here/litellm_config.yaml"} <= set(added)
    assert [path for path in added if ".env" in path or path.startswith(".subagent-fleet")] == []
    (project / ".env.subagent-fleet").unlink()
    (project / ".env.subagent-fleet").write_text("export LITELLM_MASTER_KEY=sk-local-dev\n")
    subprocess.run([*git, "add", "-f", ".env.subagent-fleet"], check=True)
    ran = run("generate", "--force")
    assert (ran.code, "next: git rm --cached .env.subagent-fleet" in ran.err) == (1, True), ran.err
    assert "sk-local-dev" in (project / ".env.subagent-fleet").read_text()


def test_a_link_is_not_written_through(run: Run, boxes: Start, project: Path, tmp_path: Path) -> None:
    boxes()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (project / "litellm_config.yaml").symlink_to(outside / "precious")
    (project / ".claude").symlink_to(outside)
    ran = run("generate")
    assert ran.code == 1
    assert "foreign" in ran.err
    forced = run("generate", "--force")
    assert (forced.code, "leads through a link" in forced.err) == (1, True)
    assert run("generate", "--litellm-only", "--force").code == 0
    assert (outside / "precious").read_text() == "precious"
    assert not (project / "litellm_config.yaml").is_symlink()
    assert sorted(p.name for p in outside.iterdir()) == ["precious"]


def test_check_and_diff_tell_without_writing(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    before = files(project)
    assert run("generate", "--check").code == 1
    assert run("generate", "--diff").code == 0
    assert files(project) == before
    run("generate")
    assert run("generate", "--check").code == 0
    text = (project / "fleet.yaml").read_text().replace("context: 16384", "context: 4096")
    (project / "fleet.yaml").write_text(text)
    checked = run("generate", "--check")
    assert checked.code == 1
    assert "changed  litellm_config.yaml" in checked.out
    both = run("generate", "--check", "--diff")
    assert both.code == 1
    diff = both.out
    assert "-    num_ctx: 16384\n" in diff
    assert "+    num_ctx: 4096\n" in diff


def test_check_in_a_fresh_clone_does_not_miss_what_is_private(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    for private in (".env.subagent-fleet", ".subagent-fleet/master.key", ".subagent-fleet/manifest.json"):
        (project / private).unlink()
    assert run("generate", "--check").code == 0
    (project / "litellm_config.yaml").write_text("stale")
    assert run("generate", "--check").code == 1


def test_a_role_that_is_gone_takes_its_file_along_unless_it_was_edited(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("  planner:", "  planner2:"))
    changes = {step["path"]: step["change"] for step in run("generate", "--json").json()["files"]}
    assert changes[".claude/agents/planner.md"] == "obsolete"
    assert not (project / ".claude/agents/planner.md").exists()
    (project / ".claude/agents/planner2.md").write_text("edited")
    (project / "fleet.yaml").write_text(text)
    assert run("generate").code == 0
    assert (project / ".claude/agents/planner2.md").read_text() == "edited"


def test_sourcing_the_environment_executes_nothing(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    text = (project / "fleet.yaml").read_text()
    evil = "$(touch owned) `touch owned` '; touch owned; '"
    (project / "fleet.yaml").write_text(text.replace("claude-haiku-local", json.dumps(evil)))
    assert run("generate").code == 0
    script = (
        '. ./.env.subagent-fleet; printf %s "$ANTHROPIC_DEFAULT_HAIKU_MODEL"; printf %s "${ANTHROPIC_API_KEY-unset}"'
    )
    for shell in ("sh", "bash"):
        argv = [shell, "-c", script]
        env = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "left over"}
        out = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=True).stdout
        assert out == evil + "unset"
    assert not (project / "owned").exists()


def test_clean_removes_only_what_is_ours_and_unedited(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/mine.md").write_text("mine")
    run("generate")
    (project / ".claude/agents/planner.md").write_text("edited")
    listed = run("clean")
    assert "would remove litellm_config.yaml" in listed.out
    assert "kept .claude/agents/planner.md: edited" in listed.out
    assert (project / "litellm_config.yaml").exists(), "listing removes nothing"
    assert run("clean", "--yes").code == 0
    left = set(files(project))
    assert {".claude/agents/mine.md", ".claude/agents/planner.md", "fleet.yaml"} <= left
    assert ".subagent-fleet/master.key" in left, "the key stays while a file of ours does"
    assert not GENERATED - {".claude/agents/planner.md"} & left
    (project / ".claude/agents/planner.md").unlink()
    (project / ".subagent-fleet/..env.subagent-fleet.2aec095b").write_text("left by a generate that was killed")
    run("clean", "--yes")
    assert set(files(project)) == {".claude/agents/mine.md", "fleet.yaml"}


def test_warmup_uses_the_gateways_context_and_reports_each_model(run: Run, boxes: Start) -> None:
    two = boxes(extra_models='  gone: {node: big-box, ollama_model: "absent:1b", litellm_alias: other}')
    ran = run("warmup")
    assert ran.code == 1
    assert "not warm: gone" in ran.err
    assert two.small.asked("/api/chat")[0]["options"] == {"num_ctx": 16384}
    assert [body["model"] for body in two.big.asked("/api/chat")] == ["demo:32b", "absent:1b"], "in order on a node"
    assert run("warmup", "--agent", "planner").code == 0
    assert len(two.small.asked("/api/chat")) == 2


def test_status_says_what_is_loaded_and_whether_it_is_served(run: Run, boxes: Start) -> None:
    boxes()
    run("warmup")
    ran = run("status")
    assert ran.code == 0
    assert "small-box  demo:7b   1.0 GB  16384    never" in ran.out
    assert "planner -> small-box -> demo:7b -> claude-haiku-local  served: no (the gateway is not running)" in ran.out


def test_doctor_names_the_remedy_for_what_is_wrong(run: Run, boxes: Start, project: Path) -> None:
    boxes(
        extra_nodes='  dead: {endpoint: "http://127.0.0.1:9"}',
        extra_models='  gone: {node: big-box, ollama_model: "absent:1b", litellm_alias: other, context: 99999999}',
    )
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("gateway: {", "gateway: {host: 0.0.0.0, "))
    run("generate")
    (project / ".env.subagent-fleet").chmod(0o644)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    ran = run("doctor", "--json", env={"PATH": os.environ["PATH"]})
    assert ran.code == 1
    wrong = {check["finding"]: check["remedy"] for check in ran.json() if check["health"] == "wrong"}
    text = "\n".join(f"{finding} => {remedy}" for finding, remedy in wrong.items())
    for expected in (
        "gateway.host is 0.0.0.0: other machines can reach it => set gateway.host to 127.0.0.1",
        "dead (http://127.0.0.1:9) is offline: refused",
        "absent:1b is not on big-box => OLLAMA_HOST=http://127.0.0.1",
        ".env.subagent-fleet can be read by others (mode 644) => chmod 600 .env.subagent-fleet",
        "git does not ignore .env.subagent-fleet => echo .env.subagent-fleet >> .gitignore",
        "claude is not installed, and files are generated for it => npm install -g @anthropic-ai/claude-code",
    ):
        assert expected in text


def test_doctor_names_a_model_without_tools_and_a_context_too_small_for_a_first_prompt(
    run: Run, boxes: Start, project: Path
) -> None:
    two = boxes()
    two.small.models, two.small.capabilities = ("demo:7b", "able:7b"), {"demo:7b": ("completion",)}
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("context: 32768", "context: 8192"))
    run("generate")
    wrong = {one["finding"]: one["remedy"] for one in run("doctor", "--json").json() if one["health"] == "wrong"}
    poor = (
        "planner: demo:7b on small-box has no tools, and so cannot be a coding agent; on small-box these have: able:7b"
    )
    assert wrong[poor] == "set models.small-coder.ollama_model to able:7b"
    short = "heavy-coder: context 8192 is too small for Claude Code's first prompt, about 12000 tokens"
    assert wrong[short] == "set models.heavy-coder.context to 32768, or: claude --tools Bash,Read,Edit,Write"


def test_what_models_can_do_is_learnt_and_outlives_a_node_that_sleeps(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    two.small.models = ("demo:7b", "able:7b")
    assert run("generate").code == 0
    two.small.capabilities = {"demo:7b": ("completion", "vision"), "able:7b": ("completion", "tools", "thinking")}
    assert run("validate").code == 0, "it asks no node"
    assert "demo:7b (no tools), able:7b" in run("discover").out
    known = json.loads((project / ".subagent-fleet/capabilities.json").read_text())["nodes"]["small-box"]
    assert known["models"]["able:7b"] == {"tools": True, "thinking": True, "vision": False, "context": 32768}
    text, before = (project / "fleet.yaml").read_text(), files(project)
    two.small.__exit__()
    for command in (["validate"], ["generate", "--check"], ["generate"]):
        ran = run(*command)
        assert ran.code == 2, (command, ran)
        assert "fleet.yaml:8:48: planner: demo:7b on small-box has no tools" in ran.err
        assert "on small-box these have: able:7b" in ran.err
        assert "next: set models.small-coder.ollama_model to able:7b" in ran.err
        assert ran.out == ""
    (problem,) = run("validate", "--json").json()["problems"]
    assert problem["path"] == ["models", "small-coder", "ollama_model"]
    assert files(project) == before
    (project / "fleet.yaml").write_text(text.replace("demo:7b", "able:7b"))
    assert run("validate").code == 0
    assert run("generate").code == 0
    assert run("generate", "--check").code == 0
    assert "set models.small-coder.ollama_model" not in run("doctor").out
    assert run("generate", "--target", "aider").code == 0
    (project / "fleet.yaml").write_text(text.replace(two.small.endpoint, "http://127.0.0.1:9"))
    assert run("validate").code == 0, "what another machine said there is not believed"
    assert run("clean", "--yes").code == 0
    assert not (project / ".subagent-fleet").exists() or not (project / ".subagent-fleet/capabilities.json").exists()


def test_doctor_is_content_when_all_is_well(run: Run, boxes: Start, project: Path, tmp_path: Path) -> None:
    boxes()
    run("generate")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "claude").write_text("#!/bin/sh\n")
    (programs / "claude").chmod(0o755)
    (tmp_path / "home/.gitconfig").write_text("[user]\nname = Person\nemail = person@example.org\n")
    ran = run("doctor", env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert ran.code == 0, ran.out
    assert "nothing is wrong" in ran.out
    assert "but no answer is known of: planner, implementer" in ran.out, "there is no gateway yet"
    (programs / "tmux").write_text("#!/bin/sh\necho tmux 3.3a\n")
    (programs / "tmux").chmod(0o755)
    assert "tmux is 3.3a" in run("doctor", env={"PATH": f"{programs}:{os.environ['PATH']}"}).out
    (programs / "tmux").write_text("#!/bin/sh\necho tmux 2.9a\n")
    ran = run("doctor", env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert (ran.code, "tmux is 2.9a, and 3.0 is the oldest that will do" in ran.out) == (1, True)


@pytest.mark.parametrize("bad", ["sk-1234", "x" * 50])
def test_doctor_finds_a_weak_key(run: Run, boxes: Start, bad: str) -> None:
    boxes()
    ran = run("doctor", env={"LITELLM_MASTER_KEY": bad})
    assert ran.code == 1
    assert "the key in $LITELLM_MASTER_KEY is weak" in ran.out
    run("generate")
    other = run("doctor", env={"LITELLM_MASTER_KEY": bad})
    assert "the key in .subagent-fleet/master.key is strong" in other.out
    assert f"$LITELLM_MASTER_KEY ({fingerprint(bad)}) is not this project's key" in other.out
    assert bad not in ran.out


def test_two_models_that_do_not_fit_together_are_found(run: Run, boxes: Start, project: Path) -> None:
    two = boxes(extra_models='  second: {node: small-box, ollama_model: "other:9b", litellm_alias: other}')
    two.small.models = ("demo:7b", "other:9b")
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("  small-box: {", "  small-box: {memory_gb: 1, "))
    found = [check for check in run("doctor", "--json").json() if check["name"] == "memory"]
    assert found[0]["health"] == "wrong"
    assert "small-box has 1.0 GB" in found[0]["finding"]


def test_a_generate_that_was_cut_short_is_finished_by_the_next(run: Run, boxes: Start, project: Path) -> None:
    """Whatever file the first one did not come to: what it left is ours, old or new."""
    boxes()
    run("generate")
    text = (project / "fleet.yaml").read_text().replace("You plan.", "You plan well.").replace("16384", "8192")
    before = files(project)
    (project / "fleet.yaml").write_text(text)
    run("generate")
    after = files(project)
    changed = [path for path in GENERATED if before[path] != after[path]]
    assert len(changed) == 2
    record = json.loads(before[".subagent-fleet/manifest.json"])
    for path, hashes in json.loads(after[".subagent-fleet/manifest.json"])["files"].items():
        record["files"][path] += hashes  # as it stands while files are being replaced
    for done in range(len(changed) + 1):
        (project / ".subagent-fleet/manifest.json").write_text(json.dumps(record))
        for n, path in enumerate(changed):
            (project / path).write_bytes((after if n < done else before)[path])
        ran = run("generate")
        assert ran.code == 0, ran.err
        assert files(project) == after


def test_a_failure_half_way_is_finished_by_the_next(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    (project / ".claude").rename(project / "aside")
    (project / ".claude").write_text("a file in the way")
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("You plan.", "You plan well.").replace("16384", "8192"))
    ran = run("generate", "--force")
    assert (ran.code, "is a file, and a directory must stand there" in ran.err) == (1, True)
    (project / ".claude").unlink()
    (project / "aside").rename(project / ".claude")
    assert run("generate").code == 0


@pytest.mark.parametrize(
    "command", [["generate"], ["generate", "--force"], ["discover", "--write"], ["init", "--force"]]
)
def test_a_link_in_place_of_our_own_directory_is_refused(
    run: Run, boxes: Start, project: Path, tmp_path: Path, command: list[str]
) -> None:
    boxes()
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".subagent-fleet").symlink_to(outside)
    ran = run(*command)
    assert ran.code == 1
    assert "is not a directory of ours" in ran.err
    assert list(outside.iterdir()) == []


def test_a_forged_manifest_deletes_nothing(run: Run, boxes: Start, project: Path, tmp_path: Path) -> None:
    boxes()
    run("generate")
    (project / "precious.txt").write_text("precious")
    (tmp_path / "outside.txt").write_text("precious")
    record = json.loads((project / ".subagent-fleet/manifest.json").read_text())
    hashed = hashlib.sha256(b"precious").hexdigest()
    for path in ("precious.txt", "../outside.txt", str(tmp_path / "outside.txt"), ".claude/agents/../../precious.txt"):
        record["files"][path] = [hashed]
    (project / ".subagent-fleet/manifest.json").write_text(json.dumps(record))
    assert run("generate").code == 0
    (project / ".subagent-fleet/manifest.json").write_text(json.dumps(record))
    assert run("clean", "--yes").code == 0
    assert (project / "precious.txt").exists()
    assert (tmp_path / "outside.txt").exists()


def test_what_strangers_wrote_cannot_steer_the_terminal(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    two.small.models = ("demo:7b", "evil\x1b]0;owned\x07")
    (project / "litellm_config.yaml").write_text("\x1b]0;owned\x07")
    shown = [run("discover"), run("status"), run("generate", "--diff"), run("generate")]
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text + '"a\\e]0;owned\\a": 1\n')
    shown += [run("validate"), run("warmup", "--agent", "\x1b[2J")]
    assert all("\x1b" not in ran.out + ran.err and "\x07" not in ran.out + ran.err for ran in shown)


def test_the_key_file_must_not_be_empty(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    (project / ".subagent-fleet/master.key").write_text("")
    ran = run("generate")
    assert (ran.code, "is empty" in ran.err) == (1, True)


@pytest.mark.parametrize("kind", ["fifo", "directory", "/dev/zero", "latin-1"])
def test_a_fleet_file_that_is_no_file_is_refused(run: Run, project: Path, kind: str) -> None:
    path = project / "odd.yaml"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "/dev/zero":
            path = Path(kind)
        case _:
            path.write_bytes("name: \xe4".encode(kind))
    assert run("validate", "--config", path, timeout=30).code == 2


def test_doctor_runs_nothing_that_a_repository_names(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    trap = project / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {project}/sprung\n")
    trap.chmod(0o755)
    for setting in ("core.fsmonitor", "core.hooksPath", "core.pager"):
        subprocess.run(["git", "-C", str(project), "config", setting, str(trap)], check=True)
    run("doctor")
    assert not (project / "sprung").exists()


def test_claude_only_and_litellm_only_write_their_own_part(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    assert run("generate", "--claude-only").code == 0
    assert not GENERATED & set(files(project)) - {p for p in GENERATED if p.startswith(".claude/")}
    assert run("generate", "--litellm-only").code == 0
    assert (project / "litellm_config.yaml").exists()
    assert not (project / ".env.subagent-fleet").exists()
    assert run("generate", "--target", "codex").code == 0
    assert (project / ".claude/agents/planner.md").exists(), "a target that was written once stays"


def test_nodes_are_warmed_in_parallel(run: Run, boxes: Start) -> None:
    """Each node waits until the other has been asked: one after the other would never end."""
    both = threading.Barrier(2)
    two = boxes()

    class Meeting(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            both.wait(timeout=60)
            super().__setitem__(key, value)

    two.small.loaded, two.big.loaded = Meeting(), Meeting()
    assert run("warmup").code == 0


def test_a_server_that_says_yes_to_everything_warms_nothing(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    page = bad_nodes.answer("200 OK", b'{"models": []}')
    with bad_nodes.node(page) as endpoint:
        text = (project / "fleet.yaml").read_text().replace(two.small.endpoint, endpoint)
        (project / "fleet.yaml").write_text(text)
        ran = run("warmup", "--model", "small-coder", "--json")
    assert ran.code == 1
    assert [result["model"] for result in ran.json()] == ["small-coder"]


def test_watching_refreshes_until_it_is_interrupted(project: Path, boxes: Start, clean_env: dict[str, str]) -> None:
    boxes()
    argv = [sys.executable, "-m", "fleet", "status", "--watch", "--interval", "0.2", "--json"]
    # A job in the background ignores interrupts, and its children inherit that; a terminal's do not.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        argv, cwd=project, env=clean_env, stdout=subprocess.PIPE, text=True, preexec_fn=listen
    ) as watching:
        assert watching.stdout is not None
        seen = 0
        for line in watching.stdout:
            seen += json.loads(line)["project"] == "two-boxes"
            if seen == 3:
                break
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert watching.wait(timeout=30) == 130


def test_init_writes_where_it_is_told_and_not_through_a_link(run: Run, project: Path) -> None:
    assert run("init", "--output", "sub/my.yaml").code == 0
    assert run("validate", "--config", "sub/my.yaml").code == 0
    (project / "fleet.yaml").symlink_to(project / "nowhere")
    assert "Kept fleet.yaml" in run("init").out
    assert (project / "fleet.yaml").is_symlink()
    assert not (project / "nowhere").exists()


def test_our_own_mistakes_exit_70_and_say_so(run: Run, boxes: Start, clean_env: dict[str, str], project: Path) -> None:
    """A broken installation is the nearest thing to a bug that can be made on purpose."""
    broken = project / "broken" / "fleet"
    shutil.copytree(Path(fleet.__file__).parent, broken)
    (broken / "app" / "files.py").write_text("raise RuntimeError('oops')\n")
    boxes()
    ran = run("generate", env={"PYTHONPATH": str(broken.parent)})
    assert ran.code == 70
    assert "a bug of ours (RuntimeError: oops)" in ran.err
    assert "Traceback" not in ran.err
    ran = run("-v", "generate", env={"PYTHONPATH": str(broken.parent)})
    assert ran.code == 70
    assert "Traceback" in ran.err
    assert "a bug of ours (RuntimeError: oops)" in ran.err


def test_doctor_finds_a_secret_in_git_and_a_stolen_litellm(
    run: Run, boxes: Start, project: Path, tmp_path: Path
) -> None:
    boxes()
    run("generate")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "add", "-f", ".env.subagent-fleet"], check=True)
    program = tmp_path / "theirs" / "bin" / "litellm"
    (tmp_path / "theirs/lib/python3.11/site-packages/litellm-1.82.7.dist-info").mkdir(parents=True)
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    ran = run("doctor", env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert ran.code == 1
    assert ".env.subagent-fleet is in git" in ran.out
    assert "is 1.82.7: this release carried a credential stealer" in ran.out


def test_a_cloud_model_is_never_chosen_and_doctor_names_it(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    two.small.models = ("small:3b", "gpt-oss:120b-cloud", "big:14b")
    ran = run("init", "--force", env={"OLLAMA_HOST": two.small.endpoint.removeprefix("http://")})
    assert ran.code == 0, ran.err
    text = (project / "fleet.yaml").read_text()
    assert "big:14b" in text
    assert "cloud" not in text
    (project / "fleet.yaml").write_text(text.replace("big:14b", "gpt-oss:120b-cloud"))
    checked = run("doctor")
    assert checked.code == 1
    assert "Ollama sends its requests to a cloud" in checked.out
    assert "gpt-oss:120b-cloud (cloud)" in run("discover").out


def test_init_takes_no_more_context_than_the_model_has(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    two.small.models = ("only:3b",)
    two.small.context = 2048
    run("init", "--force", env={"OLLAMA_HOST": two.small.endpoint.removeprefix("http://")})
    assert "context: 2048" in (project / "fleet.yaml").read_text()
    assert "prompt: |" in (project / "fleet.yaml").read_text()


def test_the_reason_of_a_node_that_cannot_load_is_passed_on(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    answer = bad_nodes.answer("500 Oh", b'{"models": [], "error": "model requires more \\u001b memory"}')
    with bad_nodes.node(bad_nodes.by_path({"/api/tags": bad_nodes.answer("200 OK", b'{"models": []}')}, answer)) as odd:
        (project / "fleet.yaml").write_text((project / "fleet.yaml").read_text().replace(two.small.endpoint, odd))
        ran = run("warmup", "--agent", "planner", "--json")
    assert "model requires more" in ran.json()[0]["reason"]


@pytest.mark.parametrize("command", [["discover", "--timeout", "nan"], ["status", "--watch", "--interval", "nan"]])
def test_not_a_number_is_not_a_time(run: Run, boxes: Start, command: list[str]) -> None:
    boxes()
    assert run(*command).code == 2


@pytest.mark.parametrize(
    "text", ["- " * 100_000, "[" * 100_000, "{" * 100_000, "? " * 100_000, "a:\n" + " " * 90_000 + "b"]
)
def test_a_deep_file_is_refused_in_words(run: Run, project: Path, text: str) -> None:
    (project / "fleet.yaml").write_text(text)
    ran = run("validate")
    assert (ran.code, "Invalid fleet.yaml" in ran.err) == (2, True)


def test_a_path_of_any_bytes_works(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    odd = Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9"))
    odd.mkdir()
    shutil.copy(project / "fleet.yaml", odd / "fleet.yaml")
    for command in (["generate"], ["status", "--json"], ["gateway", "status"], ["gateway", "down"], ["clean", "--yes"]):
        assert run(*command, cwd=odd, env={"LC_ALL": "C", "PYTHONUTF8": "0"}).code in (0, 1), command

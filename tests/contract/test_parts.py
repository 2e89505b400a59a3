"""The real parts are the ones we pinned: a test that passes against another version says nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import parts
from declared import NEEDS, PROGRAMS
from fleet.gateway import environment


def version(program: Path, home: Path, *words: str) -> str:
    env = {"PATH": f"{parts.find('node').bin}:{os.defpath}", "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:9"}
    argv = [str(program), *(words or ("--version",))]
    done = subprocess.run(
        argv, env=env, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


@pytest.mark.agents
@pytest.mark.parametrize(
    ("program", "package"),
    [("claude", "@anthropic-ai/claude-code"), ("codex", "@openai/codex"), ("opencode", "opencode-ai")],
)
def test_the_agents_are_those_of_the_lock(program: str, package: str, tmp_path: Path) -> None:
    assert parts.npm_version(package) in version(parts.find("agents").bin / program, tmp_path)


@pytest.mark.more_agents
@pytest.mark.parametrize("program", ["gemini", "qwen"])
def test_more_agents_are_those_of_the_lock(program: str, tmp_path: Path) -> None:
    locked = parts.npm_version(parts.MORE_AGENTS[program], "npm-more")
    assert locked in version(parts.find("more-agents").bin / program, tmp_path)


@pytest.mark.bd
def test_beads_starts(tmp_path: Path) -> None:
    assert parts.find("bd").version in version(parts.find("bd").bin / "bd", tmp_path, "version")
    said = version(parts.find("bd").bin / "bd", tmp_path, "init", "--quiet", "--prefix", "t")
    assert (tmp_path / ".beads").is_dir(), said


@pytest.mark.ollama
def test_ollama_and_its_model_are_there(tmp_path: Path) -> None:
    assert "version" in version(parts.find("ollama").bin / "ollama", tmp_path)
    assert (parts.find("smollm2").home / "model.gguf").read_bytes()[:4] == b"GGUF"


@pytest.mark.litellm
def test_litellm_is_the_one_of_the_lock() -> None:
    found = sorted(environment.directory().glob("lib/python*/site-packages/litellm-*.dist-info"))
    assert [path.name for path in found] == [f"litellm-{environment.version()}.dist-info"]


def test_no_lock_names_where_packages_come_from() -> None:
    npm = sorted(parts.LOCKS.glob("npm*/package-lock.json"))
    locks = [*parts.LOCKS.glob("*.txt"), *npm]
    for lock in [*locks, Path(environment.__file__).with_name("litellm.txt")]:
        assert "://" not in lock.read_text().replace('"url": "https://', ""), lock
    for lock in npm:
        packages = json.loads(lock.read_text())["packages"]
        assert all("resolved" not in package for package in packages.values())


@pytest.mark.parametrize(("wanted", "code"), [("quick", 0), ("all", 4)])
def test_what_is_left_out_is_said_loudly_or_is_a_failure(tmp_path: Path, wanted: str, code: int) -> None:
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "FLEET_PARTS": str(tmp_path / "none"), "PARTS": wanted}
    argv = [sys.executable, "-m", "pytest", "--collect-only", __file__]
    done = subprocess.run(argv, env=env, cwd=parts.ROOT, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert ("LEFT OUT" if wanted == "quick" else "these parts are missing") in said
    assert "bd" in said


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_run_of_which_all_is_left_out_passes_and_says_so(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_all.py").write_text(
        "import pytest\n@pytest.mark.long\ndef test_it() -> None:\n    assert False\n"
    )
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "PARTS": "quick"}
    settings = ("-c", str(parts.ROOT / "pyproject.toml"), "--confcutdir", "/", "-p", "conftest")
    argv = [sys.executable, "-m", "pytest", "-n", processes, *settings, str(tmp_path / "test_all.py")]
    done = subprocess.run(argv, env=env, cwd=parts.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 tests take long" in done.stdout


def test_a_lock_is_installed_as_it_stands() -> None:
    """Without --no-deps pip looks for newer releases of what a package wants with extras, and then refuses the lock."""
    callers = [parts.ROOT / "Makefile", *sorted((parts.ROOT / "tools").glob("*.py")), Path(environment.__file__)]
    texts = [caller.read_text() for caller in callers]
    around = [text[at.start() - 80 : at.end() + 80] for text in texts for at in re.finditer("--require-hashes", text)]
    assert len(around) >= 6
    assert [call for call in around if "--no-deps" not in call] == []


def reached() -> set[str]:
    """The needs that this test could meet, by the ways in which tests do."""
    beside = {name for name in NEEDS if all(parts.find(part).present for part in NEEDS[name].parts)}
    found = beside - {"litellm", "tmux"}
    return found | {"litellm" for _ in [0] if environment.installed()} | {"tmux" for _ in [0] if shutil.which("tmux")}


def test_a_test_that_names_no_part_reaches_none() -> None:
    assert reached() == set()
    assert [name for name in sorted(PROGRAMS) if shutil.which(name)] == []
    assert shutil.which("git")


@pytest.mark.agents
@pytest.mark.tmux
def test_a_test_reaches_the_parts_that_it_names() -> None:
    assert reached() == {"agents", "tmux"}

"""One set of generated files, one gateway: the real Codex and the real OpenCode think on the same nodes as Claude."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parts
from conftest import Run
from fleet.nodes.demonstration import Message, Reply
from flow.conftest import Boxes
from standins.proxy import watching

pytestmark = [pytest.mark.agents, pytest.mark.litellm, pytest.mark.timeout(400)]


def act_once(body: Message) -> Reply:
    """Run one real shell command, whatever the CLI calls its shell, then say what came of it."""
    if any(message["role"] == "tool" for message in body["messages"]):
        return Reply("big box: done")
    offered = {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []}
    for name, argument in (("exec_command", "cmd"), ("bash", "command"), ("shell_command", "command")):
        if name in offered:
            arguments = {argument: "echo made > made.txt"}
            needed = offered[name]["parameters"].get("required", [])
            return Reply(calls=((name, arguments | {key: "make a file" for key in needed if key not in arguments}),))
    return Reply("big box: no shell was offered")


def run_agent(script: str, project: Path, env: dict[str, str]) -> tuple[str, str]:
    done = subprocess.run(
        ["sh", "-c", f". ./.env.subagent-fleet && {script}"],
        cwd=project,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stdout, done.stderr


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.long
def test_codex_and_opencode_work_through_the_gateway(
    gateway: Run, boxes: Callable[..., Boxes], project: Path, clean_env: dict[str, str], agents_path: str
) -> None:
    two = boxes(big=act_once)
    assert gateway("generate", "--target", "claude,codex,opencode,aider").code == 0
    up = gateway("gateway", "up")
    assert up.code == 0, up.err
    made = project / "made.txt"
    with watching() as proxy:
        env = {"PATH": agents_path, "HOME": clean_env["HOME"], "npm_config_registry": f"{proxy.url}/npm/", **proxy.env}
        bypass = "--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
        out, err = run_agent(
            f"CODEX_HOME=$PWD/.codex exec codex exec --profile fleet --json {bypass} 'Make a file.'", project, env
        )
        assert "big box: done" in out, (out, err)
        assert events(out)[-1]["type"] == "turn.completed"
        assert made.read_text() == "made\n"

        made.unlink()
        out, err = run_agent("exec opencode run --format json 'Make a file.'", project, env)
        assert "big box: done" in out, (out, err)
        assert made.read_text() == "made\n"
        assert [asked for asked in proxy.asked if "/npm/" not in asked] == [], "something wanted to leave this machine"
    assert {body["model"] for body in two.big.asked("/api/chat")} == {"demo:32b"}
    assert all(body["options"]["num_ctx"] == 32768 for body in two.big.asked("/api/chat"))


@pytest.mark.aider
def test_aider_reads_its_files_and_asks_the_gateway(
    gateway: Run, boxes: Callable[..., Boxes], project: Path, clean_env: dict[str, str]
) -> None:
    two = boxes()
    assert gateway("generate", "--target", "aider").code == 0
    up = gateway("gateway", "up")
    assert up.code == 0, up.err
    with watching() as proxy:
        path = f"{parts.find('aider').bin}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": clean_env["HOME"], "TERM": "dumb", "OPENAI_API_KEY": "left over", **proxy.env}
        script = "exec aider --no-git --yes-always --no-pretty --no-show-release-notes --message 'Say hello.'"
        out, err = run_agent(script, project, env)
    assert "big speaking" in out, (out, err)
    assert {body["model"] for body in two.big.asked("/api/chat")} == {"demo:32b"}
    assert proxy.asked == [], "something wanted to leave this machine"

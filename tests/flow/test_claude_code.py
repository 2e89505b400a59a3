"""The real Claude Code in a generated project: each subagent thinks on its own node, and nothing leaves the machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fleet.coders.claude import read
from fleet.core.work import Attempt
from fleet.evidence.cost import Source, reckon
from fleet.evidence.prices import price
from fleet.evidence.requests import Records, Served
from fleet.nodes.demonstration import Message, Reply
from flow.conftest import Boxes, direct_yaml
from standins.coders.scratch import until
from standins.proxy import watching

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]


def said(message: Message) -> str:
    return json.dumps(message.get("content"))


def system(body: Message) -> str:
    return " ".join(said(message) for message in body["messages"] if message["role"] == "system")


def tool_named(body: Message, *names: str) -> str:
    offered = {tool["function"]["name"] for tool in body.get("tools") or []}
    return next(name for name in names if name in offered)


class Mind:
    """The scripted model: as main agent it delegates twice; as implementer it really writes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, body: Message) -> Reply:
        results = sum(message["role"] == "tool" for message in body["messages"])
        if "PLANNER-INSTRUCTIONS" in system(body):
            return Reply("PLAN: write one file")
        if "IMPLEMENTER-INSTRUCTIONS" in system(body):
            if results:
                return Reply("IMPLEMENTED: the file is there")
            return Reply(calls=(("Write", {"file_path": str(self.file), "content": "made by the implementer\n"}),))
        if not body.get("tools"):
            return Reply("a title")
        return self.delegate(body, results)

    def delegate(self, body: Message, results: int) -> Reply:
        for number, agent in enumerate(("planner", "implementer")):
            if results == number:
                task = {"description": "part of the job", "prompt": f"as {agent}", "subagent_type": agent}
                return Reply(calls=((tool_named(body, "Agent", "Task"), {**task, "run_in_background": False}),))
        return Reply("ALL DONE")


def claude(project: Path, env: dict[str, str], prompt: str) -> tuple[list[dict[str, Any]], str]:
    """Run Claude Code as a user would, after sourcing the generated file, in an otherwise empty environment."""
    script = ". ./.env.subagent-fleet && exec claude -p --output-format stream-json --verbose " \
             "--dangerously-skip-permissions"  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=project,
        env=env,
        input=prompt,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def its_requests_are_known(records: Records, made: int, final: dict[str, Any]) -> None:
    """The gateway's records name the attempt, and hold all that Claude Code tells of."""

    def seen() -> list[Served]:
        return records.served().get("t1.1", [])

    until(lambda: sum(one.requests for one in seen()) >= made)
    assert sum(one.requests for one in seen()) == made
    assert {(one.alias, one.node, one.local) for one in seen()} == {
        ("claude-haiku-local", "small-box", True), ("claude-sonnet-local", "big-box", True),
    }  # fmt: skip
    (result,) = read(json.dumps(final).encode())
    attempt = Attempt("t1.1", "t1", 1, "claude", None, "/", "me", 0.0, cost=result.cost, usage=result.models or {},
                      tokens=result.total.total if result.total else None)  # fmt: skip
    found = reckon(attempt, seen(), price, lambda attempt, model: False)
    assert attempt.cost, "Claude Code reckons with prices of its own"
    assert found.counted is not None
    assert (found.counted.source, found.cost) == (Source.GATEWAY, Decimal(0)), "and these models cost nothing"


@pytest.fixture
def agent_env(clean_env: dict[str, str], agents_path: str) -> dict[str, str]:
    return {
        "PATH": agents_path,
        "HOME": clean_env["HOME"],
        "IS_SANDBOX": "1",
        "DISABLE_AUTOUPDATER": "1",
        # Left over from another set-up; the generated file must undo both.
        "CLAUDE_CODE_SUBAGENT_MODEL": "claude-sonnet-local",
        "ANTHROPIC_API_KEY": "sk-ant-not-for-this-gateway",
    }


@pytest.mark.litellm
def test_each_subagent_thinks_on_its_own_node(
    gateway: Run, boxes: Callable[..., Boxes], project: Path, agent_env: dict[str, str], clean_env: dict[str, str]
) -> None:
    mind = Mind(project / "made.txt")
    two = boxes(small=mind, big=mind)
    two.small.capabilities = {"demo:7b": ("completion", "tools", "thinking")}  # the big one cannot think
    assert gateway("generate").code == 0
    up = gateway("gateway", "up")
    assert up.code == 0, up.err
    signed = {"ANTHROPIC_CUSTOM_HEADERS": "x-mine: 1\nx-fleet-attempt: t1.1"}  # as an attempt's environment has it
    with watching() as proxy:
        events, err = claude(project, agent_env | proxy.env | signed, "Have it planned, then implemented.")
    final = events[-1]
    assert (final["type"], final["is_error"], final["result"]) == ("result", False, "ALL DONE"), err
    assert {"planner", "implementer"} <= set(events[0]["agents"])
    assert (project / "made.txt").read_text() == "made by the implementer\n"

    small, big = two.small.asked("/api/chat"), two.big.asked("/api/chat")
    planned = [body for body in small if "PLANNER-INSTRUCTIONS" in system(body)]
    built = [body for body in big if "IMPLEMENTER-INSTRUCTIONS" in system(body)]
    assert planned
    assert len(built) == 2, "the tool call, and what came of it"
    assert not [body for body in big if "PLANNER-INSTRUCTIONS" in system(body)], "the planner crossed over"
    assert not [body for body in small if "IMPLEMENTER-INSTRUCTIONS" in system(body)], "the implementer crossed over"
    assert {body["model"] for body in small} == {"demo:7b"}
    assert {body["model"] for body in big} == {"demo:32b"}
    assert {body["options"]["num_ctx"] for body in [*small, *big]} == {16384, 32768}
    assert proxy.asked == [], "something wanted to leave this machine"
    assert not [body for body in [*small, *big] if "think" in body], "each node decides by what its model can do"
    windows = {model: use["contextWindow"] for model, use in final["modelUsage"].items()}
    assert set(windows.values()) == {32768}, windows
    its_requests_are_known(Records(Path(clean_env["FLEET_HOME"])), len(small + big), final)

    # Claude Code read the whole description as one string, and the fields after it as they were meant.
    heard = " ".join(str(message["content"]) for message in big[0]["messages"])
    assert "planner: Use for planning: \"first\", --- and 'always'.\nmodel: opus (Tools: Read, Grep, Glob)" in heard
    assert {tool["function"]["name"] for tool in planned[0].get("tools") or []} <= {"Read", "Grep", "Glob"}


def test_in_direct_mode_claude_code_talks_to_the_node_itself(
    run: Run, boxes: Callable[..., Boxes], project: Path, agent_env: dict[str, str]
) -> None:
    two = boxes()
    (project / "fleet.yaml").write_text(direct_yaml(two))
    assert run("generate").code == 0
    with watching() as proxy:
        events, err = claude(project, agent_env | proxy.env, "Say hello.")
    assert events[-1]["result"] == "small speaking", err
    assert {body["model"] for body in two.small.asked("/v1/messages")} == {"demo:7b"}
    assert proxy.asked == []

"""Real agent CLIs ask a person under `fleet run`: through the tool while they wait, and in Q&A.md at their end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_real_agents import House, drained, house, of
from standins.agent_desk import MODELS
from standins.agent_models import Answer, results
from standins.coders.scratch import until
from standins.model_server import Asked, Call, Say
from standins.work_models import CLOSING, attempt_of, coder_of, commit, conversation, shell

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

TOOLS = {
    "claude": Call("mcp__fleet_questions__ask_human", {}),
    "codex": Call("ask_human", {}, "mcp__fleet_questions"),
    "opencode": Call("fleet_questions_ask_human", {}),
}
SEEN = {
    "claude": "mcp__fleet_questions__ask_human",
    "codex": "fleet_questions.ask_human",
    "opencode": "fleet_questions_ask_human",
}
QUESTION = {"prompt": "Which PELICAN is meant?", "options": ["the grey one", "the white one"]}


def paints(asked: Asked, said: str) -> Answer:
    """Do the work, with the answer in it."""
    coder, attempt = coder_of(asked), attempt_of(asked)
    return shell(coder, f"echo '{said}' > {attempt}.txt; {commit(f'{attempt}.txt', said)}")


def asks_with_the_tool(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    match results(asked):
        case 0:
            tool = TOOLS[coder_of(asked)]
            return Call(tool.tool, QUESTION, tool.namespace)
        case 1:
            return paints(asked, "the grey one" if "It is the grey one" in conversation(asked) else "unknown")
        case _:
            return Say(CLOSING)


def asks_in_the_file(asked: Asked) -> Answer:
    """A first session asks and ends; taken up again with the answer, it does the work."""
    if not asked.tools:
        return Say("a title")
    coder, answered = coder_of(asked), "It is the grey one" in conversation(asked)
    match results(asked):
        case 0 if answered:
            return paints(asked, "the grey one")
        case 0:
            return shell(coder, 'echo "## Q: Which PELICAN is meant?" >> "$FLEET_ARTIFACT_DIR/Q&A.md"')
        case _:
            return Say(CLOSING)


def open_questions(at: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = at.fleet("questions", "--json").json()
    return found


def servers_of_their_own(at: House) -> None:
    """Each CLI has an MCP server in its user's own settings: one that leaves a trace when it is started."""
    mine = {coder: ["/bin/sh", "-c", f"touch {at.desk.home}/mine.{coder}"] for coder in MODELS}
    command, *args = mine["claude"]
    (at.desk.home / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": {"command": command, "args": args}}}))
    command, *args = mine["codex"]
    with (at.desk.home / ".codex" / "config.toml").open("a") as file:
        file.write(f"[mcp_servers.mine]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n")
    path = at.desk.home / ".config" / "opencode" / "opencode.json"
    own = {"mcp": {"mine": {"type": "local", "command": mine["opencode"]}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))


def told(at: House, task: str) -> str | None:
    """What the agent's own stream says that it waits for."""
    (attempt,) = at.history(task)
    found: str | None = attempt["asking"]
    return found


def made(at: House, coder: str, attempt: str) -> str:
    return (at.desk.project / coder / f"{attempt}.txt").read_text().strip()


@pytest.mark.long
def test_each_cli_waits_for_the_answer_even_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    with house(tmp_path, asks_with_the_tool) as at:
        at.prepare("max_concurrent=3")
        servers_of_their_own(at)
        ids = {coder: at.add(coder) for coder in MODELS}
        with at.supervisor() as first:
            until(lambda: {one["coder"] for one in open_questions(at)} == set(MODELS), 90)
            waits = "waits for an answer: Which PELICAN is meant?"
            until(lambda: {row["cause"] for row in at.tasks().values()} == {waits})
            assert {row["state"] for row in at.tasks().values()} == {"working"}
            until(lambda: {told(at, ids[coder]) for coder in ("claude", "codex")} == {QUESTION["prompt"]})
            assert told(at, ids["opencode"]) is None  # it tells of a call when that has ended
            first.kill()
            first.wait()
        assert {one["waiting"] for one in open_questions(at)} == {True}
        for one in open_questions(at):
            assert (one["question"], one["options"]) == (QUESTION["prompt"], QUESTION["options"])
            at.fleet("answer", one["id"], "It is the grey one.")
        with at.supervisor() as second:
            drained(second)
        for coder, task in ids.items():
            (attempt,) = at.history(task)
            assert (coder, attempt["verdict"], attempt["tools"][SEEN[coder]]) == (coder, "accepted", 1)
            assert made(at, coder, attempt["id"]) == "the grey one"
            assert "It is the grey one." in [event["text"] for event in of(at.events(task), "tool_ended")]
        assert {path.name for path in at.desk.home.glob("mine.*")} == {f"mine.{coder}" for coder in MODELS}
        assert at.desk.strangers == []
        assert at.processes() == {}


@pytest.mark.long
def test_claude_code_asks_in_the_file_and_goes_on_in_the_same_session(tmp_path: Path) -> None:
    with house(tmp_path, asks_in_the_file) as at:
        at.prepare()
        task = at.add("claude")
        with at.supervisor() as supervisor:
            drained(supervisor)
        row = at.tasks()[task]
        assert (row["state"], row["cause"]) == ("blocked", "asks: Which PELICAN is meant?")
        assert at.processes() == {}
        assert at.fleet("answer", task, "It is the grey one.").out == (
            f"Answered question 1 of {task}: Which PELICAN is meant?\n"
        )
        with at.supervisor() as supervisor:
            drained(supervisor)
        first, second = at.history(task)
        assert (first["ending"], first["verdict"]) == ("question", "asked")
        assert (second["verdict"], second["resumed"], second["session"]) == ("accepted", True, first["session"])
        assert made(at, "claude", second["id"]) == "the grey one"
        assert at.desk.strangers == []

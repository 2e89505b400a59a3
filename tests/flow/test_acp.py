"""Claude Code by the Agent Client Protocol: the real `claude-agent-acp` under `fleet run`, only the model is scripted.

What the agent is sent is copied to a log on its way, so that the protocol itself can be looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.agent_desk import Desk, desk
from standins.agent_models import Answer, Mind, results
from standins.coders.scratch import Scratch, scratch
from standins.model_server import Asked, Say
from standins.work_models import TOKENS, attempt_of, conversation, shell, works

pytestmark = [pytest.mark.more_agents, pytest.mark.timeout(240)]
SECONDS = 150


@dataclass(frozen=True)
class Place:
    """A home whose coders `acp` and `strict` are the real agent; the second may do nothing that it has to ask for."""

    fleet: Scratch
    desk: Desk
    directory: Path

    def drain(self) -> None:
        supervisor = self.fleet.run("--drain")
        supervisor.process.wait(SECONDS)
        assert supervisor.wait() == 0

    def history(self, task: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.fleet.shown(task)["history"]
        return found

    def events(self, attempt: str, kind: str) -> list[dict[str, Any]]:
        text = (self.fleet.home / "tasks" / attempt.rpartition(".")[0] / "events.jsonl").read_text()
        told = [json.loads(line) for line in text.splitlines()]
        return [event for event in told if (event["attempt"], event["kind"]) == (attempt, kind)]

    def sent(self, coder: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / f"{coder}.log").read_text().splitlines()]

    def asked(self, coder: str) -> list[str]:
        return [message["method"] for message in self.sent(coder) if "method" in message]

    def permitted(self, coder: str) -> list[dict[str, Any]]:
        return [message["result"]["outcome"] for message in self.sent(coder) if "result" in message]


@contextmanager
def place(directory: Path, mind: Mind) -> Iterator[Place]:
    with desk(directory, mind) as where, scratch(directory) as fleet:
        env = {f"env.{name}": value for name, value in where.environment().items()}
        coders = {
            name: {"argv": tapped(directory / f"{name}.log"), "prompt": "acp", **env} for name in ("acp", "strict")
        }
        coders["strict"] |= {"permissions": "reject"}
        fleet.settle("backoff=0s", "coder=acp", "model=haiku", coders=coders)
        yield Place(fleet, where, directory)


def tapped(log: Path) -> list[str]:
    return ["sh", "-c", f"tee -a {log} | claude-agent-acp"]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, dict[str, str]]]:
    """One run of both; the first attempt of `acp` fails its task's check."""
    with place(tmp_path_factory.mktemp("acp"), works) as at:
        check = {"acp": ("--check", "test -e made-*.2.txt"), "strict": ("--attempts", "1")}
        ids = {}
        for coder, options in check.items():
            repository = at.fleet.place(f"project/{coder}", git=True)
            ids[coder] = at.fleet.add("Find the PELICAN", "--coder", coder, *options, cwd=repository)
        at.drain()
        yield at, ids


@pytest.mark.long
def test_a_task_is_done_in_two_attempts_of_one_session(worked: tuple[Place, dict[str, str]]) -> None:
    at, ids = worked
    row, (first, second) = at.fleet.task(ids["acp"]), at.history(ids["acp"])
    assert (row["state"], row["cause"], row["coder"]) == ("done", "1 commit, 2 files changed", "acp")
    assert (first["verdict"], second["verdict"]) == ("retry", "accepted")
    assert (first["resumed"], second["resumed"]) == (False, True)
    assert first["session"] == second["session"] is not None
    for attempt in (first, second):
        assert (attempt["tools"], attempt["tokens"]) == ({"Write": 1, "Bash": 1}, 3 * TOKENS)
        assert attempt["cost"] > 0
        assert (attempt["peak_context"], attempt["context_limit"]) == (TOKENS, 1_000_000)
        assert [event["ok"] for event in at.events(attempt["id"], "tool_ended")] == [True, True]
        assert [event["ok"] for event in at.events(attempt["id"], "result")] == [True]
    assert at.asked("acp") == [
        *("initialize", "session/new", "session/set_config_option", "session/prompt"),
        *("initialize", "session/load", "session/prompt"),
    ]
    assert at.permitted("acp") == [{"outcome": "selected", "optionId": "allow-once"}] * 4
    asked = [one for one in at.desk.model.asked if one.tools and attempt_of(one).startswith(f"{ids['acp']}.")]
    assert {one.model for one in asked} == {"claude-haiku-5-5"}
    assert "PELICAN" in conversation(asked[-1])
    assert (at.desk.strangers, at.fleet.agents()) == ([], [])


@pytest.mark.long
def test_an_agent_that_may_nothing_changes_nothing(worked: tuple[Place, dict[str, str]]) -> None:
    at, ids = worked
    (attempt,) = at.history(ids["strict"])
    assert attempt["cause"] == "the agent exited with 0 and changed nothing"
    assert [event["ok"] for event in at.events(attempt["id"], "tool_ended")] == [False, False]
    assert at.permitted("strict") == [{"outcome": "selected", "optionId": "reject"}] * 2


@pytest.mark.long
def test_an_abort_in_the_middle_of_a_tool_call_cancels_the_turn_and_leaves_nothing_alive(tmp_path: Path) -> None:
    started, never = tmp_path / "started", tmp_path / "never"
    os.mkfifo(started)
    os.mkfifo(never)
    waits = f"sh -c 'echo yes > {started}; read word < {never}'"

    def mind(asked: Asked) -> Answer:
        return Say("over") if results(asked) or not asked.tools else shell("claude", f"({waits} &); {waits} & wait")

    with place(tmp_path, mind) as at:
        task = at.fleet.add("Wait", cwd=at.fleet.place("project/repository"))
        supervisor = at.fleet.run("--drain")
        assert started.read_text().startswith("yes")
        assert len(at.fleet.agents()) > 3
        at.fleet.ok("abort", task)
        assert supervisor.wait() == 0
        assert at.fleet.agents() == []
        (attempt,) = at.history(task)
        assert (attempt["verdict"], attempt["tools"]) == ("cancelled", {"Bash": 1})
        assert at.asked("acp")[-1] == "session/cancel"
        assert [event["text"] for event in at.events(attempt["id"], "result")] == ["the agent stopped: cancelled"]

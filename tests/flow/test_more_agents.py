"""Gemini CLI and Qwen Code, the real programs, at work under `fleet run`: only the model is scripted.

Each finds its settings and its key in a HOME that belongs to nobody; the scripted model is its proxy as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.agent_desk import MORE_MODELS, Desk, desk
from standins.agent_models import results
from standins.coders.scratch import Record, Scratch, scratch
from standins.work_models import CLOSING, TOKENS, attempt_of, coder_of, conversation, works

pytestmark = [pytest.mark.long, pytest.mark.more_agents, pytest.mark.timeout(240)]

each = pytest.mark.parametrize("coder", list(MORE_MODELS))
SECONDS = 200
OWN = (".gemini/settings.json", ".gemini/.env", ".qwen/settings.json")


@dataclass(frozen=True)
class Worked:
    """One run of both; the first attempt of each fails its task's check."""

    at: Scratch
    desk: Desk
    ids: dict[str, str]
    places: dict[str, Path]
    settings: dict[str, bytes]  # the user's own files, before

    def attempts(self, coder: str) -> list[Record]:
        found: list[Record] = self.at.shown(self.ids[coder])["history"]
        return found

    def events(self, coder: str, number: int) -> list[Record]:
        task = self.ids[coder]
        lines = (self.at.home / "tasks" / task / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["attempt"] == f"{task}.{number}"]


def own_settings(home: Path) -> dict[str, bytes]:
    return {name: (home / name).read_bytes() for name in OWN}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    root = tmp_path_factory.mktemp("more")
    with desk(root, works) as where, scratch(root) as at:
        own = where.environment()
        at.env |= {name: value for name, value in own.items() if name == "HOME" or "proxy" in name.lower()}
        at.env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        at.ok("init", "--home-only")
        at.settle("backoff=0s", "max_concurrent=2")
        places = {coder: at.place(coder, git=True) for coder in MORE_MODELS}
        ids = {coder: add(at, coder, place) for coder, place in places.items()}
        before = own_settings(where.home)
        drain = [sys.executable, "-m", "fleet", "run", "--drain"]
        done = subprocess.run(drain, cwd=root, env=at.env, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Worked(at, where, ids, places, before)


def add(at: Scratch, coder: str, place: Path) -> str:
    how = ("--coder", coder, "--model", MORE_MODELS[coder], "--check", "test -e made-*.2.txt")
    return at.add(f"A task for {coder}", "-d", "Look for the PELICAN.", *how, cwd=place)


def of(events: list[Record], kind: str) -> list[Record]:
    return [event for event in events if event["kind"] == kind]


def git(place: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=place, capture_output=True, text=True, check=True).stdout


@each
def test_an_agent_finishes_its_task_and_its_events_are_kept(worked: Worked, coder: str) -> None:
    row = worked.at.task(worked.ids[coder])
    assert (row["state"], row["cause"], row["attempts"]) == ("done", "1 commit, 2 files changed", 2)
    assert (row["coder"], row["model"]) == (coder, MORE_MODELS[coder])
    assert row["cost"] is None or row["cost"] > 0, "what no agent tells is unknown, or estimated, and never nothing"
    for number, attempt in enumerate(worked.attempts(coder), 1):
        events = worked.events(coder, number)
        assert [event["session"] for event in of(events, "session_started")] == [attempt["session"]]
        assert [event["tool"] for event in of(events, "tool_called")] == ["write_file", "run_shell_command"]
        assert [event["ok"] for event in of(events, "tool_ended")] == [True, True]
        assert [event["text"] for event in of(events, "said")] == [CLOSING]
        assert [event["ok"] for event in of(events, "result")] == [True]


@each
def test_what_it_used_and_what_came_of_it_is_in_its_receipt(worked: Worked, coder: str) -> None:
    receipt: dict[str, Any] = worked.at.receipt(worked.ids[coder])
    name, head = f"{worked.ids[coder]}.2", git(worked.places[coder], "rev-parse", "HEAD").strip()
    assert receipt["attempt"] | {"receipt": receipt["hash"]} == worked.attempts(coder)[-1]
    assert receipt["attempt"]["tools"] == {"write_file": 1, "run_shell_command": 1}
    assert receipt["result"]["commits"] == [{"id": head, "subject": f"{name} by {coder}"}]
    assert (receipt["process"]["cause"], receipt["checks"][0]["passed"]) == ("exited", True)
    assert git(worked.places[coder], "show", f"HEAD:made-{name}.txt") == f"made by {coder}\n"
    assert [attempt["tokens"] for attempt in worked.attempts(coder)] == [3 * TOKENS] * 2


def test_a_second_attempt_goes_on_with_the_session_where_that_works(worked: Worked) -> None:
    for coder, goes_on in {"gemini": False, "qwen": True}.items():
        first, second = worked.attempts(coder)
        assert first["cause"] == 'check "test -e made-*.2.txt" failed: exit 1'
        assert (first["resumed"], second["resumed"]) == (False, goes_on)
        assert (first["session"] == second["session"]) is goes_on
        asked = [asked for asked in worked.desk.model.asked if asked.tools and coder_of(asked) == coder]
        began = [one for one in asked if results(one) == 0]
        assert [attempt_of(one) for one in began] == [first["id"], second["id"]]
        assert (CLOSING in conversation(began[1])) is goes_on
        assert "PELICAN" in conversation(began[1])


def test_how_full_a_context_is_nobody_knows_who_is_not_told(worked: Worked) -> None:
    (gemini, _), (qwen, _) = worked.attempts("gemini"), worked.attempts("qwen")
    assert (gemini["peak_context"], gemini["context_limit"]) == (None, None)
    assert (qwen["peak_context"], qwen["context_limit"]) == (1110, None)


def test_nothing_leaves_this_machine_is_left_on_it_or_rewrites_settings(worked: Worked) -> None:
    assert worked.desk.strangers == []
    assert worked.at.agents() == []
    assert own_settings(worked.desk.home) == worked.settings

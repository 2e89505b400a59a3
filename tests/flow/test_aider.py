"""Aider, the real program, at work under `fleet run`: only the model is scripted.

One supervisor has two tasks for it: one that the model does, and one that its provider refuses.
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

from standins.agent_desk import Desk
from standins.agent_models import Answer, Refuse, turns
from standins.aider_desk import MODEL, aider_desk, edits, environment, repository
from standins.coders.scratch import Scratch, scratch
from standins.model_server import Asked

pytestmark = [pytest.mark.aider, pytest.mark.timeout(240)]

REFUSED = "A task that is refused"


def mind(asked: Asked) -> Answer:
    if REFUSED in json.dumps(turns(asked)):
        return Refuse(401, "authentication_error", "invalid x-api-key")
    return edits("made.txt", "made by aider")(asked)


@dataclass(frozen=True)
class Worked:
    home: Scratch
    where: Desk
    rows: dict[str, dict[str, Any]]
    done: Path
    listed: dict[str, Any]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    root = tmp_path_factory.mktemp("aider")
    with aider_desk(tmp_path_factory.mktemp("desk"), mind) as where, scratch(root) as home:
        own = where.environment() | environment(where)
        home.env |= {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "HOME": str(where.home)}
        given = [f"coders.aider.env.{name}={own[name]}" for name in own if name not in ("PATH", "HOME")]
        home.ok("config", "set", "coder=aider", f"model={MODEL}", "max_concurrent=2", *given)
        (listed,) = [row for row in home.ok("coders", "list", "--json").json() if row["name"] == "aider"]
        done, refused = root / "done", root / "refused"
        for place in (done, refused):
            repository(place)
        first = home.add(
            "A task for aider", "-d", "/run touch pwned", "--cwd", done, "--check", "grep -q aider made.txt"
        )
        second = home.add(REFUSED, "--cwd", refused, "--attempts", "1")
        home.ok("run", "--once")
        rows = home.tasks()
        yield Worked(home, where, {"done": rows[first], "refused": rows[second]}, done, listed)


def git(repository: Path, *args: str) -> str:
    env = {"PATH": os.defpath, "HOME": str(repository)}
    return subprocess.run(["git", "-C", str(repository), *args], env=env, capture_output=True, text=True).stdout


def test_aider_finishes_its_task(worked: Worked) -> None:
    row = worked.rows["done"]
    assert (row["state"], row["cause"], row["attempts"]) == ("done", "1 commit, 1 file changed", 1)
    assert (row["coder"], row["model"], row["session"]) == ("aider", MODEL, None)
    assert git(worked.done, "show", "HEAD:made.txt") == "made by aider\n"


def test_it_leaves_nothing_but_its_work(worked: Worked) -> None:
    assert git(worked.done, "status", "--porcelain", "--ignored") == ""
    assert sorted(path.name for path in worked.done.iterdir()) == [".git", "README.md", "made.txt"]
    assert worked.where.strangers == []


def test_what_it_used_is_known_as_far_as_it_tells(worked: Worked) -> None:
    row = worked.rows["done"]
    assert row["tokens"] > 600
    assert 0 < row["cost"] < 0.1
    assert row["peak_context_pct"] is None


def test_a_refusal_is_no_result_although_aider_exits_with_0(worked: Worked) -> None:
    row = worked.rows["refused"]
    assert row["state"] == "open"
    assert worked.home.shown(row["id"])["history"][0]["ending"] == "not logged in"
    assert "invalid x-api-key" in row["cause"]
    assert worked.home.receipt(row["id"])["process"]["code"] == 0


def test_its_version_is_found(worked: Worked) -> None:
    assert (worked.listed["version"], worked.listed["default"]) == ("0.86.2", True)

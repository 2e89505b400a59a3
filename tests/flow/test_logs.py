"""Logs and events: sentences for people, JSON lines for programs, and they go on as these grow."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch
from standins.window import terminal

AT = re.compile(r"\d\d:\d\d:\d\d  ")
THREE_LINES = "cd src\nmake\nmake check"


@dataclass(frozen=True)
class Worked:
    home: Scratch
    task: str

    def words(self, *args: object) -> list[str]:
        return self.home.ok(*args, "--words").out.splitlines()


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    with scratch(tmp_path_factory.mktemp("logs")) as home:
        home.settle("coder=demonstration", "model=")
        place = home.place("p", git=True)
        task = home.add("Write a line", "--check", "true", "--cwd", place)
        home.drain()
        with (home.home / "tasks" / task / "events.jsonl").open("a") as file:
            event = {"at": 1e9, "attempt": f"{task}.1", "kind": "tool_called", "tool": "Bash", "text": THREE_LINES}
            file.write(json.dumps(event) + "\n")
        yield Worked(home, task)


@pytest.mark.parametrize("what", ["log", "events"])
def test_people_read_sentences_and_programs_what_is_in_the_file(worked: Worked, what: str) -> None:
    piped = worked.home.ok("task", worked.task, what).out
    kept = worked.home.home / "tasks" / worked.task / Path({"log": "log.jsonl", "events": "events.jsonl"}[what])
    assert piped == kept.read_text()
    words = worked.words("task", worked.task, what)
    assert len(words) == len(piped.splitlines())
    assert all(AT.search(line) and worked.task in line and "{" not in line for line in words)
    assert any("  settled (finished, accepted" in line for line in words)
    shown = terminal(worked.home, "task", worked.task, what, width=200).splitlines()
    assert shown == words
    assert worked.home.fleet("task", worked.task, what, "--words", "--json").code == 2


def test_a_check_that_a_receipt_did_not_run_is_named_with_the_reason(worked: Worked) -> None:
    home = worked.home
    home.settle(coders={"lies": {"events": "claude"}})
    liar = home.add(
        "Say so", "--check", "grep -q x README", "--coder", "lies", "--attempts", "1", "--cwd", home.root / "p"
    )
    home.drain()
    shown = terminal(home, "task", liar, "receipt", width=200)
    assert "? grep -q x README: not run: " in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "none were given" not in shown
    unchecked = home.add("No check", "--cwd", home.root / "p")
    home.drain()
    assert "none were given" in terminal(home, "task", unchecked, "receipt", width=200)


def test_the_log_of_the_supervisor_is_read_the_same_way(worked: Worked) -> None:
    assert all(json.loads(line) for line in worked.home.ok("log", 3).out.splitlines())
    words = worked.words("log")
    assert AT.sub("", words[0]).startswith("supervisor started (pid ")
    assert AT.sub("", words[-1]) == "supervisor ended"
    assert worked.words("log", 1) == words[-1:]


def test_attach_shows_every_event_in_one_line_and_none_is_empty(worked: Worked) -> None:
    events = worked.words("task", worked.task, "events")
    place = worked.home.root / "p"
    assert worked.home.ok("attach", worked.task, cwd=place).out.splitlines() == events
    assert events[-1].endswith("calls Bash: cd src ⏎ make ⏎ make check")
    assert all(len(line.split("  ")) >= 3 and line.split("  ")[2] for line in events)


def test_a_log_that_is_followed_goes_on(worked: Worked) -> None:
    home = worked.home
    argv = [home.python, "-m", "fleet", "log", "1", "--follow", "--words"]
    with subprocess.Popen(argv, env=home.env, cwd=home.root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("supervisor ended\n")
        home.ok("run", "--drain", "--quiet")
        assert "  supervisor started (pid " in process.stdout.readline()
        process.terminate()

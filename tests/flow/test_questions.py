"""An agent asks a person: while it waits, or at its end; and is answered once, however many answer."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from getpass import getuser
from pathlib import Path

import pytest

from fleet.app.run import find_coder
from fleet.config.runtime import Live
from fleet.core.task import Status
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence.ledger import Ledger
from fleet.questions import file
from fleet.supervisor.house import House
from fleet.supervisor.log import Log
from fleet.supervisor.settle import tell
from fleet.tracker.local import Local
from standins.coders.scratch import HERE, Ran, Record, Scratch, scratch, until

ASKED = "Which colour?\n\nIt is for the door."
SHORT = "Which colour? It is for the door."


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    """A home whose `claude` is a stand-in that asks."""
    with scratch(tmp_path) as made:
        made.env["PATH"] = f"{HERE / 'asking'}:{made.env['PATH']}"
        made.settle("coder=claude", "model=")
        yield made


def asked(home: Scratch) -> list[Record]:
    found: list[Record] = home.ok("questions", "--json").json()
    return found


def history(home: Scratch, task: str) -> list[Record]:
    found: list[Record] = home.shown(task)["history"]
    return found


def thread(home: Scratch, task: str) -> str:
    return home.artifact(task, "Q&A.md").read_text()


def prompt(home: Scratch, task: str, attempt: int) -> str:
    return home.artifact(task, f"prompt.{task}.{attempt}").read_text()


def answered_at_once(home: Scratch, task: str) -> list[Ran]:
    """Two people answer in the same moment; whoever won comes first."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda colour: home.fleet("answer", task, colour), ("green", "blue")))
    return sorted(both, key=lambda ran: ran.code)


# ---- while the agent waits


def test_who_asks_with_the_tool_is_shown_as_waiting_and_goes_on_with_the_answer(home: Scratch) -> None:
    place = home.place("a")
    task = home.add("Paint the door", cwd=place)
    with_tool = home.run("--drain")
    (one,) = until(lambda: asked(home))
    assert {name: one[name] for name in ("id", "title", "number", "question", "options", "coder", "waiting")} == {
        "id": task, "title": "Paint the door", "number": 1, "question": ASKED, "options": ["red", "green"],
        "coder": "claude", "waiting": True,
    }  # fmt: skip
    until(lambda: history(home, task)[0]["asking"] == SHORT)  # the ledger has it a second later
    row = home.task(task)
    assert (row["state"], row["cause"]) == ("working", f"waits for an answer: {SHORT}")
    shown = home.ok("questions").out
    assert f"{task}  question 1  " in shown
    assert "claude, its agent waits  Paint the door\n    Which colour?\n    \n    It is for the door.\n" in shown

    first, second = answered_at_once(home, task)
    assert (first.code, second.code) == (0, 1)
    assert first.out == f"Answered question 1 of {task}: {SHORT}\n"
    assert first.err == "  its agent waits, and has it now\n"
    won = "green" if "green" in thread(home, task) else "blue"
    assert second.err.startswith(f"fleet: question 1 of {task} was answered by {getuser()} on 20")
    assert f"and the first answer counts: {won}\n  next: fleet task {task} questions\n" in second.err

    assert with_tool.wait() == 0
    (attempt,) = history(home, task)
    assert (attempt["verdict"], attempt["asking"], attempt["tools"]) == (
        "accepted", None, {"mcp__fleet_questions__ask_human": 1},
    )  # fmt: skip
    assert (place / "work.txt").read_text() == f"{task}.1: {won}\n"
    assert "call the tool `ask_human`" in prompt(home, task, 1)
    assert home.ok("task", task, "questions").out == thread(home, task)
    assert asked(home) == []


def test_the_answer_reaches_an_agent_whose_supervisor_is_dead(home: Scratch) -> None:
    place = home.place("a")
    task = home.add("Paint the door", cwd=place)
    first = home.run()
    until(lambda: home.task(task)["cause"].startswith("waits for an answer"))
    first.stop(signal.SIGKILL)
    home.ok("answer", task, "green")
    until(lambda: (place / "work.txt").exists())
    second = home.run("--drain")
    assert second.wait() == 0
    assert [one["verdict"] for one in history(home, task)] == ["accepted"]
    assert (place / "work.txt").read_text() == f"{task}.1: green\n"


def test_who_waited_in_vain_ends_and_goes_on_in_the_same_session(home: Scratch) -> None:
    home.settle("ask_wait=0.2s", "max_concurrent=1")
    place = home.place("a")
    task = home.add("Paint the door", cwd=place)
    home.drain()
    row = home.task(task)
    assert (row["state"], row["cause"]) == ("blocked", f"asks: {SHORT}")
    (one,) = asked(home)
    assert (one["waiting"], one["attempt"]) == (False, 1)
    assert not (place / "work.txt").exists()

    given = home.ok("answer", task, "-", "--json", stdin="green\n\n## Q: and more?\n").json()
    assert (given["id"], given["number"], given["question"], given["state"]) == (task, 1, ASKED, "open")
    assert given["next"] == (
        "the task is open again, and goes on with the answer; no supervisor runs, start one: fleet run"
    )
    assert home.task(task)["state"] == "open"
    home.drain()
    before, after = history(home, task)
    assert (before["ending"], before["verdict"]) == ("question", "asked")
    assert (after["verdict"], after["resumed"], after["session"]) == ("accepted", True, before["session"])
    told = prompt(home, task, 2)
    assert f"Question 1: {ASKED}\n\nAnswer: green\n\n\\## Q: and more?\n----- end " in told
    assert asked(home) == []


# ---- at the end


def test_who_asks_in_the_file_ends_and_is_answered_once(home: Scratch) -> None:
    home.settle("coders.claude.env.ASKS=file")
    place = home.place("a")
    task = home.add("Paint the door", cwd=place)
    home.drain()
    written = "Before I go on:\n\n## Q: Which colour?\n\nIt is for the door.\n"
    assert thread(home, task) == written
    assert home.task(task)["cause"] == f"asks: {SHORT}"
    assert f"claude, its agent has ended  Paint the door\n    {ASKED.splitlines()[0]}\n" in home.ok("questions").out

    supervisor = home.run()
    codes = [ran.code for ran in answered_at_once(home, task)]
    assert codes == [0, 1]
    supervisor.hear("settled", attempt=f"{task}.2")
    assert thread(home, task).startswith(written + "\n## A: 20")
    assert [one["verdict"] for one in history(home, task)] == ["asked", "accepted"]
    assert [one["task"] for one in supervisor.all("agent started")] == [task]
    assert home.fleet("answer", task, "red").code == 1


def test_an_answer_by_hand_needs_the_task_opened_and_is_told_to_a_fresh_session(home: Scratch) -> None:
    home.settle(coders={"prints_a_question": {"events": "jsonl"}})
    place = home.place("a")
    task = home.add("Paint the door", "--coder", "prints_a_question", cwd=place)
    home.drain()
    assert thread(home, task) == "## Q: Which colour?\n"  # the agent only printed it
    assert (home.task(task)["state"], home.task(task)["cause"]) == ("blocked", "asks: Which colour?")
    with home.artifact(task, "Q&A.md").open("a") as file:
        file.write("\n## A: 2026-05-03 14:10\n\nGreen.\n")
    assert asked(home) == []
    home.drain()
    assert home.task(task)["attempts"] == 1  # nobody opened it
    home.ok("retry", task)
    home.drain()
    assert home.task(task)["state"] == "done"
    assert "Question 1: Which colour?\n\nAnswer: Green.\n" in prompt(home, task, 2)
    assert "add a section `## Q: your question` to Q&A.md" in prompt(home, task, 2)
    assert "ask_human" not in prompt(home, task, 2)


def test_an_answer_between_the_agents_end_and_its_verdict_is_used(home: Scratch) -> None:
    """The check runs in just that moment, and somebody answers in it."""
    home.settle("coders.claude.env.ASKS=file")
    fleet = f"FLEET_HOME={home.home} {sys.executable} -m fleet"
    check = f"{fleet} answer $FLEET_TASK_ID green; test -e work.txt"
    task = home.add("Paint the door", "--check", check, cwd=home.place("a"))
    said = home.drain()
    first, *rest = history(home, task)
    assert (first["ending"], first["verdict"]) == ("question", "retry")
    assert first["cause"] == f"it asked, and is answered: {SHORT}"
    assert [one["verdict"] for one in rest] == ["accepted"]
    assert [one["attempt"] for one in said if one["event"] == "agent started"] == [f"{task}.1", f"{task}.2"]
    assert "Answer: green" in prompt(home, task, 2)


class Answering(Local):
    """A tracker in whose slow moments somebody answers."""

    def block(self, task: str, note: str) -> None:
        artifacts = self._home / "tasks" / task / "artifacts"
        file.answer(artifacts, file.ask(artifacts, "Which?"), "This.", "2026-05-03 14:10")
        super().block(task, note)


def test_an_answer_between_the_verdict_and_the_tracker_is_used(home: Scratch) -> None:
    """Whoever answers then finds the attempt unsettled, and leaves the task to the one who settles it."""
    task = home.add("Paint the door", cwd=home.place("a"))
    settings = Live(home.home / "runtime.toml")
    house = House(home.home, Answering(home.home), Ledger(home.home), settings, find_coder, Log(home.home), "me")
    begun = Attempt(f"{task}.1", task, 1, "c", None, "/", "me", 0.0)
    house.tracker.claim(task, "me")
    tell(house, replace(begun, ending=Ending.QUESTION, verdict=Verdict.ASKED, cause="Which?"))
    assert house.tracker.get(task).status is Status.OPEN


def test_two_questions_are_answered_each_before_the_task_goes_on(home: Scratch) -> None:
    home.settle("coders.claude.env.ASKS=file")
    task = home.add("Paint the door", cwd=home.place("a"))
    home.drain()
    with home.artifact(task, "Q&A.md").open("a") as file:
        file.write("## Q: And the window?\n")
    assert [one["number"] for one in asked(home)] == [1, 2]
    second = home.ok("answer", task, "none", "--question", "2")
    assert second.out == f"Answered question 2 of {task}: And the window?\n"
    assert second.err == f"  question 1 is still open: fleet answer {task} --question 1\n"
    assert home.task(task)["state"] == "blocked"
    home.ok("answer", task, "green")
    assert home.task(task)["state"] == "open"


def test_who_answers_itself_has_asked_nothing(home: Scratch) -> None:
    home.settle("coders.claude.env.ASKS=itself")
    task = home.add("Paint the door", cwd=home.place("a"))
    home.drain()
    assert [(one["ending"], one["verdict"]) for one in history(home, task)] == [("finished", "accepted")]
    assert asked(home) == []


def test_a_task_that_a_person_opens_without_an_answer_starts_again(home: Scratch) -> None:
    home.settle("coders.claude.env.ASKS=file")
    task = home.add("Paint the door", cwd=home.place("a"))
    home.drain()
    home.ok("retry", task)
    home.drain()
    assert [one["verdict"] for one in history(home, task)] == ["asked", "accepted"]
    assert "People have answered" not in prompt(home, task, 2)


# ---- what cannot be answered


def refused(home: Scratch, args: list[str], code: int, said: str) -> None:
    ran = home.fleet("answer", *args)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_what_cannot_be_answered_is_said_with_its_exit_code(home: Scratch) -> None:
    task = home.add("Ask nothing", cwd=home.place("a"))
    refused(home, ["t9", "x"], 3, "there is no task t9")
    refused(home, [task, "x"], 3, f"{task} has asked nothing")
    assert home.ok("questions", "--json").json() == []
    assert home.ok("questions").err == "no agent asks anything\n"

    file = home.artifact(task, "Q&A.md")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("## Q: \x1b[31mWhich?\n")
    refused(home, [task, "x", "--question", "2"], 3, f"{task} has no question 2: it has asked one")
    refused(home, [task, " "], 2, "the answer is empty")
    refused(home, [task], 2, "what is the answer?")
    ran = home.ok("answer", task, "x")
    assert "\x1b" not in ran.out
    assert ran.err == "  the next attempt reads it; no supervisor runs, start one: fleet run\n"


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "heap"])
def test_what_an_agent_plants_in_the_files_place_is_not_followed(home: Scratch, kind: str) -> None:
    task = home.add("Plant", cwd=home.place("a"))
    file, mine = home.artifact(task, "Q&A.md"), home.root / "mine.md"
    file.parent.mkdir(parents=True)
    mine.write_text("## Q: mine\n")
    match kind:
        case "link":
            file.symlink_to(mine)
        case "hard link":
            os.link(mine, file)
        case "pipe":
            os.mkfifo(file)
        case _:
            file.write_bytes(b"## Q: x\n" + b"x" * 2_000_000)
    ran = home.fleet("answer", task, "x")
    assert ran.code == 1
    assert "and is not read" in ran.err
    assert mine.read_text() == "## Q: mine\n"
    assert home.ok("questions", "--json").json() == []


def test_without_words_on_a_terminal_an_editor_is_opened(home: Scratch) -> None:
    home.settle("coders.claude.env.ASKS=file")
    task = home.add("Paint the door", cwd=home.place("a"))
    home.drain()
    editor = home.root / "editor"
    editor.write_text('#!/bin/sh\nsed "1s/^/green as grass/" "$1" >"$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "fleet", "answer", task]
    env = home.env | {"VISUAL": str(editor), "TERM": "dumb"}
    with subprocess.Popen(argv, cwd=home.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        shown = b""
        with suppress(OSError):
            while piece := os.read(ours, 1000):
                shown += piece
    os.close(ours)
    assert child.returncode == 0, shown
    assert thread(home, task).endswith(f"\n\ngreen as grass\n\n<!-- fleet: answered by {getuser()} -->\n")
    assert json.loads(home.ok("tasks", "--json").out)[0]["state"] == "open"

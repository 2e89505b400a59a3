"""An agent asks a person: while it waits, or at its end; and is answered once, however many answer."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from getpass import getuser
from pathlib import Path

import pytest

from fleet import keeper
from fleet.coders.known import find_coder
from fleet.config.runtime import Live
from fleet.core.task import Status
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence.ledger import Ledger
from fleet.questions import file
from fleet.supervisor.house import House
from fleet.supervisor.log import Log
from fleet.supervisor.settle import tell
from fleet.supervisor.start import start
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
        both = list(pool.map(lambda colour: home.fleet("answer", task, colour), ("teal", "blue")))
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
    won = "teal" if "teal" in thread(home, task) else "blue"
    assert second.err.startswith(f"fleet: question 1 of {task} was answered by {getuser()} on 20")
    assert f"and the first answer counts: {won}\n  next: fleet task {task} questions\n" in second.err

    assert with_tool.wait() == 0
    (attempt,) = history(home, task)
    assert (attempt["verdict"], attempt["asking"], attempt["tools"]) == (
        "accepted", None, {"mcp__fleet_questions__ask_human": 1, "Write": 1},
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
    supervisor = home.run()
    supervisor.hear("settled", attempt=f"{task}.1")
    row = until(lambda: (row := home.task(task))["state"] == "blocked" and row)
    assert row["cause"] == f"asks: {SHORT}"
    (one,) = asked(home)
    assert (one["waiting"], one["attempt"]) == (False, 1)
    assert not (place / "work.txt").exists()

    given = home.ok("answer", task, "-", "--json", stdin="green\n\n## Q: and more?\n").json()
    assert (given["id"], given["number"], given["question"], given["state"]) == (task, 1, ASKED, "open")
    assert given["next"] == "the task is open again, and goes on with the answer"
    supervisor.hear("settled", attempt=f"{task}.2")
    before, after = history(home, task)
    assert (before["ending"], before["verdict"]) == ("question", "asked")
    assert (after["verdict"], after["resumed"], after["session"]) == ("accepted", True, before["session"])
    told = prompt(home, task, 2)
    assert f"Question 1: {ASKED}\n\nAnswer: green\n\n\\## Q: and more?\n----- end " in told
    assert asked(home) == []


# ---- at the end


@dataclass
class Evening:
    """Agents that asked in the file and ended; the answers of a person; and what became of them."""

    home: Scratch
    ids: dict[str, str]
    asked: dict[str, Record]  # the rows before anybody answered
    open: list[Record]
    threads: dict[str, str]
    answered: list[Ran]  # of "answered", by two at once
    shown: str
    rows: dict[str, Record]
    said: list[Record]

    def endings(self, name: str) -> list[tuple[str, str]]:
        return [(one["ending"], one["verdict"]) for one in history(self.home, self.ids[name])]

    def prompt(self, name: str, attempt: int) -> str:
        return prompt(self.home, self.ids[name], attempt)


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evening]:
    with scratch(tmp_path_factory.mktemp("evening")) as home:
        asks = {"argv": [str(HERE / "asking" / "claude")], "events": "claude", "resume_flag": "--resume="}
        home.settle(
            "coder=files", "model=", "max_concurrent=4",
            coders={
                "files": asks | {"env.ASKS": "file"}, "itself": asks | {"env.ASKS": "itself"},
                "prints_a_question": {"events": "jsonl"},
            },
        )  # fmt: skip
        check = f"{home.waits_for_an_answer}; test -e work.txt"
        tasks: dict[str, tuple[object, ...]] = {
            "answered": (), "edited": (), "two": (), "opened": (), "in between": ("--check", check),
            "itself": ("--coder", "itself"), "printed": ("--coder", "prints_a_question"),
        }  # fmt: skip
        ids = home.add_all({name: (*args, "--cwd", home.place(name)) for name, args in tasks.items()})
        first = home.run("--drain")
        home.answer_in_its_check(ids["in between"], "green")
        assert first.wait() == 0
        before = {name: home.tasks()[task] for name, task in ids.items()}
        threads = {name: thread(home, task) for name, task in ids.items()}
        with home.artifact(ids["two"], "Q&A.md").open("a") as more:
            more.write("## Q: And the window?\n")
        left, shown = asked(home), home.ok("questions").out
        both = answered_at_once(home, ids["answered"])
        in_an_editor(home, ids["edited"])
        with home.artifact(ids["printed"], "Q&A.md").open("a") as by_hand:
            by_hand.write("\n## A: 2026-05-03 14:10\n\nGreen.\n\0" + "x" * 200_000)
        home.ok("retry", ids["printed"])
        home.ok("retry", ids["opened"])
        second = home.ok("answer", ids["two"], "none", "--question", "2")
        assert second.out == f"Answered question 2 of {ids['two']}: And the window?\n"
        assert second.err == f"  question 1 is still open: fleet answer {ids['two']} --question 1\n"
        assert home.task(ids["two"])["state"] == "blocked"
        home.ok("answer", ids["two"], "green")
        said = first.records + home.drain()
        yield Evening(home, ids, before, left, threads, both, shown, home.tasks(), said)


def in_an_editor(home: Scratch, task: str) -> None:
    """`fleet answer` without words, on a terminal."""
    editor = home.root / "editor"
    editor.write_text('#!/bin/sh\nsed "1s/^/green as grass/" "$1" >"$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "fleet", "answer", task]
    env = home.env | {"VISUAL": str(editor), "TERM": "dumb"}
    with subprocess.Popen(argv, cwd=home.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        with suppress(OSError):
            while os.read(ours, 1000):
                pass
    os.close(ours)
    assert child.returncode == 0


def test_who_asked_in_the_file_blocks_its_task_until_it_is_answered(evening: Evening) -> None:
    for name in ("answered", "edited", "two", "opened"):
        assert (evening.asked[name]["state"], evening.asked[name]["cause"]) == ("blocked", f"asks: {SHORT}")
        assert evening.threads[name] == "Before I go on:\n\n## Q: Which colour?\n\nIt is for the door.\n"
    assert {(one["id"], one["number"]) for one in evening.open} == {
        *((evening.ids[name], 1) for name in ("answered", "edited", "two", "opened", "printed")),
        (evening.ids["two"], 2),
    }
    assert "files, its agent has ended  answered\n    Which colour?\n" in evening.shown


def test_of_two_answers_at_once_one_counts_and_the_session_goes_on(evening: Evening) -> None:
    assert [ran.code for ran in evening.answered] == [0, 1]
    assert evening.endings("answered") == [("question", "asked"), ("finished", "accepted")]
    text = thread(evening.home, evening.ids["answered"])
    assert text.startswith(evening.threads["answered"] + "\n## A: 20")
    assert text.count("## A:") == 1
    won = "teal" if "teal" in text else "blue"
    assert f"Question 1: {ASKED}\n\nAnswer: {won}\n----- end " in evening.prompt("answered", 2)
    first, second = history(evening.home, evening.ids["answered"])
    assert (second["resumed"], second["session"]) == (True, first["session"])


def test_nobody_is_started_more_often_than_it_was_opened(evening: Evening) -> None:
    started = [one["attempt"] for one in evening.said if one["event"] == "agent started"]
    once = [f"{evening.ids['itself']}.1"]
    twice = [f"{task}.{n}" for name, task in evening.ids.items() if name != "itself" for n in (1, 2)]
    assert sorted(started) == sorted(once + twice)
    assert {row["state"] for row in evening.rows.values()} == {"done"}


def test_without_words_on_a_terminal_an_editor_is_opened(evening: Evening) -> None:
    text = thread(evening.home, evening.ids["edited"])
    assert text.endswith(f"\n\ngreen as grass\n\n<!-- fleet: answered by {getuser()} -->\n")


def test_an_answer_by_hand_to_a_printed_question_is_told_to_a_fresh_session(evening: Evening) -> None:
    assert evening.threads["printed"] == "## Q: Which colour?\n"  # the agent only printed it
    assert evening.asked["printed"]["cause"] == "asks: Which colour?"
    told = evening.prompt("printed", 2)
    assert "Question 1: Which colour?\n\nAnswer: Green.\n\N{REPLACEMENT CHARACTER}xxx" in told
    assert "x … the rest is in Q&A.md\n----- end " in told
    assert "add a section `## Q: your question` to Q&A.md" in told
    assert "ask_human" not in told


def test_a_task_that_a_person_opens_without_an_answer_starts_again(evening: Evening) -> None:
    assert evening.endings("opened") == [("question", "asked"), ("finished", "accepted")]
    assert "is answered" not in evening.prompt("opened", 2)


def test_an_answer_between_the_agents_end_and_its_verdict_is_used(evening: Evening) -> None:
    """The check runs in just that moment, and somebody answers in it."""
    assert evening.endings("in between") == [("question", "retry"), ("finished", "accepted")]
    first = history(evening.home, evening.ids["in between"])[0]
    assert first["cause"] == f"it asked, and is answered: {SHORT}"
    assert "Answer: green" in evening.prompt("in between", 2)


def test_who_answers_itself_has_asked_nothing(evening: Evening) -> None:
    assert evening.endings("itself") == [("finished", "accepted")]


class Answering(Local):
    """A tracker in whose slow moments somebody answers."""

    def block(self, task: str, note: str) -> None:
        artifacts = self._home / "tasks" / task / "artifacts"
        file.answer(artifacts, file.ask(artifacts, "Which?"), "This.", "2026-05-03 14:10")
        super().block(task, note)


def begins(home: Scratch, task: str, coder: str, **environment: str) -> keeper.Start:
    """How an agent of this task would be started now."""
    at = home.home
    house = House(
        at, Local(at), Ledger(at), Live(at / "runtime.toml"), find_coder, Log(at), "me", environment=environment
    )
    attempt = Attempt(f"{task}.1", task, 1, coder, None, str(home.root / "a"), "me", 0.0)
    return start(house, attempt, house.tracker.get(task))[1]


def test_a_variable_of_the_users_own_is_not_replaced_by_the_one_that_brings_the_tool(home: Scratch) -> None:
    task = home.add("Paint the door", cwd=home.place("a"))
    mine = {"OPENCODE_CONFIG_CONTENT": '{"share": "disabled"}'}
    assert "fleet_questions" in begins(home, task, "opencode", **mine).env["OPENCODE_CONFIG_CONTENT"]
    home.settle('coders.opencode.pass_env=["OPENCODE_CONFIG_CONTENT"]')
    assert begins(home, task, "opencode", **mine).env.items() >= mine.items()


def test_nobody_is_given_the_tool_where_nobody_is_to_be_waited_for(home: Scratch) -> None:
    task = home.add("Paint the door", cwd=home.place("a"))
    assert [word for word in begins(home, task, "claude").argv if "fleet_questions" in word]
    home.settle("ask_wait=0s")
    begun = begins(home, task, "claude")
    assert not [word for word in begun.argv if "fleet_questions" in word]
    assert "ask_human" not in begun.stdin
    assert "## Q: your question" in begun.stdin


def test_an_answer_between_the_verdict_and_the_tracker_is_used(home: Scratch) -> None:
    """Whoever answers then finds the attempt unsettled, and leaves the task to the one who settles it."""
    task = home.add("Paint the door", cwd=home.place("a"))
    settings = Live(home.home / "runtime.toml")
    house = House(home.home, Answering(home.home), Ledger(home.home), settings, find_coder, Log(home.home), "me")
    begun = Attempt(f"{task}.1", task, 1, "c", None, "/", "me", 0.0)
    house.tracker.claim(task, "me")
    tell(house, replace(begun, ending=Ending.QUESTION, verdict=Verdict.ASKED, cause="Which?"))
    assert house.tracker.get(task).status is Status.OPEN


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


def test_what_an_agent_plants_in_the_files_place_is_not_followed(home: Scratch) -> None:
    mine, place = home.root / "mine.md", home.place("a")
    mine.write_text("## Q: mine\n")
    plants: dict[str, Callable[[Path], object]] = {
        "link": lambda file: file.symlink_to(mine),
        "pipe": os.mkfifo,
        "heap": lambda file: file.write_bytes(b"## Q: x\n" + b"x" * 2_000_000),
        "hard link": lambda file: os.link(mine, file),
    }
    for kind, plant in plants.items():
        task = home.add(kind, cwd=place)
        file = home.artifact(task, "Q&A.md")
        file.parent.mkdir(parents=True)
        plant(file)
        ran = home.fleet("answer", task, "x")
        assert (kind, ran.code) == (kind, 1)
        assert "and is not read" in ran.err
    assert mine.read_text() == "## Q: mine\n"
    assert home.ok("questions", "--json").json() == []


def test_a_heap_in_the_place_of_questions_is_no_result(home: Scratch) -> None:
    """What was asked there nobody can know, so a person has to look."""
    script = home.root / "heaps.sh"
    script.write_text(
        'cat >/dev/null; { echo "## Q: big?"; head -c 2000000 /dev/zero; } >"$FLEET_ARTIFACT_DIR/Q&A.md"; echo x >made'
    )
    home.settle("coder=heaps", coders={"heaps": {"argv": ["/bin/sh", str(script)]}})
    task = home.add("one", "--cwd", home.place("heap"))
    home.drain()
    assert home.task(task)["state"] == "blocked"
    (asked,) = home.ok("questions", "--json").json()
    assert "larger than" in asked["question"]

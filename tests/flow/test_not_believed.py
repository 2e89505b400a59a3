"""Agents that forge what the supervisor looks at, and listeners that go away: nothing of it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch

WHO = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
EXITED = '{"cause": "exited", "ended": 1.0, "code": 0}'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def agent(home: Scratch, script: str) -> None:
    """An agent of one line of shell, working in a directory without git; nothing keeps it from the home."""
    home.settle("coder=one", "backoff=0s", "fence=off", coders={"one": {"argv": ["/bin/sh", "-c", script]}})


def test_a_check_that_the_agent_has_written_for_itself_is_run_all_the_same(home: Scratch) -> None:
    there = "$FLEET_TASK_DIR/attempts/1/check"
    agent(home, f"echo x > work; mkdir -p {there}; echo '{EXITED}' > {there}/exit.json")
    task = home.add("forge", "--cwd", home.place("p"), "--check", "false", "--attempts", "1")
    home.drain()
    assert (home.task(task)["state"], home.receipt(task)["checks"][0]["code"]) == ("refused", 1)


def test_the_check_is_the_one_from_before_the_agent_ran(home: Scratch) -> None:
    agent(home, 'echo x > work; sed -i \'s/"false"/"true"/\' $FLEET_TASK_DIR/task.json')
    task = home.add("rewrite", "--cwd", home.place("p"), "--check", "false", "--attempts", "1")
    home.drain()
    assert (home.task(task)["state"], home.receipt(task)["checks"][0]["command"]) == ("refused", "false")


def test_a_check_that_the_agent_changed_is_put_back_for_the_next_attempt(home: Scratch) -> None:
    agent(home, 'echo x > work; sed -i \'s/"false"/"true"/\' $FLEET_TASK_DIR/task.json')
    task = home.add("rewrite twice", "--cwd", home.place("p"), "--check", "false", "--attempts", "2")
    said = home.drain()
    assert [one["task"] for one in said if one["event"] == "task.json put back"] == [task, task]
    assert (home.task(task)["state"], home.task(task)["attempts"]) == ("refused", 2)


def test_an_attempt_that_the_one_before_has_written_is_made_all_the_same(home: Scratch) -> None:
    there = "$FLEET_TASK_DIR/attempts/2"
    agent(home, f"echo $FLEET_ATTEMPT >> began; mkdir -p {there}; echo '{EXITED}' > {there}/exit.json; exit 1")
    place = home.place("p")
    task = home.add("plant", "--cwd", place, "--attempts", "2")
    home.drain()
    assert (place / "began").read_text().split() == [f"{task}.1", f"{task}.2"]
    assert home.task(task)["state"] == "failed"


def test_work_that_was_finished_with_a_full_context_counts(home: Scratch) -> None:
    used = {"input_tokens": 199_000, "output_tokens": 1}
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    said = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "assistant", "message": {"content": [call], "usage": used}, "session_id": "s"},
        {"type": "result", "is_error": False, "result": "done", "session_id": "s", "usage": used},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in said)
    (home.root / "said").write_text(lines)
    home.settle(
        "coder=full",
        coders={
            "full": {
                "argv": ["/bin/sh", "-c", f"echo x > work; cat {home.root / 'said'}"],
                "events": "claude",
                "context_limit": 200_000,
            }
        },
    )
    task = home.add("nearly full", "--cwd", home.place("p"))
    home.drain()
    assert (home.task(task)["state"], home.task(task)["attempts"]) == ("done", 1)


def test_what_can_never_be_started_is_said_once_and_is_no_bug_of_ours(home: Scratch) -> None:
    home.settle("coder=claude")
    task = home.add("odd model", "--cwd", home.place("p"), "--model=-x")
    home.drain()
    row = home.task(task)
    assert (row["state"], row["attempts"]) == ("failed", 1)
    assert "not the name of a model" in row["cause"]
    assert "fleet itself" not in row["cause"]


def test_a_reader_that_goes_away_costs_no_task(home: Scratch) -> None:
    agent(home, "echo x > work")
    tasks = [home.add("work", "--cwd", home.place(f"p{n}")) for n in range(3)]
    argv = [sys.executable, "-m", "fleet", "run", "--drain"]
    with subprocess.Popen(argv, env=home.env, cwd=home.root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert {home.task(task)["state"] for task in tasks} == {"done"}


@pytest.mark.long
def test_an_agent_that_never_stops_talking_holds_up_nobody(home: Scratch) -> None:
    home.settle(
        "coder=quiet",
        "max_concurrent=2",
        coders={
            "quiet": {"argv": ["/bin/sh", "-c", "echo x > work"]},
            "chatty": {"argv": ["/bin/sh", "-c", "yes | head -c 3000000; echo x > work"], "events": "claude"},
        },
    )
    chatty = home.add("talk", "--cwd", home.place("p"), "--coder", "chatty", "-p", "0")
    supervisor = home.run()
    supervisor.hear("agent started", task=chatty)
    quiet = home.add("work", "--cwd", home.place("q"))
    supervisor.hear("settled", task=quiet, verdict="accepted")
    assert supervisor.stop() == 0
    home.drain()
    assert home.task(chatty)["state"] == "done"


def test_an_agent_that_ends_its_own_keeper_each_time_is_not_tried_for_long(home: Scratch) -> None:
    home.settle(
        "coder=robs", "backoff=0.1s", coders={"robs": {"argv": ["/bin/sh", "-c", "cat >/dev/null; kill -9 $PPID"]}}
    )
    task = home.add("work", "--attempts", "1", cwd=home.place("p", git=True))
    home.drain()
    tried = home.shown(task)["history"]
    assert [(one["ending"], one["verdict"]) for one in tried] == [
        ("lost", "retry"),
        ("lost", "retry"),
        ("lost", "failed"),
    ]
    assert (
        "3 times in a row, and fleet was not started anew between: its agent may end its keeper itself"
        in tried[2]["cause"]
    )
    assert home.task(task)["state"] == "failed"


def test_a_bell_that_is_not_a_pipe_is_put_aside(home: Scratch) -> None:
    agent(home, "echo x > work")
    task = home.add("work", "--cwd", home.place("p"))
    (home.home / "wake").write_text("a restored backup")
    home.drain()
    assert home.task(task)["state"] == "done"


def test_a_keeper_that_was_stopped_does_not_hold_its_task(home: Scratch) -> None:
    """The agent stops its own keeper: abort lets it go on, and ends it and everything else."""
    agent(home, "kill -STOP $PPID; echo stopped; sleep 1000")
    task = home.add("stop the keeper", "--cwd", home.place("p"))
    supervisor = home.run()
    supervisor.hear("agent started", task=task)
    assert home.fleet("abort", task).code == 0
    supervisor.hear("settled", task=task, verdict="cancelled")
    assert home.agents() == []
    assert supervisor.stop() == 0


def test_names_that_are_not_text_are_seen_all_the_same(home: Scratch) -> None:
    agent(home, "printf x > $(printf 'caf\\351.txt')")
    tasks = [home.add("odd name", "--cwd", home.place(f"p{git}", git=git)) for git in (False, True)]
    home.drain()
    for task in tasks:
        assert home.task(task)["state"] == "done", home.task(task)
        assert home.receipt(task)["result"]["uncommitted"] == ["caf\\xe9.txt"]


MAKEFILE = "test:\n\tpython3 -m pytest -q -p no:cacheprovider\n"
TEST = "from calc import add\n\n\ndef test_add(): assert add(2, 3) == 5\n"


@pytest.mark.parametrize(
    ("check", "lie", "said"),
    [
        ("PATH=$PWD/bin:$PATH make test", "echo '#!/bin/sh' > bin/make; chmod +x bin/make", "bin/make"),
        ("PATH=$PWD/bin:$PATH diff calc.py right.py", "echo '#!/bin/sh' > bin/diff; chmod +x bin/diff", "bin/diff"),
        ("python3 -m mypy calc.py", "echo > mypy.py", "--allow-protected mypy.py"),
        ("make test", "git mv right.py test", "part of the checks"),
        ("make test", "echo 'import os; os._exit(0)' > calc.py", "did not say how many tests passed"),
    ],
)
def test_a_check_is_not_passed_by_what_stands_in_its_way(home: Scratch, check: str, lie: str, said: str) -> None:
    place = home.place("p", git=True)
    files = {"calc.py": "def add(a, b) -> int: return ''\n", "right.py": "...\n", "test_calc.py": TEST, "bin/a": ""}
    for name, text in (files | {"Makefile": MAKEFILE}).items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    for words in (["add", "-A"], ["commit", "-qm", "a bug"]):
        subprocess.run(["git", *words], cwd=place, env=home.env | WHO, check=True)
    agent(home, lie)
    task = home.add("lie", "--cwd", place, "--check", check, "--attempts", "1")
    home.drain()
    assert home.task(task)["state"] == "refused"
    assert said in home.task(task)["cause"]


def test_who_starts_together_in_one_directory_is_named(home: Scratch) -> None:
    home.settle(
        "max_concurrent=2",
        coders={
            "lazy": {"argv": ["/bin/sh", "-c", "while ! test -e work; do :; done"]},
            "busy": {"argv": ["/bin/sh", "-c", "echo x > work"]},
        },
    )
    place = home.place("p")
    lazy, busy = (home.add(name, "--cwd", place, "--coder", name) for name in ("lazy", "busy"))
    home.drain()
    assert home.receipt(lazy)["result"]["shared"] == [f"{busy}.1"]
    assert "perhaps by" in home.task(lazy)["cause"]

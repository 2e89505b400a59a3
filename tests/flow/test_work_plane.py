"""The story of a queue, through the real program: tasks go in, agents work on them, and people see what became of each.

Most of it is one night over one queue, looked at from many sides afterwards; what needs a person at the desk while
agents run has a supervisor of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import HERE, WITHIN, Record, Scratch, alive, scratch, until
from standins.window import columns, heard, terminal

ODD = 'it\'s "odd": $(touch owned) `touch owned` --model=x \\ {title} %s 你好 🙂'
LONG = "Line one of a long text.\n" + "word " * 30_000 + "\n----- end 0123456789abcdef -----\nlast line"
FLEET_YAML = """\
project: {name: limited}
nodes: {only: {endpoint: "http://127.0.0.1:9"}}
models: {m: {node: only, ollama_model: "demo:7b", litellm_alias: x}}
agents: {a: {model: m, description: does things}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


# ---- one night


@dataclass
class Night:
    home: Scratch
    ids: dict[str, str]
    said: list[Record]
    rows: dict[str, Record]

    def row(self, name: str) -> Record:
        return self.rows[self.ids[name]]

    def told(self, name: str, what: str, attempt: int = 1) -> str:
        """What an agent kept of what it was given."""
        return self.home.artifact(self.ids[name], f"{what}.{self.ids[name]}.{attempt}").read_text()

    def order(self, event: str) -> list[str]:
        names = {task: name for name, task in self.ids.items()}
        return [names[one["task"]] for one in self.said if one["event"] == event]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Everything that can be left alone until the morning, in one queue."""
    with scratch(tmp_path_factory.mktemp("night")) as home:
        home.settle(
            "coder=ok", "model=machine-model", "max_concurrent=6", "backoff=0s", "limits.attempts=2",
            coders={
                "ok": {}, "lies": {"events": "claude"}, "fails": {}, "waits": {}, "silent": {}, "shouts": {},
                "resumes": {"events": "claude", "resume_flag": "--resume"},
                "tells": {"model_flag": "--model", "args": ["--more", "a b"], "env.GIVEN": "by the user",
                          "pass_env": ["MY_API_KEY"]},
                "gone": {"argv": ["/nowhere/no-such-agent"]},
            },
        )  # fmt: skip
        night = Night(home, _queue(home), [], {})
        _damage(night)
        env = {"MY_API_KEY": "passed on", "OTHER_SECRET": "kept back", "AWS_SECRET_ACCESS_KEY": "kept back"}
        night.said = home.drain(env=env)
        night.rows = home.tasks()
        yield night


def _queue(home: Scratch) -> dict[str, str]:
    repo, plain = home.place("repo", git=True), home.place("plain")
    unborn = home.place("unborn", git=True, commit=False)
    (home.place("limited") / "fleet.yaml").write_text(FLEET_YAML + "limits: {timeout: 1s, output: 1MB, attempts: 1}\n")
    inside = home.place("limited/inside")
    quick = ("--attempts", 1)
    ids = home.add_all(
        {
            "in a repository": ("--cwd", repo, "-d", "Write a line."),
            "in a plain directory": ("--cwd", plain),
            "on an unborn branch": ("--cwd", unborn),
            "fails": ("--cwd", home.place("f"), "--coder", "fails"),
            "lies": ("--cwd", home.place("l"), "--coder", "lies"),
            "check passes": ("--cwd", home.place("cp"), "--check", "grep . work.txt && echo $FLEET_TASK_ID. >seen"),
            "check fails": ("--cwd", home.place("cf"), "--coder", "tells", "--check", "echo 7 of 9 failed; exit 4"),
            "resumes": ("--cwd", home.place("r"), "--coder", "resumes"),
            "own words": ("--cwd", home.place("w"), "--coder", "tells", "--model", "own-model"),
            "inherits a coder's model": ("--cwd", home.place("i"), "--coder", "tells"),
            "task timeout": ("--cwd", inside, "--coder", "silent", "--timeout", "0.5s"),
            "task output": ("--cwd", inside, "--coder", "shouts", "--output", "100kB"),
            "project timeout": ("--cwd", inside, "--coder", "silent"),
            "project output": ("--cwd", inside, "--coder", "shouts"),
            "three attempts of its own": ("--cwd", home.place("3"), "--coder", "fails", "--attempts", 3),
            "directory vanishes": ("--cwd", home.place("vanishes")),
            "corrupt": ("--cwd", home.place("c1")),
            "relative": ("--cwd", home.place("c2")),
            "no spec": ("--cwd", home.place("c3")),
            "unknown coder": ("--cwd", home.place("c4")),
            "no program": ("--cwd", home.place("np"), "--coder", "gone"),
            "cancelled": ("--cwd", home.place("ca")),
            "never asked for": ("--cwd", home.place("q"), "--coder", "tells", *quick, "--check", "true"),
        }
    )
    ids["odd"] = home.add(ODD, "--cwd", home.place("odd it's $(x)"), "--coder", "tells", "-d", "-", stdin=LONG)
    first, cancelled = ids["in a repository"], ids["cancelled"]
    ids |= home.add_all(
        {
            "after the first": ("--cwd", home.place("a1"), "--after", first, "--priority", 0),
            "after the cancelled": ("--cwd", home.place("a2"), "--after", cancelled, "--after", first),
            "after the failed": ("--cwd", home.place("a3"), "--after", ids["fails"]),
        }
    )
    home.ok("abort", cancelled)
    return ids


def _damage(night: Night) -> None:
    """What people and programs do to files between `add` and `run`."""
    tasks = night.home.home / "tasks"
    (night.home.root / "vanishes").rmdir()
    (tasks / night.ids["corrupt"] / "task.json").write_text('{"cwd": "/tm')
    (tasks / night.ids["relative"] / "task.json").write_text('{"cwd": "."}')
    (tasks / night.ids["no spec"] / "task.json").unlink()
    spec = {"cwd": str(night.home.root / "c4"), "coder": "nobody"}
    (tasks / night.ids["unknown coder"] / "task.json").write_text(json.dumps(spec))


def test_a_task_in_a_repository_is_done_with_its_commit(night: Night) -> None:
    row, receipt = night.row("in a repository"), night.home.receipt(night.ids["in a repository"])
    assert (row["state"], row["attempts"], row["branch"]) == ("done", 1, "main")
    assert row["cause"] == "1 commit, 1 file changed"
    assert [one["subject"] for one in receipt["result"]["commits"]] == [f"work of {row['id']}.1"]
    (change,) = receipt["result"]["changes"]
    assert (change["path"], change["added"], change["removed"], change["change"]) == ("work.txt", 1, 0, "added")
    assert (receipt["result"]["landing"], receipt["verdict"]) == (receipt["result"]["head"], "unverified")
    assert row["proof"] == "unverified"
    assert (receipt["process"]["cause"], receipt["process"]["code"]) == ("exited", 0)
    assert receipt["attempt"]["verdict"] == "accepted"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=night.home.root / "repo", capture_output=True, text=True)
    assert receipt["result"]["head"] == head.stdout.strip()


def test_a_directory_without_git_and_an_unborn_branch_are_worked_in_as_well(night: Night) -> None:
    plain, unborn = night.row("in a plain directory"), night.row("on an unborn branch")
    assert (plain["state"], plain["branch"], plain["cause"]) == ("done", None, "1 file not committed")
    assert (unborn["state"], unborn["branch"], unborn["cause"]) == ("done", "main", "1 commit, 1 file changed")
    assert night.home.receipt(unborn["id"])["result"]["base"] is None


def test_scripts_can_rely_on_these_names(night: Night) -> None:
    promised = {"id", "title", "state", "cause", "attempts", "coder", "model", "cwd", "branch"}
    for row in night.rows.values():
        assert promised <= row.keys()
        assert row["state"] in {"open", "starting", "working", "blocked", "done", "refused", "failed", "cancelled"}
    unfinished = night.home.ok("tasks", "--json").json()
    assert {row["state"] for row in unfinished} == {"failed", "refused", "blocked"}
    assert [row["id"] for row in night.home.ok("tasks", "--all", "--json", "--limit", 2).json()] == list(night.rows)[
        -2:
    ]


def test_a_failing_agent_is_tried_as_often_as_the_machine_says_and_the_cause_stays(night: Night) -> None:
    row = night.row("fails")
    assert (row["state"], row["attempts"]) == ("failed", 2)
    assert row["cause"] == f"the agent exited with 3; your turn (2 tries): fleet show {row['id']} · retry"
    history = night.home.shown(row["id"])["history"]
    assert [one["verdict"] for one in history] == ["retry", "failed"]
    assert [one["cause"] for one in history] == ["the agent exited with 3"] * 2
    assert night.row("three attempts of its own")["attempts"] == 3


def test_an_agent_that_only_says_so_is_not_believed(night: Night) -> None:
    row = night.row("lies")
    assert (row["state"], row["attempts"], row["proof"]) == ("refused", 2, "refused")
    assert "exited with 0 and changed nothing" in row["cause"]


def test_a_check_that_passes_is_run_by_fleet_in_the_tasks_directory(night: Night) -> None:
    task = night.ids["check passes"]
    assert night.row("check passes")["state"] == "done"
    assert (night.home.root / "cp" / "seen").read_text() == ".\n", "a check is not told of fleet"
    check = night.home.receipt(task)["checks"][0]
    assert (check["passed"], check["code"]) == (True, 0)


def test_a_check_that_fails_is_told_to_the_next_attempt_and_refused_at_the_end(night: Night) -> None:
    row = night.row("check fails")
    assert (row["state"], row["attempts"]) == ("refused", 2)
    turn = f"your turn (2 tries): fleet show {row['id']} · retry · accept"
    why = 'check "echo 7 of 9 failed; exit 4" failed: exit 4: 7 of 9 failed'
    assert row["cause"] == f"{why}; {turn}"
    assert "was not accepted" not in night.told("check fails", "prompt", 1)
    second = night.told("check fails", "prompt", 2)
    assert "earlier attempt was not accepted" in second
    assert why in second
    check = night.home.receipt(row["id"])["checks"][0]
    assert (check["passed"], check["code"], check["tail"]) == (False, 4, "7 of 9 failed\n")


def test_a_second_attempt_goes_on_with_the_session(night: Night) -> None:
    row = night.row("resumes")
    assert (row["state"], row["attempts"], row["session"], row["cost"]) == ("done", 2, "session-1", 0.5)
    assert night.told("resumes", "argv", 1).strip() == ""
    assert night.told("resumes", "argv", 2).strip() == "--resume session-1"
    again = night.told("resumes", "prompt", 2)
    assert "the agent exited with 3" in again
    assert "Title: " not in again, "the session knows its task"
    assert [one["resumed"] for one in night.home.shown(row["id"])["history"]] == [False, True]


def test_the_words_of_a_task_reach_the_agent_as_they_are_and_do_nothing_on_the_way(night: Night) -> None:
    assert night.row("odd")["title"] == ODD
    prompt = night.told("odd", "prompt")
    assert f"Title: {ODD}\n\n{LONG}\n" in prompt
    assert night.told("odd", "pwd").strip() == str(night.home.root / "odd it's $(x)")
    assert not list(night.home.root.rglob("owned"))
    assert night.home.shown(night.ids["odd"])["description"] == LONG


def test_the_prompt_is_in_no_argument_and_the_users_options_are(night: Night) -> None:
    argv = night.told("own words", "argv").split("\n")
    assert argv[2:-1] == ["--model", "own-model", "--more", "a b"]
    assert "own words" in night.told("own words", "prompt")


def test_the_machines_model_belongs_to_the_machines_coder(night: Night) -> None:
    assert night.row("in a plain directory")["model"] == "machine-model"
    assert night.row("inherits a coder's model")["model"] is None
    assert "--model" not in night.told("inherits a coder's model", "argv")


def test_an_agent_gets_an_allow_list_and_what_fleet_and_its_user_tell_it(night: Night) -> None:
    task = night.ids["own words"]
    given = dict(entry.partition("=")[::2] for entry in night.told("own words", "env").split("\0") if entry)
    directory = night.home.home / "tasks" / task
    ours = {name: value for name, value in given.items() if name.startswith("FLEET_")}
    assert ours == {
        "FLEET_TASK_ID": task,
        "FLEET_TASK_DIR": str(directory),
        "FLEET_ARTIFACT_DIR": str(directory / "artifacts"),
        "FLEET_ATTEMPT": f"{task}.1",
        "FLEET_NONCE": night.home.shown(task)["history"][0]["nonce"],
    }
    assert given.keys() - ours.keys() == {
        "PATH", "HOME", "LANG", "TERM", "NO_COLOR", "GIVEN", "MY_API_KEY", "PWD", "ANTHROPIC_CUSTOM_HEADERS",
    }, "PWD is the shell's own"  # fmt: skip
    assert (given["GIVEN"], given["MY_API_KEY"], given["HOME"]) == ("by the user", "passed on", str(night.home.user))


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("task timeout", r"the time limit was reached after \d s \(limit timeout, set by the task\)"),
        ("project timeout", r"the time limit was reached after \d s \(limit timeout, set by fleet.yaml\)"),
        ("task output", r"the output limit was reached after \d MB \(limit output, set by the task\)"),
        ("project output", r"the output limit was reached after \d MB \(limit output, set by fleet.yaml\)"),
    ],
)
def test_a_limit_is_named_with_who_set_it(night: Night, name: str, cause: str) -> None:
    row = night.row(name)
    assert row["state"] == "failed"
    assert re.match(cause, row["cause"]), row["cause"]
    assert row["attempts"] == 1, "the project's fleet.yaml says so, for the directories below it too"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("directory vanishes", "the task's directory .*/vanishes does not exist"),
        ("corrupt", "task.json: it is not JSON"),
        ("relative", "task.json: cwd must be the absolute path of a directory"),
        ("no spec", "task.json is missing: nothing says where"),
        ("unknown coder", "no coder .*'nobody'"),
    ],
)
def test_what_cannot_be_started_is_not_started_anywhere(night: Night, name: str, cause: str) -> None:
    row = night.row(name)
    assert (row["state"], row["attempts"]) == ("failed", 1)
    assert re.search(cause, row["cause"]), row["cause"]
    assert "\n" not in row["cause"]
    started = [one for one in night.said if one["event"] == "agent started" and one["task"] == row["id"]]
    assert started == []


def test_nothing_was_made_or_worked_in_where_nobody_said(night: Night) -> None:
    assert not (night.home.root / "vanishes").exists()
    assert list(night.home.user.rglob("work.txt")) == []
    assert not list((night.home.root / "c4").iterdir())


def test_a_missing_program_is_named(night: Night) -> None:
    row = night.row("no program")
    assert (row["state"], row["attempts"]) == ("failed", 1)
    assert "/nowhere/no-such-agent" in row["cause"]


def test_a_task_waits_for_what_it_needs_and_for_ever_for_what_was_cancelled_or_failed(night: Night) -> None:
    claimed = night.order("claimed")
    first, after = (night.home.shown(night.ids[name])["history"] for name in ("in a repository", "after the first"))
    assert first[-1]["ended"] < after[0]["created"]
    assert night.row("after the first")["state"] == "done"
    cancelled, failed = night.ids["cancelled"], night.ids["fails"]
    way_out = f"fleet depend {night.ids['after the cancelled']} --not {cancelled}, or fleet abort"
    for name, why in (
        ("after the cancelled", f"waits for {cancelled}, which was cancelled: {way_out}"),
        ("after the failed", f"waits for {failed}, which failed: fleet show {failed}"),
    ):
        assert name not in claimed
        assert night.row(name)["state"] == "blocked"
        assert night.row(name)["cause"].startswith(why)
        assert night.home.shown(night.ids[name])["row"]["cause"] == night.row(name)["cause"]
    assert (night.row("cancelled")["state"], night.row("cancelled")["attempts"]) == ("cancelled", 0)


def test_everything_in_the_home_is_its_owners_alone(night: Night) -> None:
    wrong = []
    for path in (night.home.home, *night.home.home.rglob("*")):
        facts = path.lstat()
        if "artifacts" in path.parts[:-1]:  # made by the agents
            continue
        if facts.st_mode & 0o777 != (0o700 if stat.S_ISDIR(facts.st_mode) else 0o600):
            wrong.append((oct(facts.st_mode), str(path)))
    assert wrong == []


def test_no_secret_of_the_supervisors_is_in_anything_it_wrote(night: Night) -> None:
    for path in night.home.home.rglob("*"):
        if path.is_file():
            assert b"kept back" not in path.read_bytes(), path


def test_show_tags_what_is_inherited(night: Night) -> None:
    inherited, own = night.home.ok("show", night.ids["in a repository"]), night.home.ok("show", night.ids["own words"])
    assert re.search(r"^coder: +ok  \(default\)$", inherited.out, re.MULTILINE)
    assert re.search(r"^model: +machine-model  \(default\)$", inherited.out, re.MULTILINE)
    assert re.search(r"^coder: +tells$", own.out, re.MULTILINE)
    assert re.search(r"^model: +own-model$", own.out, re.MULTILINE)
    assert "Write a line." in inherited.out
    assert re.search(r"^attempt 1 .* accepted: 1 commit, 1 file changed$", inherited.out, re.MULTILINE)


def test_what_a_task_left_can_be_read(night: Night) -> None:
    task = night.ids["resumes"]
    events = [json.loads(line) for line in night.home.ok("task", task, "events").out.splitlines()]
    assert [one["id"] for one in events] == list(range(1, len(events) + 1))
    kinds = [one["kind"] for one in events if one["kind"] != "life_changed"]
    assert kinds == ["session_started", "settled", "session_started", "tool_called", "result", "settled"]
    log = [json.loads(line) for line in night.home.ok("task", task, "log").out.splitlines()]
    first, second = ["claimed", "agent started", "settled"], ["claimed", "agent started", "turn began", "settled"]
    assert [one["event"] for one in log] == [*first, *second]
    assert night.home.receipt(task)["attempt"]["number"] == 2
    plan = night.home.artifact(task, "PLAN_AND_STATUS.md")
    assert night.home.fleet("task", task, "plan").code == 3
    plan.write_text("1. plan\x1b[2J\n")
    assert night.home.ok("task", task, "plan").out == "1. plan\x1b[2J\n", "whole, when piped"
    assert "\x1b[2J" not in terminal(night.home, "task", task, "plan")


def test_the_log_is_json_lines_of_what_happened(night: Night) -> None:
    whole = [json.loads(line) for line in night.home.ok("log").out.splitlines()]
    assert sorted(whole, key=str) == sorted(night.said, key=str)
    assert night.home.ok("log", "--json").out == night.home.ok("log").out, "JSON is what it prints anyway"
    assert night.home.ok("log", 1).out.splitlines() == night.home.ok("log").out.splitlines()[-1:]


def test_piped_tables_have_every_column_and_no_colour(night: Night) -> None:
    out = night.home.ok("tasks", "--all", env={"COLUMNS": "40"}).out
    assert "\x1b" not in out
    head = out.splitlines()[1].split()
    assert " ".join(head) == "ID STATE REPO STARTED ELAPSED IDLE CTX EVENTS TOKENS COST TRIES CODER MODEL TITLE CWD"
    assert str(night.home.root / "repo") in out


def test_a_terminal_of_eighty_columns_is_enough(night: Night) -> None:
    shown = terminal(night.home, "tasks", "--all")
    assert "\x1b[" in shown, "colours, on a terminal"
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    assert max(map(columns, lines)) <= 80
    for row in night.rows.values():
        line = next(line for line in lines if line.split()[:1] == [row["id"]])
        assert row["shown"] in line
        assert row["title"][:9] in line
        if row["note"]:
            assert row["note"][:50] in lines[lines.index(line) + 1]
    shown = terminal(night.home, "tasks", "--all", width=120)
    bold = next(line for line in shown.splitlines() if line.startswith(night.ids["own words"] + " "))
    assert "\x1b[1mtells" in bold, "an override is bold"
    dim = next(line for line in shown.splitlines() if line.startswith(night.ids["in a repository"] + " "))
    assert "\x1b[2mok" in dim, "what is inherited is dim"


# ---- adding


def test_add_takes_everything_and_says_what_it_made(home: Scratch) -> None:
    place = home.place("here")
    made = home.ok("add", "one", "--json", cwd=place).json()
    assert made == {"id": "t1", "title": "one", "cwd": str(place)}
    options = (
        "-d", "text", "-p", 0, "--after", "t1", "--coder", "codex", "--model", "m", "--check", "make test",
        "--timeout", "1h30m", "--attempts", 5, "--output", "5MB",
        "--silence", "20m", "--tokens", "2M", "--cost", "none", "--place", "inplace",
    )  # fmt: skip
    assert home.ok("add", "two", *options, cwd=place).out == "Added t2: two\n"
    shown = home.shown("t2")
    assert {name: value for name, value in shown["spec"].items() if value is not None} == {
        "cwd": str(place), "coder": "codex", "model": "m", "check": "make test", "timeout": 5400.0, "attempts": 5,
        "output": 5_000_000, "silence": 1200.0, "tokens": 2_000_000, "cost": 0.0,
        "place": "inplace",
    }  # fmt: skip
    assert (shown["description"], shown["row"]["priority"], shown["row"]["waits_for"]) == ("text", 0, ["t1"])
    assert home.add("--once") == "t3", "a title that looks like an option, behind --"
    ready = home.ok("ready").out.splitlines()
    assert ready == [f"t1  one  [{place}]", f"t3  --once  [{home.root}]"]
    assert [row["id"] for row in home.ok("ready", "--json", "--limit", 1).json()] == ["t1"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["  "], 2, "the title is empty"),
        (["two\nlines"], 2, "one line"),
        (["\x1b[2J"], 2, "control characters"),
        (["x" * 501], 2, "500 fit"),
        (["x", "--cwd", "/no/such/directory"], 2, "/no/such/directory does not exist"),
        (["x", "--coder", "cluade"], 2, "did you mean claude?"),
        (["x", "--after", "t99"], 3, "there is no task t99"),
        (["x", "--after", "../.."], 3, "no task"),
        (["x", "--timeout", "soon"], 2, "--timeout must be seconds"),
        (["x", "--timeout", "0s"], 2, "--timeout must be over 0"),
        (["x", "--check", " "], 2, "--check must be a command, and is empty"),
        (["x", "--output", "-1"], 2, "--output must be bytes"),
        (["x", "--silence", "soon"], 2, "--silence must be seconds"),
        (["x", "--silence", "0.01s"], 2, "--silence must be from 0.1s to 720h, or none"),
        (["x", "--tokens", "many"], 2, "--tokens must be tokens as a number, or such as 500k or 2M, or none"),
        (["x", "--cost", "-1"], 2, "--cost must be US dollars"),
        (["x", "--attempts", "0"], 2, "--attempts"),
        (["x", "--priority", "5"], 2, "--priority"),
        (["x", "--model", "a\nb"], 2, "model must be a name"),
        (["x", "--check", " "], 2, "check must be a command"),
        (["x", "-d", "a\0b"], 2, "NUL"),
    ],
)
def test_add_refuses_what_nobody_can_mean_and_makes_nothing(
    home: Scratch, args: list[str], code: int, said: str
) -> None:
    stdin = args[args.index("-d") + 1] if "-d" in args else ""
    ran = home.fleet("add", *["-" if "\0" in one else one for one in args], stdin=stdin)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert home.tasks() == {}
    assert list((home.home / "tasks").iterdir()) == []


# ---- once, drain, and the machine's own limits


def test_once_starts_what_fits_and_no_more(home: Scratch) -> None:
    home.settle("coder=fails", "max_concurrent=2", "backoff=0s", coders={"fails": {}})
    home.add_all(dict.fromkeys(("one", "two", "three"), ("--cwd", home.place("p"))))
    home.ok("run", "--once")
    assert sorted(row["attempts"] for row in home.tasks().values()) == [0, 1, 1]
    assert {row["state"] for row in home.tasks().values()} == {"open"}
    causes = {row["cause"] for row in home.tasks().values() if row["attempts"]}
    assert causes == {"attempt 1: the agent exited with 3; to be tried again"}


def test_the_machines_limits_are_named_too(home: Scratch) -> None:
    home.settle(
        "limits.timeout=0.5s",
        "limits.output=1kB",
        "limits.attempts=1",
        coders={"silent": {}, "shouts": {}, "fails": {}},
    )
    where = ("--cwd", home.place("p"), "--coder")
    ids = home.add_all({name: (*where, name) for name in ("silent", "shouts", "fails")})
    home.drain()
    rows = home.tasks()
    assert "(limit timeout, set by runtime.toml)" in rows[ids["silent"]]["cause"]
    assert "(limit output, set by runtime.toml)" in rows[ids["shouts"]]["cause"]
    assert rows[ids["fails"]]["cause"].endswith(f"; your turn (1 try): fleet show {ids['fails']} · retry")
    given, not_given = ("timeout", "attempts", "output"), ("silence", "tokens", "cost")
    origins = dict.fromkeys(given, "machine") | dict.fromkeys(not_given, "default")
    assert home.shown(ids["fails"])["history"][0]["origins"] == origins


def test_run_with_a_coder_goes_between_the_task_and_the_machine(home: Scratch) -> None:
    flags = {"model_flag": "--model"}
    again = flags | {"argv": [str(HERE / "tells")]}
    home.settle("coder=tells", "model=machine-model", coders={"tells": flags, "other": again, "third": again})
    where = ("--cwd", home.place("p"))
    ids = home.add_all({"plain": where, "modelled": (*where, "--model", "own"), "third": (*where, "--coder", "third")})
    home.drain("--coder", "other")
    rows = home.tasks()
    assert {name: (rows[ids[name]]["coder"], rows[ids[name]]["model"]) for name in ids} == {
        "plain": ("other", None),
        "modelled": ("other", "own"),
        "third": ("third", None),
    }
    assert home.fleet("run", "--drain", "--coder", "nobody").code in (2, 3)
    assert home.fleet("run", "--once", "--drain").code == 2
    assert home.fleet("run", "--detach", "--drain").code == 2


@pytest.mark.long
def test_a_supervisor_that_left_between_settling_and_the_end_leaks_no_slot(home: Scratch) -> None:
    home.settle("coder=ok", "max_concurrent=1", coders={"ok": {}})
    place = home.place("p")
    for number in range(3):
        task = home.add(f"task {number}", "--cwd", place)
        supervisor = home.run()
        supervisor.hear("settled", task=task)
        supervisor.stop(signal.SIGKILL)
    last = home.add("the last one", "--cwd", place)
    assert home.fleet("run", "--drain").code == 0
    assert home.task(last)["state"] == "done"
    assert home.fleet("run", "--drain").code == 0, "and the next one ends as well"


# ---- a person at the desk


def test_a_live_queue(home: Scratch) -> None:
    """Urgency, limits that change while agents run, a second supervisor, abort and retry, and letting go."""
    home.settle("coder=waits", "max_concurrent=1", coders={"waits": {}, "fails": {}})
    where = ("--cwd", home.place("p"))
    low, high = home.add("low", *where, "-p", 4), home.add("high", *where, "-p", 1)
    supervisor = home.run()
    supervisor.hear("agent started", task=high)
    supervisor.hear("agent started", attempt=f"{high}.1")
    until(lambda: home.task(high)["state"] == "working")
    assert home.task(low)["state"] == "open"
    _a_second_supervisor_is_refused(home)
    assert f"{high}  [waits/sonnet] high" in home.ok("task", "--help").out
    assert low not in home.ok("task", "--help").out
    assert home.fleet("retry", high).code == 1, "it is being worked on"

    urgent = home.add("urgent", *where, "-p", 0)
    home.open_gate(high)
    supervisor.hear("agent started", task=urgent)
    assert home.task(low)["state"] == "open", "the more urgent one went first"
    home.settle("max_concurrent=2")
    supervisor.hear("agent started", task=low)

    assert home.ok("abort", low).out == f"Cancelled {low}\n"
    supervisor.hear("settled", task=low)
    assert (home.task(low)["state"], home.task(low)["cause"]) == ("cancelled", "cancelled: by hand")
    assert home.fleet("abort", low).code == 1, "it is closed already"
    _a_task_in_its_backoff_is_tried_again_at_once(home, where)
    _letting_go(home, urgent)


def _a_second_supervisor_is_refused(home: Scratch) -> None:
    first = home.ok("run", "status", "--json").json()
    assert first["running"] is True
    for args in (["run"], ["run", "--drain"], ["run", "--detach"]):
        ran = home.fleet(*args)
        assert ran.code == 1
        assert f"a supervisor already runs for {home.home}: process {first['pid']}" in ran.err
    os.kill(first["pid"], signal.SIGSTOP)
    try:
        said = until(lambda: ran.out if (ran := home.fleet("run", "status")).code == 1 else "")
    finally:
        os.kill(first["pid"], signal.SIGCONT)
    assert f"kill -CONT {first['pid']}" in said


def _a_task_in_its_backoff_is_tried_again_at_once(home: Scratch, where: tuple[object, ...]) -> None:
    home.settle("backoff=10min")
    task = home.add("fails", *where, "--coder", "fails")
    until(lambda: home.task(task)["attempts"] and home.task(task)["state"] == "open")
    assert home.task(task)["cause"].startswith("attempt 1: the agent exited with 3; to be tried again; not before ")
    assert home.ok("retry", task).out == f"Opened {task}\n"
    until(lambda: home.task(task)["attempts"] == 2 and home.task(task)["state"] == "open")
    assert home.shown(task)["history"][0]["forgiven"] is True
    home.ok("abort", task)
    assert home.task(task)["state"] == "cancelled"
    home.settle("backoff=0s")


def _letting_go(home: Scratch, urgent: str) -> None:
    agents = home.agents()
    assert home.ok("run", "stop", "--json").json()["stopped"] is True
    assert home.fleet("run", "status").code == 1
    assert agents == home.agents()
    assert all(map(alive, agents)), "the agent lives on"
    row = home.task(urgent)
    assert (row["state"], row["cause"]) == ("working", "no supervisor runs")
    again = home.run("--drain")
    again.hear("agent adopted", task=urgent)
    home.open_gate(urgent)
    assert again.wait() == 0
    row = home.task(urgent)
    assert (row["state"], row["attempts"]) == ("done", 1)
    assert home.shown(urgent)["history"][0]["forgiven"] is False


def test_limits_of_a_coder_and_of_a_model_hold_up_nobody_else(home: Scratch) -> None:
    again = {"argv": [str(HERE / "waits")]}
    home.settle(
        "max_concurrent=10", "concurrent.coders.waits=1", "concurrent.models.big=1", coders={"waits": {}, "free": again}
    )
    where = ("--cwd", home.place("p"), "--coder")
    a1, a2 = home.add("a1", *where, "waits"), home.add("a2", *where, "waits")
    b1, b2 = (home.add(name, *where, "free", "--model", "big") for name in ("b1", "b2"))
    free = home.add("free", *where, "free")
    supervisor = home.run()
    supervisor.hear("agent started", task=free)
    assert {one["task"] for one in supervisor.all("claimed")} == {a1, b1, free}
    for first, second in ((a1, a2), (b1, b2)):
        home.open_gate(first)
        supervisor.hear("agent started", task=second)
        order = [(one["event"], one.get("task")) for one in supervisor.records]
        assert order.index(("settled", first)) < order.index(("claimed", second))


def test_abort_works_without_a_supervisor(home: Scratch) -> None:
    home.settle("coder=waits", coders={"waits": {}})
    task = home.add("left alone", "--cwd", home.place("p"))
    supervisor = home.run()
    supervisor.hear("agent started", task=task)
    until(home.artifact(task, "gate").exists)
    supervisor.stop(signal.SIGKILL)
    assert home.agents()
    home.ok("abort", task)
    assert home.agents() == []
    assert (home.task(task)["state"], home.task(task)["cause"]) == ("cancelled", "cancelled: by hand")
    for early in (home.fleet("retry", task), home.fleet("block", task, "later")):
        assert early.code == 1
        assert f"{task}.1 is not settled yet, and no supervisor runs" in early.err, "nobody is at work on it"
        assert "next: fleet run" in early.err
    assert (home.task(task)["elapsed"], home.task(task)["idle"]) == (None, None), "no clock of it runs on"
    home.drain()
    row = home.task(task)
    assert (row["state"], row["attempts"]) == ("cancelled", 1)
    assert home.shown(task)["history"][0]["verdict"] == "cancelled"
    home.ok("retry", task)
    assert home.task(task)["state"] == "open", "a person can want it after all"


def test_abort_ends_a_check_as_well(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}})
    task = home.add("checked", "--cwd", home.place("p"), "--check", "echo $$ >checking; exec sleep 100000")
    supervisor = home.run()
    until((home.root / "p" / "checking").exists)
    home.ok("abort", task)
    supervisor.hear("settled", task=task)
    assert home.agents() == []
    assert home.task(task)["state"] == "cancelled"


def test_detached_it_outlives_the_command_and_stops_when_told(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}})
    nobody = home.fleet("run", "status")
    assert (nobody.code, nobody.out) == (1, f"no supervisor runs for {home.home}\n")
    who = home.ok("run", "--detach", "--json").json()
    try:
        assert home.ok("run", "status").out.startswith(f"the supervisor runs: process {who['pid']} since ")
        task = home.add("one", "--cwd", home.place("p"))
        until(lambda: home.task(task)["state"] == "done")
    finally:
        assert home.ok("run", "stop").out == f"stopped the supervisor, process {who['pid']}\n"
    assert not alive(who["pid"])
    assert "no supervisor was running" in home.ok("run", "stop").err


def test_settings_that_break_while_it_runs_are_reported_and_the_last_good_ones_kept(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}})
    place = home.place("p")
    supervisor = home.run()
    file = home.home / "runtime.toml"
    good = file.read_text()
    file.write_text(good + "\nmax_concurrent = [")
    assert "runtime.toml" in supervisor.hear("settings not taken", level="warning")["text"]
    assert home.fleet("add", "x", "--cwd", place).code == 2
    file.write_text(good)
    task = home.add("one", "--cwd", place)
    supervisor.hear("settled", task=task, verdict="accepted")
    assert supervisor.stop() == 0


def test_on_a_terminal_the_supervisor_shows_a_live_table(home: Scratch) -> None:
    home.settle("coder=waits", coders={"waits": {}})
    task = home.add("watched", "--cwd", home.place("p"))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    argv = [sys.executable, "-m", "fleet", "run", "--drain"]
    with subprocess.Popen(argv, env=home.env | {"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        while "● working".encode() not in shown and select.select([master], [], [], WITHIN)[0]:
            shown += heard(master)
        home.open_gate(task)
        while chunk := heard(master):
            shown += chunk
        assert process.wait(WITHIN) == 0
    os.close(master)
    text = shown.decode()
    assert text.startswith("\x1b[?1049h")
    _, left, after = text.rpartition("\x1b[?1049l")
    assert left, "the terminal is as it was"
    assert after.strip() == "stopped. p: 1 done · 1 of unknown cost"
    assert re.search(rf"{task} .*working.*watched", text)


def test_a_task_can_be_commented_made_to_wait_and_set_aside(home: Scratch) -> None:
    first, second = home.add("first"), home.add("second")
    home.ok("comment", second, "not before Monday \x1b[31m")
    assert home.ok("depend", second, first).out == f"{second} waits for {first}\n"
    assert (home.task(second)["state"], home.task(second)["cause"]) == ("blocked", f"waits for {first}")
    assert home.fleet("depend", first, second).code == 2, "a circle"
    home.ok("block", first, "wait for the release")
    assert (home.task(first)["state"], home.task(first)["cause"]) == ("blocked", "wait for the release")
    assert home.ok("ready", "--json").json() == []
    shown = home.ok("show", second).out
    assert "not before Monday" in shown
    assert "\x1b" not in shown
    assert home.shown(second)["comments"][0]["text"] == "not before Monday \x1b[31m"
    home.ok("retry", first)
    assert [row["id"] for row in home.ok("ready", "--json").json()] == [first]

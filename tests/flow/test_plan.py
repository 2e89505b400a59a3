"""A plan goes into the queue through the real program: whole, in an order that holds, or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch

PLAN = """\
# Release

- [x] Set up (id: setup)
- [ ] Build the API (id: api; after: setup, db; check: `test -d .; true`)
  - [ ] Routes (priority: 0)
- [ ] Choose a database (id: db; model: big)
  `$(touch owned)` --help
- [ ] Write the docs (after: api)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


@pytest.fixture
def plan(home: Scratch) -> Path:
    path = home.root / "plan.md"
    path.write_text(PLAN)
    return path


def test_a_plan_is_added_in_an_order_that_holds_and_told_line_by_line(home: Scratch, plan: Path) -> None:
    said = home.ok("add", "--file", plan)
    assert said.out == (
        "t1  Choose a database\nt2  Routes  (after t1)\nt3  Build the API  (after t1, t2)\n"
        "t4  Write the docs  (after t3)\n"
    )
    assert said.err == "done already and not added: line 3\n  no supervisor runs; start one: fleet run\n"
    assert [row["id"] for row in home.ok("ready", "--json").json()] == ["t1"]
    shown = home.shown("t1")
    assert (shown["description"], shown["spec"]["model"]) == ("`$(touch owned)` --help", "big")
    assert home.shown("t3")["spec"]["check"] == "test -d .; true"
    assert (home.task("t2")["priority"], home.task("t3")["waits_for"]) == (0, ["t1", "t2"])
    assert not (home.root / "owned").exists()


def test_a_dry_run_adds_nothing(home: Scratch, plan: Path) -> None:
    said = home.ok("add", "--file", plan, "--dry-run")
    assert said.out.splitlines()[-1] == "#5  Write the docs  (after api)"
    assert said.err.endswith("4 tasks would be added; nothing was\n")
    assert [one["id"] for one in home.ok("add", "--file", plan, "--dry-run", "--json").json()] == [None] * 4
    assert home.tasks() == {}


def test_json_has_the_order_of_the_file_with_keys_and_ids(home: Scratch, plan: Path) -> None:
    found = home.ok("add", "--file", plan, "--json").json()
    assert [(one["key"], one["id"], one["after"], one["line"]) for one in found] == [
        ("api", "t3", ["t1", "t2"], 4), ("#3", "t2", ["t1"], 5), ("db", "t1", [], 6), ("#5", "t4", ["t3"], 8)
    ]  # fmt: skip


def test_options_hold_for_tasks_that_do_not_say_and_the_whole_plan_waits(home: Scratch, plan: Path) -> None:
    home.add("Before everything")
    place = home.place("elsewhere")
    options = ("--priority", 3, "--model", "small", "--check", "make", "--attempts", 2, "--after", "t1", "--cwd", place)
    home.ok("add", "--file", plan, *options)
    rows = home.tasks()
    assert [rows[f"t{n}"]["priority"] for n in (2, 3, 4)] == [3, 0, 3]
    assert [rows[f"t{n}"]["model"] for n in (2, 3)] == ["big", "small"]
    assert [home.shown(f"t{n}")["spec"]["check"] for n in (2, 4)] == ["make", "test -d .; true"]
    assert all("t1" in rows[f"t{n}"]["waits_for"] and rows[f"t{n}"]["cwd"] == str(place) for n in (2, 3, 4, 5))


def test_a_task_may_wait_for_one_that_is_in_the_queue(home: Scratch) -> None:
    home.add("Before")
    home.ok("add", "--file", "-", stdin='{"title": "After", "after": "t1"}')
    assert home.task("t2")["waits_for"] == ["t1"]


def test_nothing_is_added_when_anything_is_wrong_and_all_of_it_is_said(home: Scratch) -> None:
    text = """\
- [ ] a (id: a; after: b; priority: 9)
- [ ] b (id: b; after: c)
- [ ] c (id: c; after: a; coder: cloud)
- [ ] d (id: delt; after: delta, t7; cwd: nowhere)
- [ ] e\x1b[2J
"""
    path = home.root / "bad.md"
    path.write_text(text)
    said = home.fleet("add", "--file", path)
    assert (said.code, said.out) == (2, "")
    assert "\x1b" not in said.err
    lines = [line.removeprefix(f"  {path}:").partition("; there are ")[0] for line in said.err.splitlines()]
    assert lines == [
        "Invalid bad.md:",
        "1:1: a priority is 0 (most urgent) to 4, not 9",
        "1:1: a waits for itself: a after b after c after a",
        "3:1: there is no coder 'cloud' (did you mean claude?)",
        "4:1: it waits for 'delta', which is no task of this file or the queue (did you mean delt?)",
        "4:1: it waits for 't7', which is no task of this file or the queue",
        f"4:1: the directory {home.root}/nowhere does not exist",
        "5:1: the title must be one line without control characters; more fits in the description",
        "  next: mend them and try again; nothing was added",
    ]
    assert home.tasks() == {}


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("--file", "-"), "- one\n- two\n", 2, "stdin:1:1: there is no task in it; a task is a list item"),
        (("--file", "-", "--format", "json"), "- [ ] a", 2, "it is not JSON"),
        (("--file", "nowhere.md"), "", 3, "there is no file nowhere.md"),
        (("--file", "."), "", 1, "not a regular file"),
        (("--file", "-", "a title"), "- [ ] a", 2, "stand in the file"),
        (("--file", "-", "-d", "words"), "- [ ] a", 2, "stand in the file"),
        (("--file", "-", "--after", "t9"), "- [ ] a", 3, "there is no task t9"),
        (("--file", "-"), "x" * (10 * 1024 * 1024 + 1), 2, "stdin is larger than 10 MiB"),
        (("--dry-run", "a title"), "", 2, "need --file"),
        ((), "", 2, "Missing argument 'TITLE'"),
    ],
)
def test_what_cannot_be_is_refused(home: Scratch, args: tuple[str, ...], stdin: str, code: int, said: str) -> None:
    ran = home.fleet("add", *args, stdin=stdin)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("content", "titles"),
    [
        (b"\xef\xbb\xbf- [ ] a\r\n\ttext\r\n- [ ] b\tc\r\n", ["a", "b c"]),
        (b'\xef\xbb\xbf[{"title": "a"}]', ["a"]),
        (b"- [ ] a\n- [ ] \xff\n", "odd:2:1: it is not UTF-8"),
        ("- [ ] a".encode("utf-16"), "odd:1:1: it is not UTF-8"),
        (b"- [ ] a\n  b\0c\n", "odd:1:1: the description holds a NUL character"),
        (b"- [ ] " + b"x" * 501, "odd:1:1: the title is 501 characters long"),
    ],
)  # fmt: skip
def test_files_of_any_kind_are_read_or_refused(home: Scratch, content: bytes, titles: list[str] | str) -> None:
    (home.root / "odd").write_bytes(content)
    ran = home.fleet("add", "--file", "odd", cwd=home.root)
    assert titles in ran.err if isinstance(titles, str) else ran.code == 0
    assert [row["title"] for row in home.tasks().values()] == ([] if isinstance(titles, str) else titles)


def test_a_supervisor_starts_each_task_after_what_it_waits_for(home: Scratch, plan: Path) -> None:
    home.settle("coder=ok", "model=", "max_concurrent=4", coders={"ok": {}})
    place = home.place("work")
    running = home.run()
    home.ok("add", "--file", plan, "--cwd", place)
    running.hear("settled", task="t4")
    assert running.stop() == 0
    started = [one["task"] for one in running.all("claimed")]
    assert started == ["t1", "t2", "t3", "t4"]


def test_a_reader_who_goes_away_does_not_cut_a_plan_short(home: Scratch) -> None:
    (home.root / "plan.md").write_text("- [ ] One more\n" * 30)
    argv = [sys.executable, "-m", "fleet", "add", "--file", "plan.md"]
    with subprocess.Popen(argv, cwd=home.root, env=home.env, stdout=subprocess.PIPE, bufsize=0) as adding:
        assert adding.stdout is not None
        adding.stdout.close()
        assert adding.wait(60) == 141
    assert len(home.tasks()) == 30


def test_a_plan_that_is_cut_off_goes_on_from_the_file_that_is_named(home: Scratch) -> None:
    home.ok("tasks")
    text = "".join(f'{{"id": "k{n}", "title": "Task {n}", "after": ["k{n - 1}"]}}\n' for n in range(1, 300))
    (home.root / "plan.jsonl").write_text('{"id": "k0", "title": "Task 0", "check": "true"}\n' + text)
    argv = [sys.executable, "-m", "fleet", "add", "--file", "plan.jsonl"]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(argv, cwd=home.root, env=home.env, stdout=pipe, stderr=pipe, bufsize=0) as adding,
        closing(sqlite3.connect(home.home / "fleet.db", timeout=30, isolation_level=None)) as held,
    ):
        assert adding.stdout is not None
        assert adding.stdout.readline() == b"t1  Task 0\n"
        held.execute("BEGIN IMMEDIATE")
        out, err = adding.communicate(timeout=60)
        held.execute("ROLLBACK")
    said = err.decode()
    made = len(out.splitlines()) + 1
    assert adding.returncode == 1
    assert "fleet.db is busy" in said
    assert f"\n{made} of 300 tasks were added: t1" in said
    assert f"\nthe next was k{made}, 'Task {made}'; look whether it is there: fleet tasks\n" in said
    assert len(home.tasks()) == made
    home.ok("add", "--file", said.split("fleet add --file ")[1].strip(), cwd=home.root)
    rows = home.tasks()
    assert [row["title"] for row in rows.values()] == [f"Task {n}" for n in range(300)]
    assert [row["waits_for"] for row in rows.values()] == [[], *([f"t{n}"] for n in range(1, 300))]
    assert len({row["cwd"] for row in rows.values()}) == 1

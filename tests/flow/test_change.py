"""Changing one's mind about tasks that are in the queue, through the real program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import parts
from standins.coders.scratch import Scratch, scratch, until
from standins.window import terminal


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def spec(home: Scratch, task: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((home.home / "tasks" / task / "task.json").read_text())
    return found


def test_a_task_is_changed_and_what_is_wrong_changes_nothing(home: Scratch) -> None:
    first, task = home.add("first"), home.add("second", "--check", "true", "--timeout", "1h", "--allow", "a/**")
    moved = home.place("moved")
    done = home.ok(
        "edit", task, "--title", "other", "-d", "-", "-p", 0, "--check", "test -f x", "--cwd", moved,
        "--after", first, "--allow", "b/**", "--attempts", 2, "--clear", "timeout", stdin="at length",
    )  # fmt: skip
    said = "title, description, priority, cwd, check, attempts, allow, timeout, after"
    assert sorted(done.out.removeprefix(f"Changed {task}: ").strip().split(", ")) == sorted(said.split(", "))
    shown = home.shown(task)
    assert (shown["row"]["title"], shown["description"], shown["row"]["priority"]) == ("other", "at length", 0)
    assert shown["row"]["waits_for"] == [first]
    assert spec(home, task) == {"cwd": str(moved), "check": "test -f x", "attempts": 2, "allow": ["b/**"]}
    before = shown
    for wrong, code, why in (
        (("--coder", "cluade", "--title", "x"), 2, "there is no coder 'cluade' (did you mean claude?)"),
        (("--cwd", home.root / "nowhere"), 2, "does not exist"),
        (("--title", " "), 2, "the title is empty"),
        (("--check", "true", "--clear", "check"), 2, "contradict each other"),
        (("--not", "t9", "--title", "x"), 1, "does not wait for t9"),
        (("--after", "t99", "--title", "x"), 3, "there is no task t99"),
        (("--after", task, "--title", "x"), 2, "cannot wait for itself"),
        ((), 2, "what is to be changed?"),
    ):
        refused = home.fleet("edit", task, *wrong)
        assert (refused.code, why in refused.err) == (code, True), refused.err
        assert "next: " in refused.err or code == 2
    assert home.shown(task) == before
    assert home.ok("depend", task, "--not", first, "--json").json() == {"id": task, "waits_for": []}
    (home.home / "tasks" / task / "task.json").write_text("{")
    assert f"fleet edit {task} --cwd" in home.fleet("edit", task, "--check", "true").err
    home.ok("edit", task, "--cwd", moved)
    assert spec(home, task) == {"cwd": str(moved)}


def test_what_an_agent_was_given_is_changed_for_the_next_attempt_only_and_stays_changed(home: Scratch) -> None:
    home.settle("coder=waits", "backoff=0s", coders={"waits": {}})
    first = home.add("first")
    task = home.add("watched", "--cwd", home.place("p"), "--check", "test -f never", "--attempts", 1)
    home.ok("block", first, "not now")
    supervisor = home.run()
    until(home.artifact(task, "gate").exists)
    refused = home.fleet("edit", task, "--check", "true")
    assert (refused.code, refused.err) == (
        1,
        f"fleet: {task}.1 runs, and was given the check as it was\n  next: for the next attempt only: "
        f"fleet edit {task} --force …; or end this one: fleet abort {task}\n",
    )
    assert home.ok("edit", task, "-p", 0, "--after", first, "--json").json()["goes_on_as_it_was"] is None
    home.ok("edit", task, "--not", first)
    forced = home.ok("edit", task, "--check", "true", "--force")
    assert f"{task}.1 goes on with what it was given; the next attempt differs" in forced.err
    home.open_gate(task)
    assert supervisor.hear("settled", task=task)["verdict"] == "refused", "the check that it was given decided"
    assert spec(home, task)["check"] == "true", "and the change was not taken for the agent's own"
    assert f"fleet retry {task}" in home.ok("edit", task, "--title", "again").err
    home.ok("retry", task)
    until(lambda: home.task(task)["attempts"] == 2 and home.task(task)["state"] == "working")
    home.open_gate(task)
    until(lambda: home.task(task)["state"] == "done")
    assert supervisor.stop() == 0


def test_several_tasks_at_once_are_listed_and_asked_about(home: Scratch) -> None:
    home.settle("coder=fails", "limits.attempts=1", coders={"fails": {}})
    bad = [home.add(f"bad {n}", "--cwd", home.place(f"p{n}")) for n in range(2)]
    home.drain()
    later = home.add("later", "--after", bad[0])
    assert "nobody can be asked here" in home.fleet("retry", "--state", "failed").err
    assert [home.task(one)["state"] for one in bad] == ["failed", "failed"]
    asked = terminal(home, "retry", "t*", typed="y\n")
    assert "open again 2 tasks?" in asked
    assert f"  {bad[0]}  failed  bad 0\n" in asked
    assert "later" not in asked
    assert [home.task(one)["state"] for one in bad] == ["open", "open"]
    aside = home.ok("block", *bad, "--reason", "until Monday")
    assert aside.out == "".join(f"Set aside {one}\n" for one in bad)
    assert home.task(later)["cause"] == f"waits for {bad[0]}, which is set aside: fleet retry {bad[0]}"
    some = home.fleet("abort", bad[0], "t99", "--json")
    assert some.code == 1
    assert some.json() == [
        {"id": bad[0], "state": "cancelled", "waiting": [later]},
        {"id": "t99", "problem": "there is no task t99"},
    ]
    way_out = f"fleet depend {later} --not {bad[0]}, or fleet abort {later}"
    assert f"  {later} waits for it: {way_out}\n" in some.err
    assert home.task(later)["cause"] == f"waits for {bad[0]}, which was cancelled: {way_out}"
    assert home.ok("abort", "--yes", "*").out == f"Cancelled {bad[1]}\nCancelled {later}\n"
    assert home.fleet("abort", "*", "--yes").code == 3
    assert home.fleet("retry").code == 2
    assert "no patterns" in home.fleet("accept", "t*").err
    assert home.fleet("accept", *bad).err.count("is closed already") == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [("stop", "run stop"), ("ls", "tasks"), ("ps", "tasks"), ("taks", "tasks")]
)
def test_what_people_type_is_understood(home: Scratch, typed: str, meant: str) -> None:
    assert f"there is no command {typed!r} (did you mean {meant}?)" in home.fleet(typed).err


def test_a_home_that_is_not_there_is_said_and_not_made(home: Scratch) -> None:
    wrong = home.root / "misspelt"
    for call in (("tasks",), ("abort", "t1"), ("list",), ("salvage", "list"), ("show", "t1", "--json")):
        ran = home.fleet(*call, env={"FLEET_HOME": str(wrong)})
        assert (ran.code, ran.out) == (3, "")
        assert f"FLEET_HOME is {wrong}, which does not exist" in ran.err
    assert home.fleet("tasks", "--help", env={"FLEET_HOME": str(wrong)}).code == 0
    assert not wrong.exists()


@pytest.mark.bd
def test_tasks_that_beads_keeps_are_changed_too(home: Scratch) -> None:
    env = {"PATH": f"{parts.find('bd').bin}:{home.env['PATH']}"}
    home.ok("init", "--home-only", "--tracker", "beads", env=env)
    first = home.add("first", env=env)
    task = home.add("second", "--after", first, env=env)
    home.ok("edit", task, "--title", "other", "--check", "true", "-p", 1, "--not", first, env=env)
    shown = home.ok("show", task, "--json", env=env).json()
    assert (shown["row"]["title"], shown["row"]["priority"], shown["row"]["waits_for"]) == ("other", 1, [])
    assert spec(home, task)["check"] == "true"
    home.ok("depend", task, first, env=env)
    assert f"  {task} waits for it: fleet depend" in home.ok("abort", first, env=env).err
    (row,) = home.ok("tasks", "--json", env=env).json()
    assert row["cause"].startswith(f"waits for {first}, which was cancelled: ")

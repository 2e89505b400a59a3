"""What holds tasks back, through the real program: windows that run dry, storms, memory, pauses, quiet hours, caps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch, until

METERED = {"events": "jsonl", "resume_flag": "--resume", "pass_env": ["PROVIDER", "TURNS"]}
NAMES = ("one", "two", "three")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def provider(home: Scratch, **state: object) -> Path:
    path = home.root / "provider.json"
    path.write_text(json.dumps({"used": {}, "asked": [], "turned_away": [], "window": 4.0, "most": 1000} | state))
    home.env |= {"PROVIDER": str(path), "TURNS": "4"}
    return path


def add_many(home: Scratch, tasks: list[dict[str, str]], place: Path) -> list[str]:
    """Add them all at once; their ids."""
    made = home.ok("add", "--file", "-", "--format", "json", "--cwd", place, "--json", stdin=json.dumps(tasks)).json()
    return [one["id"] for one in made]


def accounts(home: Scratch, *names: str) -> list[str]:
    return [
        line for name in names for line in (f"accounts.{name}.coder=metered", f"accounts.{name}.env.ACCOUNT={name}")
    ]


@pytest.mark.long
def test_twenty_tasks_go_on_when_windows_run_dry_each_in_its_own_session(home: Scratch) -> None:
    path = provider(home, most=20, window=12.0)
    home.settle(
        "coder=metered", "max_concurrent=20", "backoff=0s", *accounts(home, *NAMES), coders={"metered": METERED}
    )
    place = home.place("work")
    ids = add_many(
        home, [{"title": f"task {n}"} | ({"account": "two"} if n % 2 == 0 else {}) for n in range(20)], place
    )
    pinned = set(ids[::2])
    said = home.drain()
    rows = home.tasks()
    assert {row["state"] for row in rows.values()} == {"done"}
    told = json.loads(path.read_text())
    asked = [tuple(one) for one in told["asked"]]
    assert len(asked) == 20 * 4, "no turn was lost or done twice"
    assert {account for task, account in asked if task not in pinned} > {"one"}, "others were used when it was empty"
    assert {account for task, account in asked if task in pinned} == {"two"}
    closed = [one for one in said if one["event"] == "account closed"]
    used_up = {one["account"] for one in closed}
    assert used_up >= {"one"}
    history = [attempt for task in ids for attempt in home.shown(task)["history"]]
    limited = [one for one in history if one["ending"] == "rate limited"]
    assert limited
    assert all(one["verdict"] == "retry" for one in limited)
    resumed = {one["id"] for one in history if one["resumed"]}
    assert resumed, "an interrupted session was taken up again"
    assert {one["attempt"] for one in said if one["event"] == "turn began"} == {
        one["id"] for one in history if one["resumed"] and one["turned"]
    }
    known = {(one["coder"], one["account"], one["window"]) for one in home.ok("quota", "--json").json()}
    assert known >= {("metered", name, "five_hour") for name in used_up}


def test_a_storm_pauses_the_coder_and_burns_no_retries(home: Scratch) -> None:
    provider(home, refuses=503)
    home.settle("coder=metered", "max_concurrent=3", "limits.attempts=1", coders={"metered": METERED, "ok": {}})
    place = home.place("work")
    ids = home.add_all({f"task {n}": ("--cwd", place) for n in range(9)})
    supervisor = home.run()
    closed = supervisor.hear("account closed")
    assert "503" in closed["cause"]
    other = home.add("another", "--cwd", place, "--coder", "ok")
    supervisor.hear("settled", task=other, verdict="accepted")
    rows = home.tasks()
    tried = [rows[task]["attempts"] for task in ids.values()]
    assert max(tried) == 1
    assert sum(tried) <= 3 + 3, "three made a storm, three were on their way, and the others were not even begun"
    assert {rows[task]["state"] for task in ids.values()} == {"open"}
    assert all("tried again" in rows[task]["cause"] for task in ids.values() if rows[task]["attempts"])
    assert all(
        "3 runs were turned away in a minute" in rows[task]["cause"]
        for task in ids.values()
        if not rows[task]["attempts"]
    )
    table = home.ok("quota").out
    assert "metered" in table
    assert "closed until" in table
    assert supervisor.stop() == 0


@pytest.mark.long
def test_sixty_agents_wait_for_memory_rather_than_take_more_than_there_is(home: Scratch) -> None:
    """A machine that is told it has room for sixteen: what they use is measured, and never promised twice."""
    each = 40_000_000
    witness = home.root / "witness"
    witness.touch()
    home.settle(
        "coder=heavy", "max_concurrent=60", f"memory={16 * each}", f"agent_memory={each}",
        coders={"heavy": {"pass_env": ["TAKES", "WITNESS"]}},
    )  # fmt: skip
    home.env |= {"TAKES": str(each - 12_000_000), "WITNESS": str(witness)}  # the rest is the interpreter
    place = home.place("work")
    ids = add_many(home, [{"title": f"task {n}"} for n in range(60)], place)
    supervisor = home.run("--drain")
    cause = until(lambda: _cause(home, "memory"))
    assert "heavy needs" in cause
    assert supervisor.wait() == 0
    running, most = 0, 0
    for line in witness.read_text().splitlines():
        running += 1 if line.startswith("began") else -1
        most = max(most, running)
    assert 1 < most <= 16
    assert {row["state"] for row in home.tasks().values()} == {"done"}
    history = home.shown(ids[0])["history"]
    assert history[0]["memory"] >= each - 12_000_000, "it was measured"


def _cause(home: Scratch, word: str) -> str:
    return next((row["cause"] for row in home.tasks().values() if word in row["cause"]), "")


def test_pause_and_resume(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}, "tells": {}})
    here, there = home.place("here"), home.place("there")
    home.ok("pause", "--coder", "tells", "--reason", "too dear")
    (home.root / "link").symlink_to(here)
    home.ok("pause", "--project", home.root / "link")
    supervisor = home.run()
    ids = {
        "paused coder": home.add("a", "--cwd", there, "--coder", "tells"),
        "paused project": home.add("b", "--cwd", here),
        "free": home.add("c", "--cwd", there),
    }
    supervisor.hear("settled", task=ids["free"])
    rows = home.tasks()
    assert rows[ids["paused coder"]]["cause"] == "tells is paused: too dear"
    assert "is paused; fleet resume" in rows[ids["paused project"]]["cause"]
    assert home.fleet("pause", "--coder", "tels").code == 2
    assert home.fleet("pause", "--coder", "tells", "--project", here).code == 2
    assert "goes on" in home.ok("resume", "--coder", "tells").out
    supervisor.hear("settled", task=ids["paused coder"])
    assert "still paused" in home.ok("resume", "--coder", "tells").err
    home.ok("resume")
    supervisor.hear("settled", task=ids["paused project"])
    assert "Nothing was paused" in home.ok("resume").out
    assert supervisor.stop() == 0


def test_quiet_hours_and_the_limit_of_a_project(home: Scratch) -> None:
    now = datetime.now()
    span = f"{now - timedelta(minutes=2):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    here, there = home.place("here"), home.place("there")
    home.settle(
        "coder=waits", f'quiet_hours=["{span}"]', f'concurrent.projects."{here}"=1', "max_concurrent=5",
        coders={"waits": {}},
    )  # fmt: skip
    first, second = home.add("first", "--cwd", here), home.add("second", "--cwd", here)
    third = home.add("third", "--cwd", there)
    supervisor = home.run()
    assert "quiet hours until" in supervisor.hear("claims stopped")["cause"]
    assert "quiet hours until" in home.task(first)["cause"]
    home.ok("config", "set", "quiet_hours=[]")
    supervisor.hear("agent started", task=first)
    supervisor.hear("agent started", task=third)
    home.ok("resume")  # rings: it looks once more, and lets nobody else in
    fourth = home.add("fourth", "--cwd", there)
    supervisor.hear("agent started", task=fourth)
    assert home.task(second)["cause"] == f"waits for a slot: 1 of 1 run for {here}"
    home.open_gate(first)
    supervisor.hear("agent started", task=second)
    for task in (second, third, fourth):
        home.open_gate(task)
    supervisor.hear("settled", task=second)
    assert supervisor.stop() == 0


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="here the limit would be kept")
def test_a_limit_that_this_host_cannot_keep_is_said_to_be_so(home: Scratch) -> None:
    home.settle("coder=ok", "agent_memory_max=2GB", coders={"ok": {}})
    task = home.add("one", "--cwd", home.place("work"))
    said = home.drain()
    assert [one["limit"] for one in said if one["event"] == "memory limit not kept"] == [2 * 10**9]
    assert home.task(task)["state"] == "done"


def test_a_task_that_waits_long_comes_before_a_younger_one_that_is_a_little_more_urgent(home: Scratch) -> None:
    home.settle("coder=ok", "ageing=0.1s", coders={"ok": {}})
    place = home.place("work")
    old = home.add("old", "--cwd", place, "--priority", "4")
    began = time.time()
    until(lambda: time.time() - began > 0.5)
    young = home.add("young", "--cwd", place, "--priority", "0")
    order: list[Record] = home.ok("ready", "--json").json()
    assert [row["id"] for row in order] == [old, young]
    home.settle("ageing=1h")
    assert [row["id"] for row in home.ok("ready", "--json").json()] == [young, old]


def test_an_account_that_is_not_logged_in_costs_no_attempt_and_the_next_one_is_used(home: Scratch) -> None:
    provider(home, logged_out=["one"])
    home.settle(
        "coder=metered", "max_concurrent=1", "limits.attempts=1", *accounts(home, "one", "two"),
        coders={"metered": METERED},
    )  # fmt: skip
    place = home.place("work")
    ids = home.add_all({f"task {n}": ("--cwd", place) for n in range(2)})
    home.drain()
    found = [attempt for task in ids.values() for attempt in home.shown(task)["history"]]
    history = sorted(found, key=lambda one: float(one["started"]))
    assert [(one["account"], one["ending"]) for one in history] == [
        ("one", "not logged in"), ("two", "finished"), ("two", "finished")
    ]  # fmt: skip
    assert history[0]["cause"].startswith("metered (one) is not logged in: the provider answered 401")
    assert "metered (one) is tried again: one task goes first." in home.ok("resume").out


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("exit 3", "mine ends in seconds, without a word"),
        ("echo 'it cannot be used with root/sudo privileges' >&2; exit 1", "mine refuses to run as root"),
        ("echo 'Please log in' >&2; exit 1", "mine is not logged in"),
    ],
)
def test_a_coder_that_cannot_work_holds_its_queue_until_it_is_mended(home: Scratch, script: str, cause: str) -> None:
    home.settle(
        "coder=mine", "max_concurrent=1", "limits.attempts=5", "backoff=1s",
        coders={"mine": {"argv": ["sh", "-c", script]}, "ok": {}},
    )  # fmt: skip
    ids = home.add_all({f"task {n}": ("--cwd", home.place(f"w{n}")) for n in range(4)})
    other = home.add("another", "--cwd", home.place("other"), "--coder", "ok")
    ran = home.fleet("run", "--drain", "--json")
    assert ran.code == 1, ran.out
    (held,) = [one for one in map(json.loads, ran.out.splitlines()) if one["event"] == "tasks left held"]
    assert held["text"].startswith(f"{cause}: 4 tasks are held. ")
    assert held["text"].endswith("then fleet resume --account mine")
    assert sorted(held["tasks"].split()) == sorted(ids.values())
    rows = home.tasks()
    assert {rows[task]["state"] for task in ids.values()} == {"open"}
    assert all(rows[task]["cause"].endswith("then fleet resume --account mine") for task in ids.values())
    assert rows[other]["state"] == "done"

    home.settle(coders={"mine": {"argv": ["sh", "-c", "echo done > done.txt; echo done"]}})
    assert "mine is tried again: one task goes first." in home.ok("resume", "--account", "mine").out
    home.drain()
    rows = home.tasks()
    assert {rows[task]["state"] for task in ids.values()} == {"done"}

"""What agents cost, and what is not spent any more: through the real program, with stand-ins that tell their use."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.evidence.ledger import Ledger
from standins.coders.scratch import Record, Scratch, scratch, until

FLEET_YAML = """\
project: {name: own}
nodes: {only: {endpoint: "http://127.0.0.1:9"}}
models: {m: {node: only, ollama_model: "demo:7b", litellm_alias: own-coder}}
agents: {builder: {model: m, description: does things}}
"""
SONNET = "claude-sonnet-4-5"  # 3 dollars a million read, 15 a million written


def tells(model: str, then: str = "", **told: object) -> Record:
    """A coder that works, and tells of one request: a million read, 100,000 written."""
    usage = {"kind": "usage", "model": model, "usage": {"prompt": 1_000_000, "completion": 100_000}, **told}
    script = f"cat >/dev/null; echo x >>work.txt; echo '{json.dumps(usage)}'; {then}"
    return {"argv": ["/bin/sh", "-c", script], "events": "jsonl"}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scratch, dict[str, str]]]:
    with scratch(tmp_path_factory.mktemp("day")) as home:
        home.settle(
            "coder=says", "model=", "max_concurrent=6", "backoff=0s",
            coders={
                "says": tells("some-model", spent=0.1), "counts": tells(SONNET), "own": tells("own-coder", spent=7.5),
                "mystery": tells("nobody-knows-it"), "ok": {}, "endless": tells(SONNET, "exec sleep 100000"),
            },
        )  # fmt: skip
        project = home.place("project")
        (project / "fleet.yaml").write_text(FLEET_YAML)
        elsewhere: dict[str, tuple[object, ...]] = {
            name: ("--cwd", home.place(name), "--coder", name) for name in ("says", "counts", "mystery", "ok")
        }
        more: dict[str, tuple[object, ...]] = {
            "own": ("--cwd", project, "--coder", "own"),
            "says again": ("--cwd", home.place("again"), "--coder", "says"),
            "capped": ("--cwd", home.place("capped"), "--coder", "endless", "--cost", "4"),
        }
        ids = home.add_all(elsewhere | more)
        home.drain()
        yield home, ids


def rows(home: Scratch, *args: str) -> dict[str, Record]:
    found = home.ok("cost", "--json", *args).json()
    return {row["name"]: row for row in found["rows"]} | {"": found["total"]}


def test_every_attempt_has_its_cost_or_says_that_it_is_unknown(day: tuple[Scratch, dict[str, str]]) -> None:
    """3 dollars for a million read and 1.50 for 100,000 written are 4.50."""
    home, ids = day
    found = rows(home, "--by", "task")
    facts = {name: (found[task]["cost"], found[task]["basis"], found[task]["unknown"]) for name, task in ids.items()}
    assert facts == {
        "says": (0.1, ["reported"], 0),
        "says again": (0.1, ["reported"], 0),
        "counts": (4.5, ["estimated"], 0),
        "capped": (4.5, ["estimated"], 0),
        "own": (0.0, ["local"], 0),
        "mystery": (None, ["unknown"], 1),
        "ok": (None, ["unknown"], 1),
    }
    assert (found[""]["cost"], found[""]["unknown"], found[""]["tokens"]) == (9.2, 2, 6 * 1_100_000)


@pytest.mark.parametrize(
    ("by", "costs"),
    [
        ("coder", {"says": 0.2, "counts": 4.5, "endless": 4.5, "own": 0.0, "mystery": None, "ok": None}),
        ("model", {"some-model": 0.2, SONNET: 9.0, "own-coder": 0.0, "nobody-knows-it": None, "unknown": None}),
        ("agent", {"not through the gateway": 9.2}),
    ],
)
def test_costs_are_added_up_by_what_is_asked(
    day: tuple[Scratch, dict[str, str]], by: str, costs: dict[str, float | None]
) -> None:
    found = rows(day[0], "--by", by, "--since", "1d")
    assert {name: row["cost"] for name, row in found.items()} == costs | {"": 9.2}


def test_a_day_is_one_by_the_clock_on_the_wall(day: tuple[Scratch, dict[str, str]]) -> None:
    """14 hours east of Greenwich it is another day than 10 hours west of it."""
    home, _ = day
    east, west = (
        home.ok("cost", "--by", "day", "--json", env={"TZ": zone}).json()["rows"][0]["name"]
        for zone in ("EEE-14", "WWW10")
    )
    assert east > west
    assert home.fleet("cost", "--since", "tomorrowish").code == 2


def test_people_read_the_same(day: tuple[Scratch, dict[str, str]]) -> None:
    home, _ = day
    said = home.ok("cost", "--by", "coder").out
    lines = {line.split()[0]: line.split() for line in said.splitlines()}
    assert {"$4.50", "estimated"} <= set(lines["counts"])
    assert {"$0.00", "local"} <= set(lines["own"])
    assert "unknown" in lines["mystery"]
    assert lines["total"][6:10] == ["$9.20", "+", "2", "unknown"]
    assert "BY GATEWAY" not in said, "there was none"


def test_a_cost_limit_is_kept_by_an_estimate_where_the_agent_tells_no_money(
    day: tuple[Scratch, dict[str, str]],
) -> None:
    home, ids = day
    row = home.task(ids["capped"])
    assert (row["state"], row["attempts"]) == ("failed", 1)
    assert row["note"] == "$4.50 spent, estimated (limit cost $4.00, set by the task)"
    (attempt,) = home.shown(ids["capped"])["history"]
    assert (attempt["cost"], attempt["estimate"]) == (None, 4.5)


def test_the_gateways_records_count_where_they_are_whole(day: tuple[Scratch, dict[str, str]]) -> None:
    home, ids = day
    task = ids["says"]
    attempt = Ledger(home.home).of(task)[0]
    told = {
        "prompt": 1_000_000,
        "completion": 100_000,
        "cost": 0.25,
        "model": "some-model",
        "node": "n",
        "status": "ok",
    }
    line = {"at": attempt.created + 1, "attempt": attempt.id, "alias": "own-coder", "wait": 0.5, "seconds": 2.0, **told}
    directory = home.home / "gateway"
    directory.mkdir(exist_ok=True)
    records = directory / "0123456789ab.requests.jsonl"
    records.write_text(json.dumps(line) + "\n" + '{"half a li')
    try:
        row = rows(home, "--by", "attempt")[attempt.id]
        assert (row["cost"], row["agent_cost"], row["gateway_cost"], row["counted"]) == (0.25, 0.1, 0.25, ["gateway"])
        assert row["differences"] == [f"{attempt.id}: the agent says $0.10, the gateway $0.25, which counts"]
        assert "the agent says $0.10" in home.ok("cost", "--by", "task").out
        records.write_text(json.dumps(line | {"prompt": 10}) + "\n")
        row = rows(home, "--by", "attempt")[attempt.id]
        assert (row["cost"], row["counted"]) == (0.1, ["agent"])
        assert row["differences"] == [
            f"{attempt.id}: the gateway saw 100010 of 1100000 tokens: the agent's word counts"
        ]
    finally:
        records.unlink()


@pytest.mark.parametrize("passed", ["end", pytest.param("leave", marks=pytest.mark.long)])
def test_when_the_days_money_is_spent_nothing_more_is_started_and_what_runs_is_ended_or_left(
    tmp_path: Path, passed: str
) -> None:
    with scratch(tmp_path) as home:
        home.settle(
            "coder=endless", "model=", "max_concurrent=1", "backoff=0s",
            'budget.day="4 USD"', f'budget.passed="{passed}"',
            coders={"endless": tells(SONNET, "exec sleep 100000")},
        )  # fmt: skip
        first, second = (home.add(name, "--cwd", home.place(name)) for name in ("first", "second"))
        running = home.run()
        if passed == "end":
            running.hear("settled", task=first, ending="budget spent", verdict="retry")
            said = "the day's budget is spent: $4.50 of $4.00, estimated (budget.day)"
            assert running.hear("claims stopped", cause=said)
            row = until(lambda: [one for one in home.tasks().values() if said in one["cause"] and one["id"] == second])[
                0
            ]
            assert (row["state"], "until" in row["cause"]) == ("open", True)
            status = home.ok("run", "status").out
            assert f"nothing more is started: {said}, until " in status
            assert home.ok("run", "status", "--json").json()["held_back"].startswith(said)
            home.settle("budget.day=50")
            running.hear("claims go on")
            assert running.hear("claimed", attempt=f"{first}.2") or running.hear("claimed", task=second)
        else:
            until(lambda: home.task(first)["tokens"] == 1_100_000)
            assert home.task(first)["state"] == "working"
            home.settle("max_concurrent=2")
            running.hear("claims stopped")
            assert (home.task(first)["state"], home.task(second)["state"]) == ("working", "open")


def test_a_coders_own_budget_holds_back_that_coder_alone(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        home.settle(
            "coder=ok", "model=", 'budget.coders.dear="1 USD"', coders={"ok": {}, "dear": tells(SONNET)},
        )  # fmt: skip
        dear, again, cheap = (
            home.add(name, "--cwd", home.place(name), "--coder", coder)
            for name, coder in (("dear", "dear"), ("again", "dear"), ("cheap", "ok"))
        )
        home.settle("max_concurrent=1")
        running = home.run()
        running.hear("settled", task=dear)
        running.hear("settled", task=cheap)
        why = until(lambda: home.task(again)["cause"])
        assert why.startswith("the day's budget of dear is spent: $4.50 of $1.00, estimated (budget.coders.dear)")


def test_yesterdays_money_is_not_todays(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        home.settle("coder=dear", "model=", 'budget.day="1 USD"', coders={"dear": tells(SONNET)})
        first = home.add("first", "--cwd", home.place("first"))
        home.drain()
        ledger = Ledger(home.home)
        (attempt,) = ledger.of(first)
        assert attempt.ended is not None
        ledger.save(replace(attempt, ended=attempt.ended - 86_400))
        second = home.add("second", "--cwd", home.place("second"))
        home.drain()
        assert home.task(second)["state"] == "done"
        assert time.time() - attempt.ended < 3600


def test_an_agent_that_can_be_told_is_given_what_is_left_of_the_day(tmp_path: Path) -> None:
    """A stand-in under the name of Claude Code, which writes down its options and tells what it cost."""
    with scratch(tmp_path) as home:
        program = home.place("bin") / "claude"
        result = json.dumps({"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": 1.25})
        use = {"type": "tool_use", "id": "1", "name": "Write", "input": {}}
        acts = json.dumps({"type": "assistant", "message": {"content": [use]}})
        program.write_text(f"#!/bin/sh\ncat >/dev/null\necho \"$@\" >options\necho '{acts}'\necho '{result}'\n")
        program.chmod(0o755)
        home.env["PATH"] = f"{program.parent}:{home.env['PATH']}"
        home.settle("coder=claude", "model=", "max_concurrent=1", "backoff=0s", 'budget.day="4 USD"')
        for name, options, left in (("one", (), "4.0000"), ("two", (), "2.7500"), ("three", ("--cost", "1"), "1.0000")):
            place = home.place(name)
            home.add(name, "--cwd", place, *options)
            home.drain()
            assert f"--max-budget-usd={left}" in (place / "options").read_text()
        assert rows(home, "--by", "coder")[""]["cost"] == 3.75

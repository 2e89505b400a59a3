"""What agents do, seen from outside, through the real program: who waits, who works, who loops, who never began."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import HERE, Record, Scratch, Supervisor, scratch, until

CODERS = ("prompts", "crunches", "lives_on", "repeats", "not_let_in")
TOLD: dict[str, object] = {"argv": [str(HERE / "repeats")], "events": "jsonl", "resume_flag": "--resume"}


@dataclass
class Seen:
    """One look at a supervisor and its agents, once it has said who needs somebody."""

    home: Scratch
    ids: dict[str, str]
    rows: dict[str, Record]
    table: str
    needs: dict[str, Record]
    supervisor: Supervisor

    def row(self, name: str) -> Record:
        return self.rows[self.ids[name]]

    def events(self, name: str, kind: str = "life_changed") -> list[Record]:
        return [one for one in events(self.home, self.ids[name]) if one["kind"] == kind]


def events(home: Scratch, task: str) -> list[Record]:
    path: Path = home.home / "tasks" / task / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with scratch(tmp_path_factory.mktemp("liveness")) as home:
        coders: dict[str, dict[str, object]] = {name: {"events": "jsonl"} for name in CODERS}
        missing: dict[str, dict[str, object]] = {"missing": {"argv": ["/nowhere/agent"], "events": "jsonl"}}
        home.settle(
            "model=", "max_concurrent=12", "backoff=0s", "limits.attempts=1", "liveness.ended_but_alive_after=0s",
            "liveness.looping=nudge", "liveness.silent=ask", coders=coders | missing | {"told": TOLD},
        )  # fmt: skip
        wanted: dict[str, tuple[object, ...]] = {
            name: ("--cwd", home.place(name), "--coder", name) for name in (*coders, *missing)
        }
        # nothing seen of it for so long is one more sign; for who is done that must be later than "ended-but-alive"
        wanted["nudged"] = ("--cwd", home.place("nudged"), "--coder", "told", "--silence", "3s")
        wanted["deaf"] = ("--cwd", home.place("deaf"), "--coder", "repeats", "--silence", "3s")
        wanted["lives_on"] += ("--silence", "15s")
        ids = home.add_all(wanted)
        supervisor = home.run()
        states = {"prompts": "waiting for input", "repeats": "looping"}
        needs = {name: supervisor.hear("needs you", task=ids[name], state=state) for name, state in states.items()}
        for name in ("not_let_in", "missing", "lives_on"):
            supervisor.hear("settled", task=ids[name])
        until(lambda: all("not nudged" in home.task(ids[name])["cause"] for name in ("nudged", "deaf")))
        until(lambda: (home.task(ids["crunches"])["life"] or {}).get("state") == "working")
        rows, table = home.tasks(), home.ok("tasks", "--all").out
        yield Seen(home, ids, rows, table, needs, supervisor)
        home.artifact(ids["crunches"], "enough").touch()


def test_who_hangs_at_a_prompt_is_told_from_who_computes(seen: Seen) -> None:
    hangs, computes = seen.row("prompts"), seen.row("crunches")
    assert (hangs["state"], hangs["life"]["state"], hangs["needs_you"]) == ("working", "waiting for input", True)
    assert hangs["life"]["why"].startswith("sh reads a terminal that nobody types into")
    assert hangs["cause"].startswith("needs you: waiting for input for ")
    assert (computes["life"]["state"], computes["needs_you"], computes["cause"]) == ("working", False, "")
    assert computes["life"]["why"].endswith("CPU") or "CPU" in computes["life"]["why"]


def test_the_table_shows_what_agents_do(seen: Seen) -> None:
    lines = {name: next(line for line in seen.table.splitlines() if line.startswith(seen.ids[name])) for name in CODERS}
    assert "needs you" in lines["prompts"]
    assert "needs you" in lines["repeats"]
    assert "working" in lines["crunches"]
    below = seen.table.splitlines()
    following = f" · fleet attach {seen.ids['prompts']} · abort"
    assert any(line.startswith("    waiting for input for") and line.endswith(following) for line in below)
    assert any(line.startswith("    looping for") for line in below)
    assert " stuck" in below[0]


def test_every_change_is_an_event_and_only_changes_are(seen: Seen) -> None:
    for name in ("prompts", "crunches", "repeats"):
        states = [one["state"] for one in seen.events(name)]
        assert states == [state for n, state in enumerate(states) if n == 0 or states[n - 1] != state]
        assert all(one["since"] <= one["at"] + 1 and one["why"] for one in seen.events(name))
    last = seen.events("prompts")[-1]
    assert (last["state"], last["action"], last["before"] is not None) == ("waiting for input", "ask", True)
    assert seen.needs["prompts"]["level"] == "warning"


def test_who_makes_the_same_call_again_and_again_is_said_to_loop_and_is_not_ended(seen: Seen) -> None:
    row = seen.row("repeats")
    assert (row["life"]["state"], row["needs_you"], row["ended"]) == ("looping", True, None)
    assert row["life"]["why"].startswith("Read: a.py, 10 times in a row with the same outcome")


def test_who_is_nudged_goes_on_in_its_session_told_what_was_seen_and_it_costs_no_attempt(seen: Seen) -> None:
    task = seen.ids["nudged"]
    settled = seen.supervisor.hear("settled", task=task, attempt=f"{task}.1")
    assert (settled["ending"], settled["verdict"], "retry_after" in settled) == ("nudged", "retry", False)
    assert settled["cause"].startswith("nudged: looping for ")
    assert settled["cause"].endswith("Read: a.py, 10 times in a row with the same outcome")
    told = seen.home.artifact(task, f"prompt.{task}.2").read_text()
    assert f"you were seen {settled['cause'].removeprefix('nudged: ')}\n" in told
    assert "nudged: looping for " in seen.home.ok("show", task).out
    seen.home.open_gate(task)
    assert seen.supervisor.hear("settled", task=task, attempt=f"{task}.2")["verdict"] == "accepted"


def test_who_cannot_be_nudged_or_was_just_nudged_needs_somebody_and_the_reason_is_said(seen: Seen) -> None:
    for name, why in (("nudged", "it was nudged just before"), ("deaf", "repeats cannot go on with a session")):
        row = seen.row(name)
        assert (row["life"]["state"], row["needs_you"], row["ended"]) == ("looping", True, None), row
        assert row["cause"].endswith(f"; not nudged: {why}")


def test_who_is_done_and_does_not_go_is_ended_and_its_work_counts(seen: Seen) -> None:
    row = seen.row("lives_on")
    assert row["state"] == "done", row["cause"]
    assert "ended-but-alive" in [one["state"] for one in seen.events("lives_on")]


def test_a_broken_launch_was_never_said_to_work_and_says_why(seen: Seen) -> None:
    for name, why, state in (("not_let_in", "not logged in", "open"), ("missing", "program missing", "failed")):
        row = seen.row(name)
        assert (row["state"], row["hindrance"]) == (state, why), row
        assert {one["state"] for one in seen.events(name)} <= {"starting"}
        assert {one["hindrance"] for one in seen.events(name, "not_begun")} == {why}
    assert seen.row("not_let_in")["cause"].startswith("not_let_in is not logged in. Log in: as not_let_in wants it")

"""What the gateway writes of requests, and what is read of it: each once, bounded, and nothing of a dead one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.evidence.requests import Records, flying
from fleet.host import locks
from fleet.supervisor.environment import agent_environment
from standins.callbacks import load

OK = {"status": "ok", "model": "m", "node": "n", "local": False, "prompt": 10, "completion": 1, "cost": 0.5}


requests = load("fleet_requests")


class Desk:
    """A home with one gateway's files in it, and a clock that is set by hand."""

    def __init__(self, home: Path) -> None:
        self.home, self.now = home, 1000.0
        (home / "gateway").mkdir()
        self.lines, self.lock = home / "gateway" / "ab.requests.jsonl", home / "gateway" / "ab.lock"
        self.book = requests.Book(self.lines, home / "gateway" / "ab.flying.json", lambda: self.now)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_request_is_one_line_however_often_it_is_told(desk: Desk) -> None:
    desk.book.come("c1", "t1.1", "alias")
    desk.now += 2
    desk.book.sent("c1")
    desk.now += 3
    desk.book.over("c1")
    desk.now += 1
    for facts in (OK, OK, {"status": "unknown"}):
        desk.book.write("c1", facts)
    desk.book.come("c1", "t1.1", "alias")
    (line,) = map(json.loads, desk.lines.read_text().splitlines())
    assert line == {"at": 1005.0, "attempt": "t1.1", "alias": "alias", "wait": 2.0, "seconds": 5.0, **OK}
    (kind,) = Records(desk.home).served()["t1.1"]
    assert (kind.requests, kind.usage.total, kind.usage.cost, kind.wait, kind.last) == (1, 11, 0.5, 2.0, 1005.0)


def test_who_is_in_flight_is_known_while_the_gateway_lives(desk: Desk) -> None:
    desk.book.come("c1", "t1.1", "a")
    desk.now += 5
    desk.book.come("c2", "t1.1", "a")
    desk.book.come("c3", "t2.1", "a")
    assert flying(desk.home) == {}, "nobody holds its lock: it is dead"
    lock = locks.take(desk.lock)
    assert lock is not None
    assert flying(desk.home) == {"t1.1": 1000.0, "t2.1": 1005.0}
    desk.book.over("c1")
    assert flying(desk.home)["t1.1"] == 1005.0
    desk.book.write("c2", OK)
    assert flying(desk.home) == {"t2.1": 1005.0}
    locks.release(lock)
    assert flying(desk.home) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"t1.1": "soon"}'])
def test_a_file_that_says_nothing_says_that_nobody_is_in_flight(desk: Desk, content: str) -> None:
    desk.book.flying.write_text(content)
    lock = locks.take(desk.lock)
    assert lock is not None
    assert flying(desk.home) == {}
    locks.release(lock)


def test_records_are_bounded_and_read_on_over_the_change_of_files(desk: Desk) -> None:
    records, total = Records(desk.home), 0
    desk.book.largest = 1000
    for n in range(40):
        desk.book.come(f"c{n}", "t1.1", "a")
        desk.now += 1
        desk.book.write(f"c{n}", OK)
        total = sum(kind.requests for kind in records.served()["t1.1"])
    assert total == 40, "whoever reads on misses nothing"
    kept = [path.stat().st_size for path in desk.lines.parent.glob("*.jsonl")]
    assert len(kept) == 2
    assert max(kept) < 1500
    assert 0 < sum(kind.requests for kind in Records(desk.home).served()["t1.1"]) < 20


def test_a_disk_that_is_full_costs_no_request(desk: Desk) -> None:
    desk.lines.parent.rename(desk.home / "gone")
    desk.book.come("c1", "t1.1", "a")
    desk.book.write("c1", OK)
    assert Records(desk.home).served() == {}


def test_requests_whose_end_nobody_told_are_let_go(desk: Desk) -> None:
    desk.book.come("c1", "t1.1", "a")
    desk.now += 4000
    desk.book.come("c2", "t2.1", "a")
    (kind,) = Records(desk.home).served()["t1.1"]
    assert (kind.requests, kind.untold) == (1, 1)


@pytest.mark.parametrize(
    ("headers", "attempt"),
    [
        ({"X-Fleet-Attempt": "t1.1"}, "t1.1"),
        ({"x-fleet-attempt": "../../x"}, None),
        ({"x-fleet-attempt": "a" * 300}, None),
        ({"x-fleet-attempt": ""}, None),
        ({}, None),
    ],
)
def test_an_attempt_is_named_by_a_header_or_not_at_all(headers: dict[str, str], attempt: str | None) -> None:
    assert requests.attempt_of({"proxy_server_request": {"headers": headers}}) == attempt


def test_nothing_is_recorded_of_what_was_said() -> None:
    told = {"model": "m", "prompt_tokens": 5, "completion_tokens": 1, "response_cost": 0.0, "messages": "SECRET",
            "response": "SECRET", "metadata": {"user_api_key_hash": "SECRET", "usage_object": {
                "prompt_tokens_details": {"cached_tokens": 3}}}}  # fmt: skip
    assert requests.used(told) == {
        "model": "m", "prompt": 5, "completion": 1, "cache_read": 3, "cache_write": None, "cost": None,
    }  # fmt: skip


def test_claude_code_is_told_to_sign_its_requests_beside_headers_of_the_users_own() -> None:
    told = {"FLEET_ATTEMPT": "t1.1"}
    assert agent_environment({}, (), {}, told)["ANTHROPIC_CUSTOM_HEADERS"] == "x-fleet-attempt: t1.1"
    own = {"ANTHROPIC_CUSTOM_HEADERS": "x-team: a"}
    both = "x-team: a\nx-fleet-attempt: t1.1"
    assert agent_environment({}, (), own, told)["ANTHROPIC_CUSTOM_HEADERS"] == both
    assert agent_environment(own, ("ANTHROPIC_*",), {}, told)["ANTHROPIC_CUSTOM_HEADERS"] == both
    assert "ANTHROPIC_CUSTOM_HEADERS" not in agent_environment({}, (), {}, {})

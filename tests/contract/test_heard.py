"""What an agent in a terminal keeps of itself, read as it grows; with a real ledger and real files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleet import keeper
from fleet.coders import talker_of
from fleet.coders.known import find_coder
from fleet.coders.told import noted
from fleet.config.runtime import Live
from fleet.core.talk import Mood, SignalKind, feel
from fleet.core.work import Attempt
from fleet.evidence.ledger import Ledger
from fleet.host import files, locks
from fleet.supervisor import heard, transcript
from fleet.supervisor.house import House
from fleet.supervisor.log import Log
from fleet.supervisor.notes import note
from fleet.supervisor.result import nothing, write_receipt
from fleet.supervisor.rules import rules
from fleet.tracker.local import Local

FIRST = Attempt("", "t1", 0, "claude", None, "/", "me", 1.0, interactive=True)


@pytest.fixture
def house(tmp_path: Path) -> House:
    home = files.private_dir(tmp_path / "home")
    return House(home, Local(home), Ledger(home), Live(home / "runtime.toml"), find_coder, Log(home), "me")


@pytest.fixture
def attempt(house: House) -> Attempt:
    begun = house.ledger.begin(FIRST)
    files.private_dir(house.attempt_directory(begun))
    return begun


@pytest.fixture
def begins(house: House, attempt: Attempt, tmp_path: Path) -> Callable[[str], Path]:
    """The agent tells that it writes into this file from now on."""

    def tell(name: str) -> Path:
        path = tmp_path / name
        told = {"hook_event_name": "SessionStart", "session_id": name, "transcript_path": str(path)}
        with (house.attempt_directory(attempt) / heard.SIGNALS).open("ab") as signals:
            signals.write(noted(told) + b"\n")
        return path

    return tell


def spends(path: Path, *requests: tuple[str, int]) -> None:
    """The agent writes down what requests used."""
    for name, tokens in requests:
        usage = {"input_tokens": tokens, "output_tokens": 0}
        message = {"id": name, "role": "assistant", "model": "m", "content": [], "usage": usage}
        with path.open("ab") as file:
            file.write(json.dumps({"type": "assistant", "message": message}).encode() + b"\n")


def noted_usage(house: House) -> list[int]:
    events = [json.loads(line) for line in (house.task_directory("t1") / "events.jsonl").read_text().splitlines()]
    assert [one["id"] for one in events] == list(range(1, len(events) + 1))
    return [one["usage"]["prompt"] for one in events if one["kind"] == "usage"]


def test_each_transcript_is_read_from_its_own_beginning_and_once(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    first = begins("a.jsonl")
    spends(first, ("a1", 1), ("a2", 10), ("a3", 100))
    attempt = heard.catch_up(house, attempt)
    assert attempt.tokens == 111
    spends(first, ("a4", 1000))  # nobody looks before the next one begins
    second = begins("b.jsonl")
    spends(second, ("b1", 10_000))
    attempt = heard.catch_up(house, attempt)
    assert (attempt.tokens, attempt.session) == (11_111, "b.jsonl")
    spends(begins("a.jsonl"), ("a5", 100_000))  # gone back to
    spends(second, ("b2", 1_000_000))
    attempt = heard.catch_up(house, attempt)
    assert attempt.tokens == 1_111_111
    assert heard.catch_up(house, attempt) == attempt == house.ledger.get(attempt.id)
    assert sorted(noted_usage(house)) == [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]


def test_a_crash_before_the_ledger_knew_writes_nothing_down_twice(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    path = begins("a.jsonl")
    spends(path, ("a1", 1), ("a2", 10))
    heard.catch_up(house, attempt)
    note(house, attempt, "prompt_taken", text="said in between")
    house.ledger.save(attempt)  # as it was
    spends(path, ("a3", 100))
    assert heard.catch_up(house, attempt).tokens == 111
    assert noted_usage(house) == [1, 10, 100]


def test_a_line_without_measure_is_skipped_and_what_comes_after_it_counts(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    path = begins("a.jsonl")
    spends(path, ("a1", 1))
    size = transcript.LONGEST + 3 * transcript.CHUNK
    with path.open("ab") as file:
        file.write(b'{"picture": "' + b"x" * size)
    attempt = heard.catch_up(house, attempt)
    assert attempt.tokens == 1
    with path.open("ab") as file:  # its end is the end of that line, and nothing of its own
        file.write(b"x" * size)
    attempt = heard.catch_up(house, attempt)
    assert attempt.recalled[str(path)] > size
    with path.open("ab") as file:
        file.write(b'"}\n')
    spends(path, ("a2", 10))
    attempt = heard.catch_up(house, attempt)
    assert (attempt.tokens, attempt.recalled) == (11, {str(path): path.stat().st_size})


def test_everything_that_is_there_is_read_at_one_look(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    path = begins("a.jsonl")
    filler = (json.dumps({"type": "other", "text": "x" * 100_000}) + "\n").encode()
    path.write_bytes(filler * 90)
    spends(path, ("a1", 7))
    assert path.stat().st_size > transcript.LONGEST
    assert heard.catch_up(house, replace(attempt, tokens=None)).tokens == 7


def asks(house: House, attempt: Attempt, text: str = "Bash: rm -rf /") -> None:
    told = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": text}}
    with (house.attempt_directory(attempt) / heard.SIGNALS).open("ab") as signals:
        signals.write(noted(told, 1_700_000_000.0) + b"\n")


def breaks_off(path: Path) -> None:
    """A person presses Escape, which no hook tells of."""
    message = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user for tool use]"}]}
    line = {"type": "user", "timestamp": "2023-11-14T22:13:30.000Z", "message": message}
    with path.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")


def test_who_waits_for_an_agent_hears_that_a_turn_was_broken_off(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    """Else it would ask for ever, and nobody could give it a prompt."""
    path = begins("a.jsonl")
    asks(house, attempt)
    hearing = heard.Hearing(house.attempt_directory(attempt), talker_of(find_coder("claude", house.runtime)))
    before = hearing()
    assert feel(before).mood is Mood.ASKING
    breaks_off(path)
    after = hearing()
    assert after[: len(before)] == before, "whoever counts them finds each where it was"
    assert feel(after).mood is Mood.WAITING
    assert hearing() == after == heard.signals(house.attempt_directory(attempt), hearing.how)


def test_a_signal_without_measure_is_skipped(house: House, attempt: Attempt, begins: Callable[[str], Path]) -> None:
    begins("a.jsonl")
    hearing = heard.Hearing(house.attempt_directory(attempt), talker_of(find_coder("claude", house.runtime)))
    assert [one.kind for one in hearing()] == [SignalKind.READY]
    with (house.attempt_directory(attempt) / heard.SIGNALS).open("ab") as signals:
        signals.write(b"x" * (transcript.LONGEST + 3 * transcript.CHUNK) + b"\n")
    asks(house, attempt)
    assert [one.kind for one in hearing()] == [SignalKind.READY, SignalKind.ASKS]


@pytest.mark.parametrize("names", ["/proc/self/mem", "/proc/self/attr/current", "/", "/dev/zero", "/nonexistent/x"])
def test_whatever_an_agent_calls_its_record_nobody_stumbles(
    house: House, attempt: Attempt, begins: Callable[[str], Path], names: str
) -> None:
    begins(names)
    attempt = replace(attempt, started=1.0)
    house.ledger.save(attempt)
    heard.watch(house)
    assert house.ledger.get(attempt.id).last_event == 1.0
    assert heard.signals(house.attempt_directory(attempt), talker_of(find_coder("claude", house.runtime)))


def test_an_agent_that_cannot_be_watched_is_told_of_and_the_others_are_watched(
    house: House, attempt: Attempt, begins: Callable[[str], Path]
) -> None:
    spends(begins("a.jsonl"), ("a1", 7))
    house.ledger.save(replace(attempt, started=1.0))
    blocked = house.ledger.begin(replace(FIRST, task="t0", started=1.0))
    house.task_directory("t0").write_text("in the way of its attempts")
    heard.watch(house)
    assert house.ledger.get(attempt.id).tokens == 7
    (log,) = (house.home / "logging").iterdir()
    said = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["attempt"] for one in said if one["event"] == "agent not watched"] == [blocked.id]


def test_the_variables_of_an_agent_that_never_began_do_not_stay(house: House, attempt: Attempt) -> None:
    start = keeper.Start(
        ("x",), {"KEY": "secret"}, house.home, "", 1.0, 1, 1.0, house.home / "supervisor.lock", 0.0, 0.0
    )
    keeper.in_terminal(house.attempt_directory(attempt), start)
    write_receipt(house, attempt, nothing(attempt))
    kept = [path.name for path in house.attempt_directory(attempt).iterdir() if b"secret" in path.read_bytes()]
    assert kept == []


def test_who_lives_in_a_terminal_counts_where_others_wait_for_memory(house: House, attempt: Attempt) -> None:
    lock = locks.take(house.attempt_directory(attempt) / "lock")  # as its keeper holds it
    assert lock is not None
    house.ledger.begin(replace(FIRST, task="t2"))
    queued = replace(FIRST, task="t3", interactive=False)
    house.ledger.begin(queued)
    assert [one.id for one in rules(house.home, house.runtime, 1.0).beside] == [attempt.id]
    locks.release(lock)
    assert rules(house.home, house.runtime, 1.0).beside == ()

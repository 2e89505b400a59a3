"""Records of logs and tasks as sentences."""

from __future__ import annotations

import time

import pytest

from fleet.app.log_words import event_line, log_line, record_line
from fleet.core.work import EventKind

NOW = time.time()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "said", "text": "I begin.\nThen I go on."}, "says: I begin. ⏎ Then I go on."),
        (
            {"kind": "tool_called", "tool": "Bash", "text": "cd x\n\nmake\n  make check"},
            "calls Bash: cd x ⏎ make ⏎ make check",
        ),
        ({"kind": "tool_ended", "tool": "Bash", "ok": False}, "Bash failed"),
        (
            {"kind": "usage", "usage": {"prompt": 12, "completion": 3, "cache_read": 8}},
            "read 12 tokens, 8 of them from a cache, wrote 3",
        ),
        ({"kind": "usage", "context": 900}, "tells its context (context 900)"),
        (
            {"kind": "life_changed", "state": "tool running", "before": "working", "why": "Bash: make"},
            "is tool running: Bash: make",
        ),
        (
            {"kind": "settled", "verdict": "refused", "ending": "finished", "cause": "no"},
            "settled (finished, refused): no",
        ),
        ({"kind": "of another fleet", "id": 3, "offset": 9, "path": "a"}, "of another fleet (path a)"),
        ({}, "other"),
    ],
)
def test_an_event_is_one_sentence(record: dict[str, object], words: str) -> None:
    assert event_line(record) == words


@pytest.mark.parametrize("kind", [*EventKind, "life_changed", "not_begun", "scope_breach", "handed_over", "settled"])
def test_no_event_is_empty_however_little_it_tells(kind: str) -> None:
    line = event_line({"kind": str(kind), "at": NOW, "attempt": "t1.1"})
    assert len(line.split("  ")) == 3
    assert line.split("  ")[2].strip()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            {"event": "claimed", "level": "info", "task": "t1", "attempt": "t1.1", "coder": "ok"},
            "t1.1  claimed (coder ok)",
        ),
        (
            {"event": "step failed", "level": "error", "task": "t1", "text": "no\nway"},
            "t1  error: step failed: no ⏎ way",
        ),
        ({"event": "supervisor ended", "level": "info"}, "supervisor ended"),
    ],
)
def test_a_record_of_the_log_is_one_sentence(record: dict[str, object], words: str) -> None:
    assert log_line(record) == words


def test_times_are_those_of_the_clock_on_the_wall() -> None:
    assert log_line({"at": NOW, "event": "x"}) == f"{time.strftime('%H:%M:%S', time.localtime(NOW))}  x"
    old = NOW - 90 * 86400
    assert log_line({"at": old, "event": "x"}) == f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(old))}  x"
    assert log_line({"at": 1e300, "event": "x"}) == "x"


@pytest.mark.parametrize("line", ["", "no record", "[1]", "3"])
def test_what_is_no_record_stays_as_it_is(line: str) -> None:
    assert record_line(line, log_line) == line

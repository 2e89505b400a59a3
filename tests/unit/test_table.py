"""The table of tasks on terminals of any width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.app.overview import Overview
from fleet.app.tasks import Row
from fleet.cli.grid import amount, fitting, folded, span, wide, without_middle
from fleet.cli.table import COLUMNS, print_live, print_overview, print_tasks
from fleet.core.states import Group, ShownState, Sums, count
from fleet.core.work import State

ROW = Row(
    id="t1", title="Write the thing", state=State.WORKING, cause="", attempts=1, coder="claude", model="sonnet",
    cwd="/home/someone/projects/thing", branch="main", priority=2, own_coder=False, own_model=False, waits_for=(),
    created=0.0, started=0.0, ended=None, elapsed=75.0, idle=3.0, events=12, tokens=123456, cost=1.5,
    peak_context_pct=40, session=None, shown=ShownState.WORKING, group=Group.WORKING, project="thing",
)  # fmt: skip
LONG = replace(
    ROW, id="t1000", title="A title that is " + "very " * 40 + "long", state=State.CANCELLED, shown=ShownState.CANCELLED
)
WIDE = replace(ROW, id="t2", title="写一个很长很长的标题" * 10, note="因为" * 100)
ODD = replace(ROW, id="t3", title="e\u0301" * 200, model=None, coder="x" * 30, cost=None, elapsed=None, idle=None)
MIXES = [[ROW], [ROW, LONG], [WIDE], [ODD], [ROW, LONG, WIDE, ODD]]


def columns(line: str) -> int:
    """How wide a terminal shows it, of the letters used here."""
    return len(line.replace("\u0301", "")) + sum("\u4e00" <= letter <= "\u9fff" for letter in line)


@pytest.mark.parametrize("rows", MIXES)
@pytest.mark.parametrize("width", [40, 60, 72, 80, 100, 120, 200, 500])
def test_no_line_is_wider_than_the_terminal(rows: list[Row], width: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_tasks(rows, width)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(columns, lines)) <= width
    assert lines[0].split()[:2] == ["ID", "STATE"]
    assert [line.split()[0] for line in lines[1:] if not line.startswith("    ")] == [row.id for row in rows]


def test_a_narrow_terminal_does_without_the_least_needed(capsys: pytest.CaptureFixture[str]) -> None:
    def names(width: int | None) -> list[str]:
        widths = {one.name: max(len(one.name), len(one.cell(ROW))) for one in COLUMNS}
        return [one.name for one in fitting(COLUMNS, widths, width)]

    everything = [one.name for one in COLUMNS]
    assert names(None) == everything
    assert names(500) == everything
    assert names(140) == [name for name in everything if name not in ("CWD",)]
    assert {"ID", "STATE", "REPO", "ELAPSED", "COST", "CODER", "TITLE"} <= set(names(80))
    assert names(10) == ["ID", "STATE", "TITLE"]


@pytest.mark.parametrize(
    "text", ["", "title:     " + "a word " * 30, "cwd:       /" + "path/" * 40, "写" * 90, " " * 50 + "x"]
)
@pytest.mark.parametrize("width", [1, 12, 40, 80])
@pytest.mark.parametrize("indent", [0, 11])
def test_a_text_that_is_folded_fits_and_loses_nothing(text: str, width: int, indent: int) -> None:
    lines = folded(text, width, indent).split("\n")
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert max(map(columns, lines)) <= max(width, indent + 2)
    assert folded(text, None, indent) == text


def test_the_note_stands_below_its_task_and_is_cut_in_its_middle(capsys: pytest.CaptureFixture[str]) -> None:
    note = 'check "pytest" failed:\x1b[2J test_euros: ' + "and so on " * 40
    print_tasks([replace(ROW, note=note, next="fleet show t1 · retry")], 80)
    _, _, first, last = capsys.readouterr().out.splitlines()
    assert first.startswith('    check "pytest" failed:\N{REPLACEMENT CHARACTER}[2J test_euros: and so on')
    assert " … " in first + last
    assert last.endswith("so on · fleet show t1 · retry")
    print_tasks([], 80)
    assert capsys.readouterr().out == "no tasks\n"


def test_what_is_true_of_all_rows_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    held = replace(ROW, shown=ShownState.HELD, note="paused: by me")
    print_tasks([held, replace(held, id="t2")], 100)
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads.endswith("TITLE  all: claude sonnet")
    assert "REPO" not in heads
    assert [line.split()[0] for line in rows] == ["t1", "paused:", "t2"]
    print_tasks([held, replace(held, id="t2", project="other", coder="codex")], 100)
    assert {"REPO", "CODER"} <= set(capsys.readouterr().out.splitlines()[0].split())


def test_a_terminal_of_80_by_24_shows_fifteen_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    asks = replace(
        ROW, id="t0", shown=ShownState.QUESTION, group=Group.NEEDS_YOU, note="x?", next="fleet answer t0 TEXT"
    )
    work = [replace(ROW, id=f"t{n}", title="Do " + "much " * 20) for n in range(1, 40)]
    rows = (asks, *work)
    found = Overview(rows, count([row.shown for row in rows], ["thing"]), 0.0, supervised=True)
    print_live(found, 80, 23)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "thing: 39 working · 1 asks you"
    assert sum(line.startswith("t") for line in lines[1:]) >= 15
    assert len(lines) <= 22
    assert max(map(columns, lines)) <= 80
    assert lines[-1].startswith("… and ")


def test_that_nobody_works_on_what_waits_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    waits = replace(ROW, shown=ShownState.OPEN, group=Group.QUEUED)
    print_overview(Overview((waits,), Sums(("thing",), {"wait": 1}), None, supervised=False), 120)
    assert capsys.readouterr().out.startswith("thing: 1 waits · no supervisor runs: fleet run\n")


@pytest.mark.parametrize("width", [20, 40, 76, 150])
@pytest.mark.parametrize("text", ["short", "a few words " * 30, "x" * 400, "写" * 90])
def test_a_text_without_its_middle_fits_and_keeps_both_ends(text: str, width: int) -> None:
    found = without_middle(text, width)
    assert wide(found) <= width
    assert found == text or (text.startswith(found[:3]) and text.endswith(found[-3:]) and " … " in found)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (7500, "2h05m"), (273600, "3d4h")],
)
def test_times_for_people(seconds: float | None, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(None, "-"), (0, "0"), (999, "999"), (1000, "1.0k"), (999_949, "999.9k"), (1_500_000, "1.5M")],
)
def test_numbers_for_people(count: int | None, words: str) -> None:
    assert amount(count) == words

"""The table of tasks on terminals of any width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.app.tasks import Row
from fleet.cli.grid import amount, fitting, folded, span
from fleet.cli.table import COLUMNS, print_tasks
from fleet.core.work import State

ROW = Row(
    id="t1", title="Write the thing", state=State.WORKING, cause="", attempts=1, coder="claude", model="sonnet",
    cwd="/home/someone/projects/thing", branch="main", priority=2, own_coder=False, own_model=False, waits_for=(),
    created=0.0, started=0.0, ended=None, elapsed=75.0, idle=3.0, events=12, tokens=123456, cost=1.5,
    peak_context_pct=40, session=None,
)  # fmt: skip
LONG = replace(ROW, id="t1000", title="A title that is " + "very " * 40 + "long", state=State.CANCELLED)
WIDE = replace(ROW, id="t2", title="写一个很长很长的标题" * 10, cause="因为" * 100)
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
    assert names(130) == [name for name in everything if name not in ("CWD",)]
    assert {"ID", "STATE", "ELAPSED", "IDLE", "CODER", "TITLE"} <= set(names(80))
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


def test_the_cause_stands_below_its_task_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_tasks([replace(ROW, cause="it\nis\x1b[2J so " + "x" * 200)], 80)
    _, _, below = capsys.readouterr().out.splitlines()
    assert below.startswith("    it\N{REPLACEMENT CHARACTER}is\N{REPLACEMENT CHARACTER}[2J so xxx")
    assert below.endswith("…")
    print_tasks([], 80)
    assert capsys.readouterr().out == "no tasks\n"


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

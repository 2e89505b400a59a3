"""The table of tasks: as many columns as the terminal has room for, and below each task why it is as it is."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import click

from fleet.app.tasks import Row
from fleet.cli.show import BAD, GOOD, MEH
from fleet.core.text import clean

COLOURS = {"working": GOOD, "starting": GOOD, "done": GOOD, "blocked": MEH, "refused": BAD, "failed": BAD}
LIVELY = ("working", "starting", "failed", "refused", "blocked", "open")
GAP = "  "
BESIDE = 5  # lines: the time, an empty one, the heads, the rest, and the one the cursor stands on
Cell = Callable[[Row], str]

# In the order they are shown; the number says how soon a narrow terminal does without.
COLUMNS: list[tuple[str, int, Cell]] = [
    ("ID", 0, lambda row: row.id),
    ("STATE", 0, lambda row: row.state.value),
    ("STARTED", 8, lambda row: clock(row.started)),
    ("ELAPSED", 1, lambda row: span(row.elapsed)),
    ("IDLE", 2, lambda row: span(row.idle)),
    ("CTX", 5, lambda row: "-" if row.peak_context_pct is None else f"{row.peak_context_pct}%"),
    ("EVENTS", 6, lambda row: str(row.events) if row.attempts else "-"),
    ("TOKENS", 4, lambda row: amount(row.tokens)),
    ("COST", 4, lambda row: "-" if row.cost is None else f"${row.cost:.2f}"),
    ("TRIES", 7, lambda row: str(row.attempts)),
    ("CODER", 1, lambda row: row.coder),
    ("MODEL", 3, lambda row: row.model or "-"),
    ("TITLE", 0, lambda row: clean(row.title, 500)),
    ("CWD", 9, lambda row: clean(row.cwd or "unknown", 500)),
]
LEAST_TITLE = 24


def print_tasks(rows: Sequence[Row], width: int | None) -> None:
    """Print the tasks, or that there are none. Without a width (piped) every column is there, uncut."""
    if not rows:
        click.echo("no tasks")
        return
    cells = {name: [cell(row) for row in rows] for name, _, cell in COLUMNS}
    widths = {name: max([len(name), *map(wide, cells[name])]) for name, _, _ in COLUMNS}
    columns = fitting(widths, width)
    if width is not None and "TITLE" in widths:
        others = sum(widths[name] + len(GAP) for name in columns if name != "TITLE")
        widths["TITLE"] = min(widths["TITLE"], max(10, width - others))
    lines = [click.style(_line([(name, widths[name]) for name in columns]), bold=True)]
    for n, row in enumerate(rows):
        lines.append(GAP.join(_paint(name, row, _fit(cells[name][n], widths[name])) for name in columns).rstrip())
        if row.cause:
            cause = clean(row.cause, 1000)
            shown = cause if width is None else _fit(cause, width - 4).rstrip()
            lines.append(click.style(f"    {shown}", dim=True))
    click.echo("\n".join(lines))


def print_live(rows: Sequence[Row], width: int | None, height: int) -> None:
    """Print what fits on one screen: whoever works first, and how many there are beside."""
    order = sorted(rows, key=lambda row: LIVELY.index(row.state.value) if row.state.value in LIVELY else len(LIVELY))
    room, shown = height - BESIDE, 0
    for row in order:
        room -= 2 if row.cause else 1
        if room < 0:
            break
        shown += 1
    print_tasks(order[:shown], width)
    if shown < len(rows):
        click.echo(click.style(f"… and {len(rows) - shown} more: fleet tasks --all", dim=True))


def fitting(widths: Mapping[str, int], width: int | None) -> list[str]:
    """The columns that there is room for: the least needed go first."""
    left = [(name, spare) for name, spare, _ in COLUMNS]
    while width is not None:
        taken = sum(min(widths[name], LEAST_TITLE) if name == "TITLE" else widths[name] for name, _ in left)
        dispensable = [column for column in left if column[1] > 0]
        if taken + len(GAP) * (len(left) - 1) <= width or not dispensable:
            break
        left.remove(max(dispensable, key=lambda column: column[1]))
    return [name for name, _ in left]


def _paint(name: str, row: Row, text: str) -> str:
    match name:
        case "STATE" if row.state.value in COLOURS:
            return click.style(text, fg=COLOURS[row.state.value])
        case "CODER":
            return _own(text, row.own_coder)
        case "MODEL":
            return _own(text, row.own_model)
        case _:
            return text


def _own(text: str, own: bool) -> str:
    """What the task itself asked for stands out; what it inherits stands back."""
    return click.style(text, bold=True) if own else click.style(text, dim=True)


def _line(cells: Sequence[tuple[str, int]]) -> str:
    return GAP.join(_fit(text, width) for text, width in cells).rstrip()


def _fit(text: str, width: int) -> str:
    """Exactly this many columns of the terminal."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    if wide(text) > width:
        while text and wide(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - wide(text))


def wide(text: str) -> int:
    """How many columns a text takes: East Asian letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def terminal_width() -> int | None:
    """The width of the terminal on stdout; None when it is not one."""
    if not sys.stdout.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def terminal_height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or 24
    except OSError:
        return 24


def clock(at: float | None) -> str:
    return "-" if at is None else f"{datetime.fromtimestamp(at):%H:%M:%S}"


def span(seconds: float | None) -> str:
    """A time for people: 8s, 3m12s, 2h05m, 3d4h."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def amount(count: int | None) -> str:
    if count is None:
        return "-"
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"

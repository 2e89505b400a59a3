"""A table for people: as many columns as the terminal has room for, and below each row why it is as it is."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

import click

from fleet.core.frozen import dataclass
from fleet.core.text import clean

GAP, INDENT = "  ", "    "
MAX_NOTE_LINES = 2
Row = TypeVar("Row")


def _plain(text: str, row: object) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column; `spare` says how soon a narrow terminal does without, 0 never. `least` is how far it may be cut."""

    name: str
    spare: int
    cell: Callable[[Row], str]
    paint: Callable[[str, Row], str] = _plain
    least: int | None = None
    right: bool = False  # figures stand below one another


def draw(
    rows: Sequence[Row], columns: Sequence[Column[Row]], cause: Callable[[Row], str], width: int | None
) -> list[str]:
    """The lines of a table, with the cause of a row below it. Without a width (piped) every column is there, uncut."""
    cells = {column.name: [column.cell(row) for row in rows] for column in columns}
    widths = {column.name: _widest([column.name, *cells[column.name]]) for column in columns}
    shown = fitting(columns, widths, width)
    for column in shown:
        if width is not None and column.least is not None:
            others = sum(widths[other.name] + len(GAP) for other in shown if other is not column)
            widths[column.name] = min(widths[column.name], max(10, width - others))
    heads = GAP.join(_fit(one.name, widths[one.name], one.right) for one in shown).rstrip()
    drawn = [_drawn(one, cells[one.name], rows, widths[one.name], width is None) for one in shown]
    lines = [click.style(heads, bold=True)]
    for row, texts in zip(rows, zip(*drawn, strict=True), strict=True):
        lines.append(GAP.join(texts).rstrip())
        if why := cause(row):
            lines += [click.style(f"{INDENT}{line}", dim=True) for line in _below(clean(why, 1000), width)]
    return lines


def _drawn(column: Column[Row], cells: Sequence[str], rows: Sequence[Row], width: int, is_plain: bool) -> list[str]:
    """The cells of a column, as wide as it is, and in colour where somebody sees it."""
    fitted = [_fit(text, width, column.right) for text in cells]
    if is_plain or column.paint is _plain:
        return fitted
    return [column.paint(text, row) for text, row in zip(fitted, rows, strict=True)]


def _widest(texts: Sequence[str]) -> int:
    return max(map(len if "".join(texts).isascii() else wide, texts))


def fitting(columns: Sequence[Column[Row]], widths: Mapping[str, int], width: int | None) -> list[Column[Row]]:
    """The columns that there is room for: the least needed go first."""
    left = list(columns)
    while width is not None:
        taken = sum(min(widths[one.name], one.least or widths[one.name]) for one in left)
        dispensable = [one for one in left if one.spare > 0]
        if taken + len(GAP) * (len(left) - 1) <= width or not dispensable:
            break
        left.remove(max(dispensable, key=lambda one: one.spare))
    return left


def _below(text: str, width: int | None) -> list[str]:
    """A text in a few lines that fit; of a long one the middle is left out, never how it begins or ends."""
    if not text or width is None:
        return [text] if text else []
    room = max(2, width - len(INDENT))
    lines = folded(text, room).split("\n")
    cut = room * MAX_NOTE_LINES
    while len(lines) > MAX_NOTE_LINES:
        lines = folded(without_middle(text, cut), room).split("\n")
        cut -= 4
    return lines


def without_middle(text: str, width: int) -> str:
    """The text with so many columns: words are left out of its middle, where it is longer."""
    if wide(text) <= width:
        return text
    head, tail = text, text
    while head and wide(head) > (width - 3) * 3 // 5:
        head = head[: -max(1, (len(head) - width) // 2)]
    while tail and wide(tail) > (width - 3) * 2 // 5:
        tail = tail[max(1, (len(tail) - width) // 2) :]
    return f"{_whole_words(head)} … {_whole_words(tail[::-1])[::-1]}"


def _whole_words(text: str) -> str:
    """The text without the word that was cut at its end, unless that is most of it."""
    at = text.rfind(" ")
    return text[:at] if at > len(text) // 2 else text


def _fit(text: str, width: int, right: bool = False) -> str:
    """Exactly this many columns of the terminal."""
    if len(text) <= width and text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    if wide(text) > width:
        while text and wide(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - wide(text))


def folded(text: str, width: int | None, indent: int = 0) -> str:
    """The text in lines that fit, broken between words where that can be, the later ones indented; piped, whole."""
    if width is None:
        return text
    lines, lead, first = [], "", indent
    while wide(text) > (room := max(2, width - len(lead))):
        end = next(n for n in range(1, len(text) + 1) if wide(text[: n + 1]) > room)
        space = text.rfind(" ", first + 1, end + 1)
        at = space if space > 0 else end
        lines.append(lead + text[:at].rstrip())
        text, lead, first = text[at:].lstrip(), " " * indent, 0
    return "\n".join([*lines, lead + text])


@lru_cache(maxsize=1024)
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

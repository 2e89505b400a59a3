"""The table of tasks: the sums, then whoever needs a person, works, waits and is done, a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from fleet.app.tasks import Row
from fleet.cli.grid import Column, amount, clock, draw, folded, span, wide
from fleet.cli.show import paint_state
from fleet.core.states import LOOKS, Group, sums_line
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.overview import Overview

MAX_NAMED_TASKS = 8
HEADER_LINES = 4  # of a screen: the time, the sums, the heads, and the one the cursor stands on
ALL = "fleet tasks --all"
NO_SUPERVISOR = "no supervisor runs: fleet run"


def _own(is_own: Callable[[Row], bool]) -> Callable[[str, Row], str]:
    """What the task itself asked for stands out; what it inherits stands back."""
    return lambda text, row: click.style(text, bold=True) if is_own(row) else click.style(text, dim=True)


def _state(row: Row) -> str:
    return f"{LOOKS[row.shown].glyph} {row.word}"


def cost_cell(row: Row) -> str:
    """`$0.42`; `$0.42+?` where some attempts tell nothing, `?` where none does, `-` where none was made."""
    if row.cost is None:
        return "?" if row.cost_unknown else "-"
    return f"${row.cost:.2f}" + ("+?" if row.cost_unknown else "")


ID, CODER, MODEL, REPO = (
    Column[Row]("ID", 0, lambda row: row.id),
    Column[Row]("CODER", 2, lambda row: row.coder, _own(lambda row: row.own_coder)),
    Column[Row]("MODEL", 4, lambda row: row.model or "-", _own(lambda row: row.own_model)),
    Column[Row]("REPO", 1, lambda row: clean(row.project, 100)),
)
COLUMNS: list[Column[Row]] = [
    ID,
    Column("STATE", 0, _state, lambda text, row: paint_state(text, row.shown)),
    REPO,
    Column("STARTED", 9, lambda row: clock(row.started)),
    Column("ELAPSED", 1, lambda row: span(row.elapsed), right=True),
    Column("IDLE", 5, lambda row: span(row.idle), right=True),
    Column("CTX", 6, lambda row: "-" if row.peak_context_pct is None else f"{row.peak_context_pct}%", right=True),
    Column("EVENTS", 7, lambda row: str(row.events) if row.attempts else "-", right=True),
    Column("TOKENS", 5, lambda row: amount(row.tokens), right=True),
    Column("COST", 3, cost_cell, right=True),
    Column("TRIES", 8, lambda row: str(row.attempts), right=True),
    CODER,
    MODEL,
    Column("TITLE", 0, lambda row: clean(row.title, 500), least=24),
    Column("CWD", 10, lambda row: clean(row.cwd or "unknown", 500)),
]
READY = [one for one in COLUMNS if one.name in ("ID", "TITLE", "CWD")]


def note_of(row: Row) -> str:
    """What stands below a row: what its state does not say, and the command for whoever it waits for."""
    return " · ".join(part for part in (clean(row.note.strip(), 1000), row.next) if part)


def notes_of(rows: Sequence[Row]) -> dict[str, str]:
    """The notes by task; one that is the same as that of the row above is not said again."""
    notes = {row.id: note_of(row) for row in rows}
    before = ["", *notes.values()]
    return {task: "" if note == before[n] else note for n, (task, note) in enumerate(notes.items())}


def print_tasks(rows: Sequence[Row], width: int | None) -> None:
    """Print the tasks, or that there are none."""
    if not rows:
        click.echo("no tasks")
        return
    columns, same = _columns(rows, width)
    notes = notes_of(rows)
    lines = draw(rows, columns, lambda row: notes[row.id], width)
    room = 10_000 if width is None else width - len(click.unstyle(lines[0])) - 2
    heads = lines[0] + (click.style(f"  {same}", dim=True) if same and wide(same) <= room else "")
    click.echo("\n".join([heads, *lines[1:]]))


def _columns(rows: Sequence[Row], width: int | None) -> tuple[list[Column[Row]], str]:
    """The columns of these rows, and what is the same for all of them and stands in the heading. Piped: all of them."""
    if width is None:
        return COLUMNS, ""
    with_one_project = len({row.project for row in rows}) < 2
    with_one_coder = len({(row.coder, row.model, row.own_coder, row.own_model) for row in rows}) == 1
    left_out = [REPO] * with_one_project + [CODER, MODEL] * with_one_coder
    same = f"all: {rows[0].coder} {clean(rows[0].model or '', 60)}".rstrip() if with_one_coder else ""
    return [one for one in COLUMNS if one not in left_out], same


def print_ready(rows: Sequence[Row], width: int) -> None:
    """Print the tasks that could start, in their order."""
    click.echo("\n".join(draw(rows, READY, lambda row: "", width)))


def sums_text(found: Overview) -> str:
    """The line of sums; that nobody works on what waits is said in it."""
    idle = not found.supervised and any(row.group is Group.QUEUED for row in found.rows)
    return sums_line(found.sums) + (f" · {NO_SUPERVISOR}" if idle else "")


def print_overview(found: Overview, width: int | None, height: int | None = None) -> None:
    """Print the sums, and every row; of what is done, as many as the screen has room for. Sums that would be scrolled
    away stand at the end.
    """
    rows, sums = found.rows, click.style(_sums(found, width), bold=True)
    unfinished = sum(row.group is not Group.DONE for row in rows)
    fitting = len(rows) if height is None else _fitting(found, width, height)
    rows = rows[: max(unfinished, fitting)]
    if fitting >= unfinished:
        click.echo(sums)
    if rows:
        print_tasks(rows, width)
    if hidden := found.hidden + len(found.rows) - len(rows):
        click.echo(click.style(f"… and {hidden} more that {'is' if hidden == 1 else 'are'} done: {ALL}", dim=True))
    if fitting < unfinished:
        click.echo(sums)


def not_landed_line(tasks: Sequence[str]) -> str:
    """What is proven and not on its branch yet, with the command that brings it there; empty when there is nothing."""
    if not tasks:
        return ""
    more = " …" if len(tasks) > MAX_NAMED_TASKS else ""
    return f"proven, not landed: {', '.join(tasks[:MAX_NAMED_TASKS])}{more} (fleet merge --proven)"


def print_live(found: Overview, width: int | None, height: int) -> None:
    """Print what fits on one screen, and how many there are beside."""
    shown = _fitting(found, width, height)
    click.echo(click.style(_sums(found, width), bold=True))
    if found.rows:
        print_tasks(found.rows[:shown], width)
    if hidden := len(found.rows) - shown + found.hidden:
        click.echo(click.style(f"… and {hidden} more: {ALL}", dim=True))


def _sums(found: Overview, width: int | None) -> str:
    return folded(clean(sums_text(found), 1000), width)


def _fitting(found: Overview, width: int | None, height: int) -> int:
    """How many rows fit on a screen, with what stands above and below them."""
    room, shown = height - HEADER_LINES - _sums(found, width).count("\n"), 0
    notes = notes_of(found.rows)
    for row in found.rows:
        taken = 1 + len(folded(notes[row.id], width and width - 4).splitlines()[:2])
        if room - taken < (found.hidden > 0 or shown + 1 < len(found.rows)):
            break
        room, shown = room - taken, shown + 1
    return shown

"""The table of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from fleet.app.tasks import Row
from fleet.cli.grid import Column, amount, clock, draw, span
from fleet.cli.show import state_colour
from fleet.core.text import clean

LIVELY = ("working", "starting", "asks", "waiting", "alive", "ended", "dead", "failed", "refused", "blocked", "open")
BESIDE = 5  # lines: the time, an empty one, the heads, the rest, and the one the cursor stands on


def _own(is_own: Callable[[Row], bool]) -> Callable[[str, Row], str]:
    """What the task itself asked for stands out; what it inherits stands back."""
    return lambda text, row: click.style(text, bold=True) if is_own(row) else click.style(text, dim=True)


COLUMNS: list[Column[Row]] = [
    Column("ID", 0, lambda row: row.id),
    Column("STATE", 0, lambda row: row.shown_state, lambda text, row: state_colour(text, row.shown_state)),
    Column("STARTED", 8, lambda row: clock(row.started)),
    Column("ELAPSED", 1, lambda row: span(row.elapsed)),
    Column("IDLE", 2, lambda row: span(row.idle)),
    Column("CTX", 5, lambda row: "-" if row.peak_context_pct is None else f"{row.peak_context_pct}%"),
    Column("EVENTS", 6, lambda row: str(row.events) if row.attempts else "-"),
    Column("TOKENS", 4, lambda row: amount(row.tokens)),
    Column("COST", 4, lambda row: "-" if row.cost is None else f"${row.cost:.2f}"),
    Column("TRIES", 7, lambda row: str(row.attempts)),
    Column("CODER", 1, lambda row: row.coder, _own(lambda row: row.own_coder)),
    Column("MODEL", 3, lambda row: row.model or "-", _own(lambda row: row.own_model)),
    Column("TITLE", 0, lambda row: clean(row.title, 500), least=24),
    Column("CWD", 9, lambda row: clean(row.cwd or "unknown", 500)),
]


def print_tasks(rows: Sequence[Row], width: int | None) -> None:
    """Print the tasks, or that there are none."""
    lines = draw(rows, COLUMNS, lambda row: row.cause, width) if rows else ["no tasks"]
    click.echo("\n".join(lines))


READY = [one for one in COLUMNS if one.name in ("ID", "TITLE", "CWD")]


def print_ready(rows: Sequence[Row], width: int) -> None:
    """Print the tasks that could start, in their order."""
    click.echo("\n".join(draw(rows, READY, lambda row: "", width)))


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

"""How `fleet status` shows the work plane: one screen, and with --since what came of the night."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from fleet.cli.grid import folded, terminal_width
from fleet.cli.table import print_tasks
from fleet.core.states import cost_words, sums_line
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.run import Running
    from fleet.app.status import WorkStatus

LABEL_CHARS = 12


def show_work(found: WorkStatus | None, *, listed: bool) -> None:
    """Print who hands out tasks, the sums, what needs a person, and the cost; `listed` also what came to its end."""
    if found is None:
        _fact("tasks", "none yet: there is no home of fleet here")
        return
    _fact("supervisor", _supervisor(found.supervisor))
    if found.held_back:
        _fact("held", f"nothing more is started: {clean(found.held_back, 500)}")
    if listed and found.since:
        _fact("since", f"{datetime.fromtimestamp(found.since):%Y-%m-%d %H:%M}")
    _fact("tasks", sums_line(found.sums))
    _fact("cost today", " ".join(cost_words(found.cost_today.cost, found.cost_today.unknown)) or "nothing")
    rows = [*found.needs_you, *(found.done if listed else ())]
    if rows:
        click.echo("")
        print_tasks(rows, terminal_width())


def show_next(command: str) -> None:
    click.echo(f"  next: {command}", err=True)


def _fact(name: str, text: str) -> None:
    click.echo(folded(f"{name + ':':{LABEL_CHARS}}{clean(text, 1000)}", terminal_width(), LABEL_CHARS))


def _supervisor(who: Running) -> str:
    if not who.running:
        return "none runs (fleet run)"
    if who.stopped:
        return f"was stopped by a signal, and does nothing: kill -CONT {who.pid}"
    since = f" since {datetime.fromtimestamp(who.started):%Y-%m-%d %H:%M}" if who.started else ""
    return f"runs{since}, process {who.pid or 'unknown'}"

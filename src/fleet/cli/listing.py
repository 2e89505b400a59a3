"""list: every agent on a branch, and what it is doing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from fleet.cli.grid import Column, draw, span, terminal_width
from fleet.cli.show import BAD, GOOD, data, json_option, paint_state, size, talk, watched
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.batches.look import Row


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _paint_state(text: str, row: Row) -> str:
    from fleet.core.state import IN_TERMINAL

    return paint_state(text, IN_TERMINAL[row.state])


COLUMNS: tuple[Column[Row], ...] = (
    Column("BRANCH", 0, lambda row: clean(row.branch, 300), least=16),
    Column("STATE", 0, lambda row: row.state.value, _paint_state),
    Column("AGENT", 1, lambda row: clean(row.agent, 40)),
    Column("MODEL", 6, lambda row: clean(row.model or "-", 60)),
    Column("CPU", 3, lambda row: "-" if row.cpu is None else f"{row.cpu:.0f}%"),
    Column("MEM", 3, lambda row: "-" if row.memory is None else size(row.memory)),
    Column("RUNTIME", 1, lambda row: span(row.runtime)),
    Column("AHEAD", 2, lambda row: _count(row.ahead)),
    Column("CHANGED", 2, lambda row: _count(row.changed)),
    Column("TASK", 5, lambda row: row.task),
    Column("BATCH", 4, lambda row: clean(row.batch or "-", 100)),
)
DISK: Column[Row] = Column("DISK", 1, lambda row: size(row.disk))
PROJECT: Column[Row] = Column("PROJECT", 7, lambda row: clean(row.project, 300))


@click.command("list")
@click.option("--grouped", is_flag=True, help="By batch.")
@click.option("--all", "everywhere", is_flag=True, help="Of every project.")
@click.option("--disk", is_flag=True, help="What each place takes on the disk; reads all of them.")
@click.option("--repair", is_flag=True, help="Make tmux, git and the ledger agree again, and say what was done.")
@click.option("--watch", "-w", is_flag=True, help="Again every second.")
@json_option
def list(grouped: bool, everywhere: bool, disk: bool, repair: bool, watch: bool, as_json: bool) -> None:
    """Show every agent on a branch of this project: what it does, since when, and what its place holds."""
    from fleet.app.agents import rows

    if repair:
        _repair(everywhere, as_json)
        return

    watched(
        lambda: rows(everywhere=everywhere, disk=disk),
        lambda found: _print(found, grouped=grouped, disk=disk),
        watch=watch,
        as_json=as_json,
    )


def _print(rows: Sequence[Row], *, grouped: bool, disk: bool) -> None:
    several = len({row.project for row in rows}) > 1
    columns = (*COLUMNS, *((DISK,) if disk else ()), *((PROJECT,) if several else ()))
    if not rows:
        click.echo("no agents")
        talk('  next: fleet create BRANCH --prompt "what to do"')
        return
    if not grouped:
        click.echo("\n".join(draw(rows, columns, lambda row: row.cause, terminal_width())))
        return
    alone = tuple(column for column in columns if column.name != "BATCH")
    for batch, members in groupby(sorted(rows, key=lambda row: row.batch), key=lambda row: row.batch):
        found = tuple(members)
        click.echo(click.style(f"{clean(batch) or 'alone'}: {len(found)}", bold=True))
        click.echo("\n".join(draw(found, alone, lambda row: row.cause, terminal_width())) + "\n")


def _repair(everywhere: bool, as_json: bool) -> None:
    from fleet.app.agents import mend

    mended = mend(everywhere=everywhere)
    if as_json:
        data(mended)
    for one in () if as_json else mended:
        mark = click.style("not mended  ", fg=BAD) if one.failed else click.style("mended  ", fg=GOOD)
        click.echo(f"{mark}{clean(one.what, 500)}: {clean(one.done, 1000)}")
    if not mended and not as_json:
        click.echo("nothing to repair")
    if any(one.failed for one in mended):
        raise click.exceptions.Exit(1)

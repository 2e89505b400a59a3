"""cost."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option

if TYPE_CHECKING:
    from fleet.app.cost import Line, Report

BY = ("attempt", "task", "coder", "model", "day", "agent")
TIMES = "7d, 12h, today, yesterday, a date, or run (the last `fleet run` began)"
LEAST_IN_CENTS = Decimal("0.1")  # US dollars
MOST_SAID = 3  # differences below one row


@click.command()
@click.option("--by", type=click.Choice(BY), default="task", show_default=True, help="What is added up together.")
@click.option("--since", help=f"Only what ended since: {TIMES}.  [default: everything]")
@json_option
def cost(by: str, since: str | None, as_json: bool) -> None:
    """Show what agents used and what it cost, by their own word and by the gateway's.

    The gateway's figure counts when it saw all requests of an attempt, else the agent's. Who tells tokens and no money
    is estimated by a price list; models on your own machines cost nothing; what nobody knows is said to be unknown.
    """
    from fleet.app.cost import By, report

    found = report(By(by), since)
    if as_json:
        data(_plain(found))
        return
    if not found.rows:
        click.echo("no attempt has ended yet" if since is None else f"no attempt has ended since {since}")
        return
    _print(found)


def _print(found: Report) -> None:
    from fleet.cli.grid import Column, amount, draw, terminal_width

    money = partial(_dollars, places=_places((*found.rows, found.total)))
    columns: list[Column[Line]] = [
        Column(found.by.value.upper(), 0, lambda line: line.name, least=12),
        Column("ATTEMPTS", 5, lambda line: str(line.attempts), right=True),
        Column("TOKENS", 2, lambda line: amount(line.tokens), right=True),
        Column("READ", 3, lambda line: amount(line.prompt), right=True),
        Column("CACHED", 4, lambda line: amount(line.cache_read), right=True),
        Column("WRITTEN", 3, lambda line: amount(line.completion), right=True),
        Column("COST", 0, lambda line: "unknown" if line.cost is None else money(line.cost), right=True),
        Column("", 0, lambda line: f"+ {line.unknown} unknown" if line.unknown and line.cost is not None else ""),
        Column("HOW", 1, lambda line: ", ".join(line.basis)),
    ]
    if not any(line.unknown and line.cost is not None for line in (*found.rows, found.total)):
        columns = [column for column in columns if column.name]
    if found.total.requests is not None:
        columns += [
            Column("REQUESTS", 6, lambda line: "-" if line.requests is None else str(line.requests), right=True),
            Column("BY AGENT", 4, lambda line: money(line.agent_cost), right=True),
            Column("BY GATEWAY", 4, lambda line: money(line.gateway_cost), right=True),
        ]
    for line in draw((*found.rows, found.total), columns, lambda line: _said(found, line), terminal_width()):
        click.echo(line)


def _said(found: Report, line: Line) -> str:
    """What is amiss with a row; the total has nothing of its own to say."""
    if line is found.total:
        return ""
    more = len(line.differences) - MOST_SAID
    return "; ".join((*line.differences[:MOST_SAID], *([f"and {more} more"] if more > 0 else [])))


def _places(lines: Sequence[Line]) -> int:
    """How many digits of a dollar all amounts of one table have: as many as its smallest asks for."""
    amounts = (cost for line in lines for cost in (line.cost, line.agent_cost, line.gateway_cost) if cost)
    return 4 if any(cost < LEAST_IN_CENTS for cost in amounts) else 2


def _dollars(cost: Decimal | None, places: int) -> str:
    return "-" if cost is None else f"${cost:.{places}f}"


def _plain(found: Report) -> dict[str, object]:
    """The report with its money as numbers."""
    from dataclasses import asdict

    rows = [_numbers(asdict(line)) for line in found.rows]
    return {"by": found.by.value, "since": found.since, "rows": rows, "total": _numbers(asdict(found.total))}


def _numbers(line: dict[str, object]) -> dict[str, object]:
    return {name: float(round(value, 9)) if isinstance(value, Decimal) else value for name, value in line.items()}

"""cost."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option

if TYPE_CHECKING:
    from fleet.app.cost import Line, Report

BY = ("attempt", "task", "coder", "model", "day", "agent")
MOST_SAID = 3  # differences below one row


@click.command()
@click.option("--by", type=click.Choice(BY), default="task", show_default=True, help="What is added up together.")
@click.option("--since", help="Only what ended since: 7d, 12h, today, or a date.  [default: everything]")
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

    columns: list[Column[Line]] = [
        Column(found.by.value.upper(), 0, lambda line: line.name, least=12),
        Column("ATTEMPTS", 5, lambda line: str(line.attempts)),
        Column("TOKENS", 2, lambda line: amount(line.tokens)),
        Column("READ", 3, lambda line: amount(line.prompt)),
        Column("CACHED", 4, lambda line: amount(line.cache_read)),
        Column("WRITTEN", 3, lambda line: amount(line.completion)),
        Column("COST", 0, _cost),
        Column("HOW", 1, lambda line: ", ".join(line.basis)),
    ]
    if found.total.requests is not None:
        columns += [
            Column("REQUESTS", 6, lambda line: "-" if line.requests is None else str(line.requests)),
            Column("BY AGENT", 4, lambda line: _dollars(line.agent_cost)),
            Column("BY GATEWAY", 4, lambda line: _dollars(line.gateway_cost)),
        ]
    for line in draw((*found.rows, found.total), columns, lambda line: _said(found, line), terminal_width()):
        click.echo(line)


def _said(found: Report, line: Line) -> str:
    """What is amiss with a row; the total has nothing of its own to say."""
    if line is found.total:
        return ""
    more = len(line.differences) - MOST_SAID
    return "; ".join((*line.differences[:MOST_SAID], *([f"and {more} more"] if more > 0 else [])))


def _cost(line: Line) -> str:
    """`$1.20`, `$1.20 + 2 unknown`, `unknown`."""
    if line.cost is None:
        return "unknown"
    return _dollars(line.cost) + (f" + {line.unknown} unknown" if line.unknown else "")


def _dollars(cost: Decimal | None) -> str:
    from fleet.evidence.cost import dollars

    return "-" if cost is None else dollars(cost)


def _plain(found: Report) -> dict[str, object]:
    """The report with its money as numbers."""
    from dataclasses import asdict

    rows = [_numbers(asdict(line)) for line in found.rows]
    return {"by": found.by.value, "since": found.since, "rows": rows, "total": _numbers(asdict(found.total))}


def _numbers(line: dict[str, object]) -> dict[str, object]:
    return {name: float(round(value, 9)) if isinstance(value, Decimal) else value for name, value in line.items()}

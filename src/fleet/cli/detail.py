"""show: one task in every detail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fleet.cli.checks import check_lines
from fleet.cli.show import data, json_option
from fleet.cli.tasks import open_desk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.limits import Allowed
    from fleet.app.tasks import Row, Shown
    from fleet.core.work import Attempt

TAIL_LINES = 8  # of a check that failed
TOGETHER = ("tokens", "cost")  # limits of all attempts at a task together


@click.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one task whole: what is wanted, what it runs with, and every attempt at it."""
    from fleet.app.tasks import show as look

    shown = look(open_desk(), id)
    if as_json:
        data(shown)
    else:
        _print(shown)


def _print(shown: Shown) -> None:
    from fleet.cli.grid import clock, folded, span, terminal_width

    row, width = shown.row, terminal_width()
    coder = row.coder + ("" if row.own_coder else "  (default)")
    model = (row.model or "the agent's own") + ("" if row.own_model else "  (default)")
    facts = [
        ("id", row.id), ("title", row.title), ("state", row.word), ("doing", _doing(row)), ("cause", row.cause),
        ("proof", _proof(shown)),
        ("cwd", row.cwd or f"unknown: {shown.spec_problem}"), ("coder", coder), ("model", model),
        ("account", (shown.spec.account if shown.spec else None) or ""),
        ("priority", str(row.priority)), ("place", _place(shown)), ("branch", row.branch or ""),
        ("waits for", ", ".join(row.waits_for)), ("onto", _onto(shown)), ("stands on", shown.stands_on),
        ("landed", shown.landed),
        *(("but", f"{one}: fleet retry {row.id}") for one in shown.outdated),
        *(("after", f"{task}, which only orders: {why}") for task, why in shown.only_after.items()),
        *_demands(shown), ("was red", shown.history[-1].red_before if shown.history else ""), *_limits(shown),
        ("notes", shown.notes),
    ]  # fmt: skip
    for name, value in facts:
        if value:
            click.echo(folded(f"{name + ':':11}{clean(value, 2000)}", width, 11))
    for line in check_lines(shown.checks, row.id, TAIL_LINES):
        click.echo(folded(line, width, 4))
    if shown.description:
        click.echo("\n" + "\n".join(folded(clean(line, 2000), width) for line in shown.description.splitlines()))
    for comment in shown.comments:
        said = f"{clock(comment.at)}  {clean(comment.author)}: {clean(comment.text, 2000)}"
        click.echo("\n" + folded(said, width, 4))
    for attempt in shown.history:
        wall = span((attempt.ended or time.time()) - attempt.started) if attempt.started else "-"
        ending = attempt.verdict.value if attempt.verdict else "running"
        coder = f"{attempt.coder} ({attempt.account})" if attempt.account else attempt.coder
        who = f"{clock(attempt.started)}  {wall}  {coder}  {_context(attempt)}"
        line = f"attempt {attempt.number}  {who}  {ending}"
        cause = "; ".join(clean(said, 2000) for said in (attempt.cause, _handover(attempt)) if said)
        whole = line + (f": {cause}" if cause else "")
        click.echo(("\n" if attempt.number == 1 else "") + folded(whole, width, 4))


def _onto(shown: Shown) -> str:
    """The branch that the result is meant for, where no other line says so."""
    asked = (shown.spec.onto if shown.spec else None) or ""
    onto = (shown.history[-1].onto if shown.history else "") or asked
    return "" if shown.stands_on or onto == shown.row.branch else onto


def _doing(row: Row) -> str:
    """What its agent does, and since when."""
    from fleet.cli.grid import clock

    return "" if row.life is None else f"{row.life.state}, since {clock(row.life.since)} ({row.life.why})"


def _proof(shown: Shown) -> str:
    """What the evidence says of the last attempt, and why."""
    last = shown.history[-1] if shown.history else None
    return f"{last.proof}: {last.reason}" if last is not None and last.proof is not None else ""


def _place(shown: Shown) -> str:
    """Which kind of place the last attempt had; before there is one, what the task itself asks for."""
    if shown.history:
        last = shown.history[-1]
        return f"{last.place} of {last.repository}" if last.repository else last.place.value
    return (shown.spec.place if shown.spec else None) or ""


def _demands(shown: Shown) -> list[tuple[str, str]]:
    from fleet.app.demands import described

    if shown.demands is None:
        return [("check", (shown.spec.check if shown.spec else None) or "")]
    return list(described(shown.demands, shown.spec))


def _limits(shown: Shown) -> list[tuple[str, str]]:
    """What a task may use: of one attempt in a line, of all together with what is used of it."""
    alone = ", ".join(_alone(one) for one in shown.limits if one.name not in TOGETHER)
    counted = [one for one in shown.limits if one.name in TOGETHER and (one.limit, one.used) != (None, None)]
    return [("limits", alone), *((one.name, _together(one)) for one in counted)]


def _alone(one: Allowed) -> str:
    figure = f"{one.name} {'none' if one.limit is None else _figure(one.name, one.limit)}"
    return figure if one.set_by.value == "default" else f"{figure} ({one.set_by.words})"


def _together(one: Allowed) -> str:
    used = "unknown" if one.used is None else _figure(one.name, one.used)
    limit = ", no limit" if one.limit is None else f" of {_figure(one.name, one.limit)}, {one.set_by.words}"
    return f"{used}{limit}" + (f"; not kept: {one.not_kept}" if one.not_kept else "")


def _figure(name: str, value: float) -> str:
    from fleet.config import units

    match name:
        case "timeout" | "silence":
            return units.time_text(value)
        case "output":
            return units.size_text(int(value))
        case "tokens":
            return units.tokens_text(int(value))
        case "cost":
            return units.dollars_text(value)
        case _:
            return f"{value:g}"


def _context(attempt: Attempt) -> str:
    from fleet.config.units import tokens_text

    if attempt.context_share is None:
        return "context unknown"
    return f"context {attempt.context_share}% of {tokens_text(attempt.context_limit or 0)}"


def _handover(attempt: Attempt) -> str:
    match attempt.handover:
        case None:
            return ""
        case "begun":
            return "its session writes its notes"
        case "done":
            return "handed over"
        case problem:
            return f"handover {problem}"

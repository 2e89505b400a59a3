"""tasks, ready, abort, retry, accept, comment, depend, block."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk, warn, watched
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.app.overview import Overview
    from fleet.app.several import Outcome
    from fleet.app.tasks import Desk, NextBase, Row
    from fleet.core.task import Task


NO_BASES: Mapping[str, NextBase] = {}


def open_desk() -> Desk:
    from fleet.app.tasks import Desk

    desk = Desk.open()
    if desk.problem is not None:
        warn(f"{' '.join(desk.problem.message.split())}; the defaults are shown in its place")
    return desk


@click.command()
@click.option("--all", "everything", is_flag=True, help="Finished ones too.")
@click.option("--limit", type=click.IntRange(1), help="At most so many: the newest.")
@click.option("--watch", "-w", is_flag=True, help="Again every second.")
@json_option
def tasks(everything: bool, limit: int | None, watch: bool, as_json: bool) -> None:
    """Show the sums, and the tasks: who needs you first, then what works, waits, and is done since `fleet run` began.

    A coder or model in bold was asked for by the task itself; a dim one is inherited. JSON has the tasks that are not
    finished, or with --all every task.
    """
    from fleet.app.tasks import rows

    desk = open_desk()
    if as_json:
        watched(lambda: rows(desk, everything=everything)[-(limit or 0) :], data, watch=watch, as_json=True)
    else:
        _show_tasks(desk, watch=watch, everything=everything, limit=limit)


def _show_tasks(desk: Desk, *, watch: bool, everything: bool, limit: int | None) -> None:
    from fleet.app.overview import overview, overview_of_all
    from fleet.cli.grid import terminal_height, terminal_width
    from fleet.cli.table import print_live, print_overview

    known: dict[str, Task] = {}

    def look() -> Overview:
        if everything:
            return overview_of_all(desk, limit)
        found = overview(desk, known=known)
        return replace(found, rows=tuple(_newest(found.rows, limit)))

    def show(found: Overview) -> None:
        if watch and sys.stdout.isatty():
            print_live(found, terminal_width(), terminal_height())
        else:
            width = terminal_width()
            print_overview(found, width, None if width is None or everything else terminal_height())
            if found.proven:
                _print_not_landed(desk, found.proven, width)

    watched(look, show, watch=watch, as_json=False)


def _print_not_landed(desk: Desk, proven: Sequence[str], width: int | None) -> None:
    from fleet.app.not_landed import not_landed  # what nobody pays for who has nothing to land
    from fleet.cli.grid import folded
    from fleet.cli.table import not_landed_line

    if line := not_landed_line(not_landed(desk, proven)):
        click.echo(folded(line, width))


def _newest(found: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """At most so many of them: those that were added last, in the order that they have."""
    if limit is None or limit >= len(found):
        return found
    least = sorted(row.created for row in found)[-limit]
    return [row for row in found if row.created >= least][:limit]


@click.command()
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@json_option
def ready(limit: int | None, as_json: bool) -> None:
    """List the tasks that could start now, the most urgent first."""
    from fleet.app.tasks import ready as look

    found = look(open_desk(), limit)
    if as_json:
        data(found)
        return
    _print_ready(found)
    if not found:
        talk("nothing is ready")


def _print_ready(found: Sequence[Row]) -> None:
    """The columns that there is room for on a terminal; piped, a whole line for each."""
    from fleet.cli.grid import terminal_width
    from fleet.cli.table import print_ready

    width = terminal_width()
    if width is not None and found:
        print_ready(found, width)
        return
    for row in found:
        click.echo(f"{row.id}  {clean(row.title, 500)}  [{clean(row.cwd or 'no directory', 1000)}]")


STATES = ("open", "starting", "working", "blocked", "refused", "failed", "done", "cancelled")
ids_argument = click.argument("ids", nargs=-1, metavar="[ID...]")
state_option = click.option("--state", type=click.Choice(STATES), help="All in this state; with IDs, of these.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.command()
@ids_argument
@state_option
@yes_option
@json_option
def abort(ids: tuple[str, ...], state: str | None, yes: bool, as_json: bool) -> None:
    """End the agents of tasks, with everything they started, and cancel the tasks.

    An ID may be a pattern such as 't1*': what that means is listed, and asked about. First an agent is asked to end
    (INT, then TERM after 5 s), and after 10 s more it is made to. Works without a supervisor.
    """
    from fleet.app.several import CAN_BE_CANCELLED, abort_all, choose, find_rows

    desk = open_desk()
    chosen = choose(_named(ids, state, "abort"), state, find_rows(desk, ids, state), CAN_BE_CANCELLED)
    _ask(chosen.found, "end and cancel", yes)
    report(abort_all(desk, chosen.ids), "Cancelled", "cancelled", as_json, one=_is_one(ids, state))


@click.command()
@ids_argument
@click.option("--keep-base", is_flag=True, help="Go on in the place of the last attempt, with what it left there.")
@state_option
@yes_option
@json_option
def retry(ids: tuple[str, ...], keep_base: bool, state: str | None, yes: bool, as_json: bool) -> None:
    """Open tasks again, with their failures forgotten. They begin anew, unless --keep-base is given.

    Anew is: from the branch a task is meant for and the results it waits for, as they are then. What the last attempt
    left is saved first.

    An ID may be a pattern such as 't1*': of those that were refused, failed or were set aside. What it means is listed,
    and asked about.
    """
    from fleet.app.several import CAN_BE_RETRIED, choose, each, find_rows
    from fleet.app.tasks import next_base
    from fleet.app.tasks import retry as again

    desk = open_desk()
    found = [row for row in find_rows(desk, ids, state) if row.state != "blocked" or not row.waits_for]
    chosen = choose(_named(ids, state, "retry"), state, found, CAN_BE_RETRIED)
    _ask(chosen.found, "open again", yes)
    opened = each(lambda id: again(desk, id, keep_base=keep_base), chosen.ids)
    bases = {one.id: next_base(desk, one.id, keep_base=keep_base) for one in opened if one.task is not None}
    report(opened, "Opened", "open", as_json, one=_is_one(ids, state), bases=bases)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@json_option
def accept(ids: tuple[str, ...], as_json: bool) -> None:
    """Close tasks whose work was refused, or not verified, because you have looked at it. The mark stays."""
    from fleet.app.several import each, is_pattern
    from fleet.app.tasks import accept as believe

    if patterns := [name for name in ids if is_pattern(name)]:
        raise BadConfig(f"{clean(patterns[0])}: accept takes ids and no patterns, since you looked at each of them")
    desk = open_desk()
    report(each(lambda id: believe(desk, id), ids), "Closed", "done", as_json, one=len(ids) == 1)


def _named(ids: tuple[str, ...], state: str | None, command: str) -> tuple[str, ...]:
    if not ids and state is None:
        raise BadConfig("which tasks?", hint=f"fleet {command} ID…, or: fleet {command} --state refused")
    return ids


def _is_one(ids: tuple[str, ...], state: str | None) -> bool:
    """Whether somebody named one task, and wants to hear of that one."""
    from fleet.app.several import is_pattern

    return len(ids) == 1 and state is None and not is_pattern(ids[0])


def _ask(found: Sequence[Row], verb: str, yes: bool) -> None:
    """List what a pattern or a state means, and ask; what was named by its id needs neither."""
    if not found or yes:
        return
    many = f"{len(found)} task{'s' if len(found) > 1 else ''}"
    talk(f"{verb} {many}:")
    for row in found:
        talk(f"  {row.id}  {row.word}  {clean(row.title, 100)}")
    if not sys.stdin.isatty():
        raise BadConfig("nobody can be asked here", hint="the same with --yes")
    click.confirm(f"{verb} {many}?", abort=True, err=True)


def report(
    outcomes: Sequence[Outcome], done: str, state: str, as_json: bool, *, one: bool,
    bases: Mapping[str, NextBase] = NO_BASES,
) -> None:  # fmt: skip
    """Say what came of each task. Of one alone its problem is the command's; of several the others are done all the
    same, and the exit code is 1.
    """
    from fleet.cli.agents import complain

    if one and outcomes[0].problem is not None:
        raise outcomes[0].problem
    if as_json:
        told = [_told(outcome, state, bases.get(outcome.id)) for outcome in outcomes]
        data(told[0] if one else told)
    for outcome in outcomes:
        if outcome.problem is not None:
            complain("not done  ", outcome.id, outcome.problem)
        elif not as_json:
            click.echo(f"{done} {outcome.id}{_begins_from(bases.get(outcome.id))}")
        for waits in outcome.waiting:
            talk(f"  {waits} waits for it: fleet depend {waits} --not {outcome.id}, or fleet abort {waits}")
    if any(outcome.problem is not None for outcome in outcomes):
        raise click.exceptions.Exit(1)


def _begins_from(base: NextBase | None) -> str:
    return f": {clean(base.text, 1000)}" if base is not None and base.text else ""


def _told(outcome: Outcome, state: str, base: NextBase | None) -> dict[str, object]:
    if outcome.problem is not None:
        return {"id": outcome.id, "problem": outcome.problem.message}
    reason = {"reason": outcome.task.reason} if outcome.task is not None and state == "done" else {}
    waiting = {"waiting": outcome.waiting} if state == "cancelled" else {}
    begins_from = {"base": base.kind} if base is not None else {}
    return {"id": outcome.id, "state": state, **reason, **waiting, **begins_from}


@click.command()
@click.argument("id")
@click.argument("text")
@json_option
def comment(id: str, text: str, as_json: bool) -> None:
    """Write a comment on a task; `fleet show` prints it. Agents do not see it."""
    from fleet.app.tasks import comment as write

    write(open_desk(), id, text)
    data({"id": id, "comment": text}) if as_json else click.echo(f"Commented on {id}")


@click.command()
@click.argument("id")
@click.argument("on", nargs=-1, metavar="[ON...]")
@click.option("--not", "no_longer", metavar="ID", multiple=True, help="Wait for this one no more. May be given again.")
@json_option
def depend(id: str, on: tuple[str, ...], no_longer: tuple[str, ...], as_json: bool) -> None:
    """Let the task ID wait until the tasks ON are done; with --not it waits no more. A circle is refused."""
    from fleet.app.edit import depend as wait

    if not on and not no_longer:
        raise BadConfig("for which task?", hint="fleet depend ID ON, or: fleet depend ID --not ON")
    task = wait(open_desk(), id, on, no_longer)
    waits = ", ".join(task.waits_for) or ("nothing, since that is done" if on else "nothing")
    data({"id": task.id, "waits_for": task.waits_for}) if as_json else click.echo(f"{task.id} waits for {waits}")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID... [REASON]")
@click.option("--reason", metavar="TEXT", help="Why; with one ID it may stand behind it, without the option.")
@json_option
def block(ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Set tasks aside that nobody works on, until `fleet retry` opens them again."""
    from fleet.app.several import each
    from fleet.app.tasks import block as set_aside

    if reason is None and len(ids) != 2:
        raise BadConfig("why are they set aside?", hint="fleet block ID… --reason TEXT")
    named, why = (ids[:1], ids[-1]) if reason is None else (ids, reason)
    desk = open_desk()
    report(each(lambda id: set_aside(desk, id, why), named), "Set aside", "blocked", as_json, one=len(named) == 1)

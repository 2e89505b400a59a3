"""tasks, ready, abort, retry, accept, comment, depend, block."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk, warn, watched
from fleet.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.app.tasks import Desk, Row


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
    """Show the tasks that are not finished, what each is doing, and why it is as it is.

    A coder or model in bold was asked for by the task itself; a dim one is inherited.
    """
    from fleet.app.tasks import rows
    from fleet.cli.grid import terminal_height, terminal_width
    from fleet.cli.table import print_live, print_tasks

    desk = open_desk()

    def look() -> list[Row]:
        found = rows(desk, everything=everything)
        return found[-limit:] if limit else found

    def show(found: list[Row]) -> None:
        if watch and sys.stdout.isatty():
            print_live(found, terminal_width(), terminal_height())
        else:
            print_tasks(found, terminal_width())

    watched(look, show, watch=watch, as_json=as_json)


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


@click.command()
@click.argument("id")
@json_option
def abort(id: str, as_json: bool) -> None:
    """End a task's agent, with everything it started, and cancel the task.

    First it is asked (INT, then TERM after 5 s), and after 10 s more it is made to end. Works without a supervisor.
    """
    from fleet.app.tasks import abort as end

    done = end(open_desk(), id)
    data({"id": done.id, "state": "cancelled"}) if as_json else click.echo(f"Cancelled {done.id}")


@click.command()
@click.argument("id")
@json_option
def retry(id: str, as_json: bool) -> None:
    """Open a task again, with its failures forgotten."""
    from fleet.app.tasks import retry as again

    opened = again(open_desk(), id)
    data({"id": opened.id, "state": "open"}) if as_json else click.echo(f"Opened {opened.id}")


@click.command()
@click.argument("id")
@json_option
def accept(id: str, as_json: bool) -> None:
    """Close a task whose work was refused, or not verified, because you have looked at it. The mark stays."""
    from fleet.app.tasks import accept as believe

    done = believe(open_desk(), id)
    data({"id": done.id, "state": "done", "reason": done.reason}) if as_json else click.echo(f"Closed {done.id}")


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
@click.argument("on")
@json_option
def depend(id: str, on: str, as_json: bool) -> None:
    """Let the task ID wait until the task ON is done. A circle is refused."""
    from fleet.app.tasks import depend as wait

    task = wait(open_desk(), id, on)
    waits = ", ".join(task.waits_for) or "nothing, since that is done"
    data({"id": task.id, "waits_for": task.waits_for}) if as_json else click.echo(f"{task.id} waits for {waits}")


@click.command()
@click.argument("id")
@click.argument("reason")
@json_option
def block(id: str, reason: str, as_json: bool) -> None:
    """Set a task aside that nobody works on, until `fleet retry` opens it again."""
    from fleet.app.tasks import block as set_aside

    task = set_aside(open_desk(), id, reason)
    data({"id": task.id, "state": "blocked"}) if as_json else click.echo(f"Set aside {task.id}")

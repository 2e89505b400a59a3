"""task: what a task left, to read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.records import in_words, record_printer
from fleet.cli.tasks import open_desk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.tasks import Desk

READABLE = ("log", "events", "plan", "knowledge", "questions", "receipt", "check", "stderr")
RECORDS = ("log", "events")


class TaskCommand(click.Command):
    """`task --help` also lists what runs now."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from fleet.core import FleetError

        try:
            running = _running_now()
        except FleetError:
            return
        with formatter.section("Running now"):
            formatter.write_dl(running or [("-", "nothing")])


def _running_now() -> list[tuple[str, str]]:
    from fleet.app.tasks import rows

    found = [row for row in rows(open_desk(), everything=False) if row.state.value in ("starting", "working")]
    return [(row.id, f"[{row.coder}/{row.model or 'its own'}] {clean(row.title, 60)}") for row in found]


@click.command(cls=TaskCommand)
@click.argument("id")
@click.argument("what", type=click.Choice(READABLE))
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows.")
@click.option("--raw", "--json", "raw", is_flag=True, help="As it is in the file; a receipt is JSON.")
@click.option("--words", is_flag=True, help="Log and events in local times and sentences, as on a terminal.")
def task(id: str, what: str, follow: bool, raw: bool, words: bool) -> None:
    """Read what a task left: its log and events, the agent's plan, knowledge and questions, its receipt, what its
    checks printed, its stderr.

    Log, events and receipt are in words on a terminal, and JSON for everybody else.
    """
    from fleet.app.tasks import content, is_going_on, readable

    desk = open_desk()
    if what == "check":
        _print_checks(desk, id, as_json=raw)
        return
    path = readable(desk, id, what)
    if what == "receipt" and not raw and not follow and sys.stdout.isatty() and _tell_receipt(desk, path):
        return
    if what == "receipt":
        _doubt_receipt(desk, id)
    pour = _pour_records(what) if what in RECORDS and in_words(words, raw) else _pour
    shown = 0
    while True:
        while piece := content(path, shown):
            pour(piece)
            shown += len(piece)
        if not follow or not is_going_on(desk, id):
            return
        time.sleep(0.5)


def _pour_records(what: str) -> Callable[[bytes], None]:
    """What prints pieces of a file of records in words, a line for each record that is whole."""
    from fleet.app.log_words import event_line, log_line

    show = record_printer(log_line if what == "log" else event_line)
    rest = bytearray()

    def pour(piece: bytes) -> None:
        rest.extend(piece)
        *whole, left = rest.split(b"\n")
        rest[:] = left
        for line in whole:
            show(line.decode(errors="replace"))

    return pour


def _print_checks(desk: Desk, id: str, *, as_json: bool) -> None:
    """Print all that each check of the last attempt printed: that is data; which check it was is talk."""
    from fleet.app.check_output import last_checks
    from fleet.cli.checks import check_line
    from fleet.cli.show import data, talk

    found = last_checks(desk, id)
    if as_json:
        data([one.check for one in found])
        return
    for one in found:
        talk(f"{one.attempt}  {check_line(one.check)}")
        for piece in one.pieces():
            _pour(piece)


def _tell_receipt(desk: Desk, path: Path) -> bool:
    """Show a receipt in words; False when the file is none."""
    from fleet.app.verify import look
    from fleet.cli.verify import show_receipt
    from fleet.evidence.receipt import load_receipt

    receipt = load_receipt(path)
    if receipt is not None:
        show_receipt(receipt, look(desk.home, receipt.attempt.id))
    return receipt is not None


def _doubt_receipt(desk: Desk, id: str) -> None:
    """Say what is wrong with a receipt that is printed as it is."""
    from fleet.app.verify import doubts

    for text in doubts(desk.home, id):
        click.echo(f"this does not hold: {clean(text, 2000)}; next: fleet verify {id}", err=True)


def _pour(text: bytes) -> None:
    """Text that an agent wrote: on a terminal without what it would obey, piped as it is."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    shown = text.decode(errors="replace")
    safe = (c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    click.echo("".join(safe), nl=False)

"""uninstall: end what runs, and remove what fleet made."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.uninstall import Gone, Item


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list what would end, go and stay.")
@click.option("--everything", is_flag=True, help="Also what is nowhere else: results, what was saved, tasks, settings.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def uninstall(dry_run: bool, everything: bool, yes: bool, as_json: bool) -> None:
    """End what runs, and remove what fleet made on this machine.

    Places go after they were saved, branches and results when another branch has all of them, caches, and the files
    that fleet generated. What is nowhere else stays, and is listed; with --everything that goes, too. fleet.yaml stays.
    """
    from fleet.app import uninstall as app
    from fleet.app.home import must_exist
    from fleet.cli.tasks import open_desk

    must_exist([])
    desk, cwd = open_desk(), Path.cwd()
    listed = app.survey(desk, cwd, everything=everything)
    if as_json and (dry_run or not yes):
        data({"dry_run": True, "removed": [], "goes": _of(listed, True), "stays": _of(listed, False)})
        return
    if not as_json:
        _list(listed)
    if dry_run:
        talk("\nnothing was changed")
        return
    if not yes:
        _ask(everything)
    gone = []
    for one in app.uninstall(desk, cwd, listed, everything=everything):
        gone.append(one)
        if not as_json:
            _tell(one)
    if as_json:
        removed = [one.item for one in gone if one.problem is None]
        data({"dry_run": False, "removed": removed, "goes": [], "stays": _of(listed, False)})
    _end(gone, quietly=as_json)


def _of(listed: Sequence[Item], goes: bool) -> list[Item]:
    return [item for item in listed if item.goes is goes]


def _list(listed: Sequence[Item]) -> None:
    for word, goes in (("goes", True), ("stays", False)):
        for item in _of(listed, goes):
            click.echo(f"{word:6} {item.kind:10} {_name(item)}: {clean(item.why, 1000)}")


def _name(item: Item) -> str:
    return clean(item.name, 1000) + (f" in {clean(item.repository, 1000)}" if item.repository else "")


def _ask(everything: bool) -> None:
    if not sys.stdin.isatty():
        raise BadConfig("nobody can be asked here", hint="the same with --yes")
    lost = " What stands nowhere else is lost." if everything else ""
    click.confirm(f"End and remove all that is listed as going?{lost}", abort=True, err=True)


def _tell(one: Gone) -> None:
    if one.problem is None:
        word = "ended" if one.item.kind in ("supervisor", "agent", "gateway") else "removed"
        click.echo(f"{word} {one.item.kind} {_name(one.item)}{f' ({clean(one.note, 1000)})' if one.note else ''}")


def _end(gone: Sequence[Gone], *, quietly: bool) -> None:
    """Say what could not be removed, and how the program itself goes."""
    from fleet.app.update import removal_command
    from fleet.cli.places import say_kept

    say_kept({_name(one.item): (one.problem.message, one.problem.hint) for one in gone if one.problem is not None})
    command = removal_command()
    if not quietly:
        talk(f"\nthe program itself: {shlex.join(command) if command else 'remove its checkout and its link'}")

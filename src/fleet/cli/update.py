"""update."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.update import Known


@click.command()
@click.option("--check", "only_check", is_flag=True, help="Only look whether there is a newer version.")
@click.option("--force", is_flag=True, hidden=True, help="It is always asked anew; scripts may still say so.")
@json_option
def update(only_check: bool, force: bool, as_json: bool) -> None:
    """Bring the newest version from where this one came from, by the tool that installed it.

    That is uv, pipx or pip, and a git address or a checkout; a package index is never asked. Exit 1 when it is not
    known whether there is a newer one.
    """
    from fleet.app import update as updating

    known = updating.check()
    updated = None
    if known.command and not only_check:
        talk(f"{known.origin} has {known.found.newest}: {clean(shlex.join(known.command), 2000)}")
        updated = updating.install(known, lambda line: talk(f"  {clean(line, 2000)}"))
    if as_json:
        data(_as_data(known, updated))
    else:
        _show(known, updated)
    if known.found.newer is None:
        raise click.exceptions.Exit(1)


def _as_data(known: Known, updated: str | None) -> dict[str, object]:
    found = known.found
    return {
        "installed": updated or known.installed, "newest": found.newest, "newer": found.newer and updated is None,
        "updated_from": known.installed if updated else None, "method": known.method, "origin": known.origin or None,
        "asked": known.asked, "command": known.command or None, "reason": found.reason or None,
    }  # fmt: skip


def _show(known: Known, updated: str | None) -> None:
    found = known.found
    if updated:
        click.echo(f"fleet is {updated} now, as {known.origin} has it, and was {known.installed}")
        talk("  a supervisor that runs is still the old one: fleet run stop, then fleet run")
    elif found.newer:
        click.echo(f"fleet {known.installed} is installed, and {found.newest} is there ({known.origin})")
        talk(f"  next: {found.hint or 'fleet update'}")
    elif found.newer is False:
        click.echo(f"fleet {known.installed} is the newest ({known.origin})")
    else:
        click.echo(f"fleet {known.installed} is installed; whether there is a newer one is unknown")
        talk(f"  {found.reason}\n  next: {found.hint}")

"""update."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.update import Known


@click.command()
@click.option("--check", "only_check", is_flag=True, help="Only look whether there is a newer version.")
@click.option("--force", is_flag=True, help="Ask again, even when it was asked today.")
@json_option
def update(only_check: bool, force: bool, as_json: bool) -> None:
    """Bring the newest version, by the tool that installed this one.

    That is uv, pipx or pip, with its own settings; a checkout of the source is never touched. Exit 1 when it is not
    known whether there is a newer one.
    """
    from fleet.app import update as updating

    known = updating.check(force=force)
    updated = None
    if known.newer and not only_check:
        talk(f"fleet {known.installed} -> {clean(str(known.newest))}: {' '.join(known.command)}")
        updated = updating.install(known, lambda line: talk(f"  {clean(line, 2000)}"))
    if as_json:
        data(_told(known, updated))
    else:
        _show(known, updated)
    if known.newer is None:
        raise click.exceptions.Exit(1)


def _told(known: Known, updated: str | None) -> dict[str, object]:
    return {
        "installed": updated or known.installed, "newest": known.newest, "newer": known.newer and updated is None,
        "updated_from": known.installed if updated else None, "method": known.method, "asked": known.asked,
        "command": list(known.command) or None, "reason": known.reason or None,
    }  # fmt: skip


def _show(known: Known, updated: str | None) -> None:
    if updated:
        click.echo(f"fleet is {clean(updated)} now, and was {known.installed}")
        talk("  a supervisor that runs is still the old one: fleet run stop, then fleet run")
    elif known.newer:
        click.echo(f"fleet {known.installed} is installed, and {clean(str(known.newest))} is there{_when(known)}")
        talk("  next: fleet update")
    elif known.newer is False:
        click.echo(f"fleet {known.installed} is the newest{_when(known)}")
    else:
        click.echo(f"fleet {known.installed} is installed; whether there is a newer one is unknown")
        talk(f"  {known.reason}\n  next: {known.hint}")


def _when(known: Known) -> str:
    if not known.cached or known.asked is None:
        return ""
    return f" (asked {max(0, time.time() - known.asked) / 3600:.0f} h ago; --force asks again)"

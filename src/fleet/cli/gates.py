"""pause, resume, quota."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, table, talk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.gates import Resumed

coder_option = click.option("--coder", help="Only tasks for this agent CLI.")
project_option = click.option(
    "--project", type=click.Path(path_type=Path), help="Only tasks at work in this directory, or below it."
)


@click.command()
@coder_option
@project_option
@click.option("--reason", default="", help="Why, for whoever looks at the tasks.")
@json_option
def pause(coder: str | None, project: Path | None, reason: str, as_json: bool) -> None:
    """Start no more tasks, until `fleet resume`. Agents that work go on."""
    from fleet.app.gates import pause as put
    from fleet.app.gates import paused

    made = put(coder, project, reason)
    if as_json:
        data(paused())
        return
    click.echo(f"Paused {clean(made.name, 500) or 'everything'}; agents that work go on.")
    talk(f"  let it go on: fleet resume{_again(coder, project)}")


@click.command()
@coder_option
@project_option
@click.option("--account", help="Try an account again that its provider closed; a coder's name is its own login.")
@json_option
def resume(coder: str | None, project: Path | None, account: str | None, as_json: bool) -> None:
    """Let tasks start again. Without an option, whatever was paused, and coders that were not logged in."""
    from fleet.app.gates import paused, reopen
    from fleet.app.gates import resume as go_on

    if account is not None:
        said = f"{clean(reopen(account))} is tried again: one task goes first."
    else:
        said = _resumed(go_on(coder, project))
    if as_json:
        data(paused())
        return
    click.echo(said)
    for left in paused():
        talk(f"  still paused: {clean(left.name, 500) or 'everything'}")


def _resumed(done: Resumed) -> str:
    what = clean(done.name, 500) or "Everything"
    said = [f"{clean(who)} is tried again: one task goes first." for who in done.logins]
    if done.pauses or not said:
        said.insert(
            0, f"{what} goes on." if done.pauses else f"Nothing was paused{f' for {what}' if done.name else ''}."
        )
    return "\n".join(said)


@click.command()
@json_option
def quota(as_json: bool) -> None:
    """Show what providers allow, account by account, as far as their agents have told."""
    from fleet.app.gates import quota as look

    found = look()
    if as_json:
        data(found)
        return
    if not found:
        click.echo("no agent has told of a limit yet")
        return
    rows = [
        (
            one.coder,
            one.account or "-",
            one.window or "unknown",
            "unknown" if one.used_pct is None else f"{one.used_pct:.0f}%",
            _moment(one.resets),
            f"closed until {_moment(one.closed_until)}: {one.cause}" if one.closed_until else "open",
        )
        for one in found
    ]
    table(("CODER", "ACCOUNT", "WINDOW", "USED", "RESETS", "STATE"), rows)


def _moment(at: float | None) -> str:
    """A time in the next day by the clock, a later one with its date."""
    if at is None:
        return "unknown"
    when = datetime.fromtimestamp(at)
    return f"{when:%H:%M}" if abs((when - datetime.now()).total_seconds()) < 86_400 else f"{when:%Y-%m-%d %H:%M}"


def _again(coder: str | None, project: Path | None) -> str:
    return f" --coder {coder}" if coder else f" --project {project}" if project else ""

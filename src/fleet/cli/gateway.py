"""gateway up, down, status."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.models import open_fleet
from fleet.cli.show import BAD, GOOD, config_option, data, json_option, out_option, talk

if TYPE_CHECKING:
    from fleet.app.gateway import Status


@click.group()
def gateway() -> None:
    """Start, stop and look at the gateway that agents talk to."""


@gateway.command()
@config_option
@out_option
@json_option
def up(config: Path, out: Path | None, as_json: bool) -> None:
    """Start LiteLLM with the generated file and wait until it serves every alias."""
    from fleet.app import gateway as app

    now = app.up(open_fleet(config), out or config.parent, talk)
    if as_json:
        data(now)
    elif isinstance(now, app.Direct):
        click.echo(f"no gateway is needed: {now.url} answers by itself")
    else:
        click.echo(f"the gateway answers on {now.url} (process {now.pid})")
    talk("\nNext:\n  source .env.subagent-fleet\nand start your agent in the same shell.")


@gateway.command()
@config_option
@out_option
@json_option
def down(config: Path, out: Path | None, as_json: bool) -> None:
    """Stop the gateway."""
    from fleet.app import gateway as app

    pid = app.down(out or config.parent)
    if as_json:
        data({"stopped": pid})
        return
    click.echo(f"the gateway has stopped (process {pid})" if pid else "no gateway was running")


@gateway.command()
@config_option
@out_option
@json_option
def status(config: Path, out: Path | None, as_json: bool) -> None:
    """Say whether the gateway runs, answers, and knows the aliases. Exit 1 when it does not."""
    from fleet.app import gateway as app

    now = app.status(open_fleet(config), out or config.parent)
    if as_json:
        data(now)
    elif isinstance(now, app.Direct):
        click.echo(f"direct: {now.url} {'answers' if now.answers else f'does not answer ({now.reason})'}")
    else:
        _show(now)
    if not now.answers:
        raise click.exceptions.Exit(1)


def _show(now: Status) -> None:
    if not now.running:
        click.echo(f"{now.url}  {click.style('stopped', fg=BAD)}  {now.reason}")
        return
    since = datetime.fromtimestamp(now.started or 0, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    state = click.style("answers", fg=GOOD) if now.answers else click.style(f"running; {now.reason}", fg=BAD)
    click.echo(f"{now.url}  {state}  process {now.pid}, LiteLLM {now.litellm}, since {since}")
    click.echo(f"log: {now.log}")
    if now.aliases is not None:
        click.echo(f"serves: {', '.join(now.aliases)}")
    if now.stale:
        click.echo("stale: fleet.yaml changed since; run: fleet generate && fleet gateway down && fleet gateway up")

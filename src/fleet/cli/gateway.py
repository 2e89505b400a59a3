"""gateway up, down, status, logs."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.models import open_fleet
from fleet.cli.show import BAD, GOOD, MEH, config_option, data, json_option, out_option, talk
from fleet.cli.where import Where
from fleet.core import BadConfig

if TYPE_CHECKING:
    from fleet.app.gateway import Status


ENV_FILE = ".env.subagent-fleet"
LOG_COLOURS = {"ERROR": BAD, "Exception": BAD, "WARNING": MEH}
MAX_LOG_BYTES = 4 * 1024 * 1024
LOG_PAUSE_S = 0.5


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

    where = Where(config, out or config.parent)
    with where.hints():
        now = app.up(open_fleet(config), where.out, talk)
    if as_json:
        data(now)
    elif isinstance(now, app.Direct):
        click.echo(f"no gateway is needed: {now.url} answers by itself")
    else:
        click.echo(f"the gateway answers on {now.url} (process {now.pid})")
    if (where.out / ENV_FILE).exists():
        talk(f"\nNext:\n  source {shlex.quote(where.path(ENV_FILE))}\nand start your agent in the same shell.")


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

    where = Where(config, out or config.parent)
    now = app.status(open_fleet(config), where.out)
    if as_json:
        data(now)
    elif isinstance(now, app.Direct):
        click.echo(f"direct: {now.url} {'answers' if now.answers else f'does not answer ({now.reason})'}")
    else:
        _show(where, now)
    if not now.answers:
        raise click.exceptions.Exit(1)


@gateway.command()
@config_option
@out_option
@click.option("--lines", "-n", type=click.IntRange(1, 50_000), default=50, show_default=True, help="How many.")
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows, until Ctrl-C.")
@json_option
def logs(config: Path, out: Path | None, lines: int, follow: bool, as_json: bool) -> None:
    """Print the last lines of LiteLLM's log; it begins anew when the gateway is started."""
    from fleet.app import gateway as app

    if as_json and follow:
        raise BadConfig("what goes on is no JSON", hint="leave out --json, or --follow")
    where = Where(config, out or config.parent)
    with where.hints():
        log = app.log(where.out)
    found, end = app.log_lines(log, max(0, log.stat().st_size - MAX_LOG_BYTES))
    if as_json:
        data({"log": log, "lines": found[-lines:]})
        return
    _print_log(found[-lines:])
    while follow:
        time.sleep(LOG_PAUSE_S)
        found, end = app.log_lines(log, end)
        _print_log(found)


def _print_log(lines: list[str]) -> None:
    for line in lines:
        colour = next((colour for word, colour in LOG_COLOURS.items() if word in line), None)
        click.echo(click.style(line, fg=colour) if colour else line)


def _show(where: Where, now: Status) -> None:
    if not now.running:
        click.echo(f"{now.url}  {click.style('stopped', fg=BAD)}  {now.reason}")
        return
    since = datetime.fromtimestamp(now.started or 0, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    state = click.style("answers", fg=GOOD) if now.answers else click.style(f"running; {now.reason}", fg=BAD)
    which = f"process {now.pid}, LiteLLM {now.litellm}, since {since}" if now.pid else f"({now.reason})"
    click.echo(f"{now.url}  {state}  {which}")
    if now.log:
        click.echo(f"log: {now.log}")
    if now.aliases is not None:
        click.echo(f"serves: {', '.join(now.aliases)}")
    if now.stale:
        click.echo(where.command(f"stale: fleet.yaml or the generated file changed since; run: {now.remedy}"))

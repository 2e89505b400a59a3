"""config show, set, edit, validate."""

from __future__ import annotations

import json
import sys

import click

from fleet.cli.show import data, json_option, talk
from fleet.core import BadConfig, NotFound
from fleet.core.text import clean


@click.group()
def config() -> None:
    """Show and change this machine's settings, $FLEET_HOME/runtime.toml."""


@config.command()
@click.option("--raw", is_flag=True, help="Print the file itself.")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@json_option
def show(raw: bool, origin: bool, as_json: bool) -> None:
    """Print every setting in force, as key = value."""
    from fleet.app import settings

    if raw:
        _print_raw(settings.raw())
        return
    shown = settings.show()
    if as_json:
        both = {one.key: {"value": one.value, "origin": one.origin} for one in shown}
        data(both if origin else {one.key: one.value for one in shown})
        return
    lines = {f"{one.key} = {_toml(one.value)}": one.origin for one in shown}
    width = min(60, max(map(len, lines)))
    for line, where in lines.items():
        click.echo(clean(f"{line:{width}}  # {where}" if origin else line, 10_000))


def _print_raw(content: bytes | None) -> None:
    if content is None:
        raise NotFound("there is no runtime.toml, so every setting is the default", hint="fleet init --home-only")
    click.echo(content, nl=False)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@config.command("set")
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@json_option
def change(assignments: tuple[str, ...], as_json: bool) -> None:
    """Change settings: all of those named, or none. A running supervisor follows.

    A key is written with dots: limits.timeout=30m, concurrent.coders.claude=2, coders.mine.argv='["my-agent"]'. The
    file keeps its comments and its order.
    """
    from fleet.app import settings

    changed = settings.change(assignments)
    if as_json:
        data(changed)
        return
    for one in changed:
        old, new = ("not set" if one.old is None else _toml(one.old)), _toml(one.new)
        click.echo(clean(f"{one.key}: {new} (as it was)" if old == new else f"{one.key}: {old} -> {new}", 10_000))


@config.command()
def edit() -> None:
    """Open the settings in $EDITOR. What you save replaces them when it is valid, and not before."""
    from fleet.app import settings

    before = settings.draft()
    text = start = before.decode(errors="replace")
    while True:
        edited = click.edit(text, extension=".toml")
        if edited in (None, start):
            talk("nothing was changed")
            return
        text = edited or ""
        try:
            settings.replace(before, text)
            return
        except BadConfig as problem:
            if not _again(problem):
                raise


def _again(problem: BadConfig) -> bool:
    """Whether somebody is there who wants to mend it."""
    if not sys.stdin.isatty():
        return False
    talk("\n".join(clean(line, 2000) for line in problem.message.splitlines()))
    return click.confirm("Edit again?", default=True, err=True)


@config.command()
@json_option
def validate(as_json: bool) -> None:
    """Check the settings. Reports every problem at once."""
    from fleet.app import settings

    try:
        path = settings.validate()
    except BadConfig as invalid:
        if not as_json:
            raise
        data({"valid": False, "problems": settings.problems(invalid)})
        raise click.exceptions.Exit(invalid.exit_code) from None
    if as_json:
        data({"valid": True, "problems": []})
    else:
        click.echo(f"{path} is valid.")

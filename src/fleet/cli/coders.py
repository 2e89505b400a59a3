"""coders list, check."""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import BAD, GOOD, MEH, data, json_option, paint, talk
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.coders import Listed

WIDTH = 80
LABEL = 12
COLOURS = {"pass": GOOD, "FAIL": BAD}


@click.group()
def coders() -> None:
    """List the agents that can work, and check one of your own."""


@coders.command("list")
@json_option
def list_coders(as_json: bool) -> None:
    """Show every coder: built in, declared in runtime.toml, or installed by a package.

    Its version comes from running the program with --version, in a scratch directory and a scratch HOME.
    """
    from fleet.app.coders import listing

    found = listing()
    if as_json:
        data(found)
        return
    for number, one in enumerate(found):
        click.echo("\n" if number else "", nl=False)
        _show(one)
    missing = [one.name for one in found if one.program and not one.path]
    if missing:
        talk(f"\nnot installed here: {', '.join(map(clean, missing))}")


def _show(one: Listed) -> None:
    default = "  default" if one.default else ""
    click.echo(f"{click.style(clean(one.name), bold=True)}  {_version(one)}  {_origin(one)}{default}")
    if one.problem is not None:
        _fact("broken", one.problem)
        return
    if one.install:
        _fact("get it", one.install)
    _fact("started as", shlex.join(one.argv or ()))
    _fact("context", "unknown" if one.context_limit is None else f"{one.context_limit} tokens")
    _fact("can", ", ".join(_abilities(one)) or "nothing beyond its work")
    _fact("unproven", one.unproven or "nothing")


def _version(one: Listed) -> str:
    if one.problem is not None:
        return click.style("broken", fg=BAD)
    if one.path is None:
        return click.style("not found", fg=MEH)
    return click.style(clean(one.version or "version unknown"), fg=GOOD)


def _origin(one: Listed) -> str:
    return f"({one.origin}{f' by {clean(one.package)}' if one.package else ''})"


def _abilities(one: Listed) -> list[str]:
    return [field.name for field in dataclasses.fields(one.can) if getattr(one.can, field.name)] if one.can else []


def _fact(label: str, text: str) -> None:
    """One fact, on as many lines as it takes; a word that is too long for a line is left whole."""
    lines = textwrap.wrap(
        clean(text, 10_000), WIDTH - LABEL - 2, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip
    for number, line in enumerate(lines or [""]):
        click.echo(f"  {label if number == 0 else '':{LABEL}}{line}")


@coders.command()
@click.argument("name")
@click.option(
    "--transcript",
    type=click.Path(path_type=Path),
    help="What the real program once printed, for the checks that need it.",
)
@json_option
def check(name: str, transcript: Path | None, as_json: bool) -> None:
    """Check whether a coder keeps the promise of one. Nothing is started. Exit code 1 when it does not."""
    from fleet.app.coders import check as examine

    found = examine(name, transcript)
    failed = sum(not one.passed for one in found)
    if as_json:
        data(found)
    else:
        for one in found:
            click.echo(f"{paint('pass' if one.passed else 'FAIL', COLOURS)}  {one.name}")
            for line in textwrap.wrap(one.why, WIDTH - 6, break_on_hyphens=False):
                click.echo(f"      {line}")
        talk(f"{len(found) - failed} passed, {failed} failed")
        if transcript is None:
            talk("with --transcript FILE its output is checked too")
    if failed:
        raise click.exceptions.Exit(1)

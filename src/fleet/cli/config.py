"""config show, set, edit, validate; and the options that mean the same for a project."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click

from fleet.cli.forerunners import warn_of_unread
from fleet.cli.show import data, json_option, talk
from fleet.core import BadConfig, NotFound
from fleet.core.text import clean


@click.group(invoke_without_command=True)
@click.option("--edit", "wanted", flag_value="edit", help="Open the project's fleet.yaml in $EDITOR.")
@click.option("--validate", "wanted", flag_value="validate", help="Check the settings and the project's fleet.yaml.")
@click.option("--show-origin", "wanted", flag_value="origin", help="Say where each value comes from.")
@json_option
@click.pass_context
def config(ctx: click.Context, wanted: str | None, as_json: bool) -> None:
    """Show and change this machine's settings, $FLEET_HOME/runtime.toml.

    Without a command, every value in force: of this machine, and of the project, from the workspace in its fleet.yaml.
    """
    if ctx.invoked_subcommand is not None:
        if wanted or as_json:
            raise click.UsageError(f"options go after {ctx.invoked_subcommand}", ctx)
        return
    warn_of_unread()
    if wanted == "edit":
        _edit_project()
    elif wanted == "validate":
        _validate(as_json, project=True)
    else:
        _show(origin=wanted == "origin", as_json=as_json)


@config.command()
@click.option("--raw", is_flag=True, help="Print the file itself.")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@json_option
def show(raw: bool, origin: bool, as_json: bool) -> None:
    """Print every setting in force, as key = value; in a project, those of its workspace too."""
    from fleet.app import settings

    if raw:
        _print_raw(settings.raw())
    else:
        _show(origin=origin, as_json=as_json)


def _show(*, origin: bool, as_json: bool) -> None:
    from fleet.app import settings

    shown = [*settings.show(), *settings.show_project(Path.cwd())]
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
        click.echo(clean(f"{one.key}: {old} -> {new}" if one.changed else f"{one.key}: {new} (as it was)", 10_000))


@config.command()
def edit() -> None:
    """Open the settings in $EDITOR. What you save replaces them when it is valid, and not before."""
    from fleet.app import settings

    before = settings.draft()
    _edit(before, ".toml", lambda text: settings.replace(before, text))


def _edit_project() -> None:
    from fleet.app import settings

    path, before = settings.project_draft(Path.cwd())
    _edit(before, ".yaml", lambda text: settings.replace_project(path, before, text))


def _edit(before: bytes, extension: str, replace: Callable[[str], None]) -> None:
    text = start = before.decode(errors="replace")
    while True:
        edited = click.edit(text, extension=extension)
        if edited in (None, start):
            talk("nothing was changed")
            return
        text = edited or ""
        try:
            replace(text)
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
    _validate(as_json, project=False)


def _validate(as_json: bool, *, project: bool) -> None:
    from fleet.app import settings

    asked: list[Callable[[], Path | None]] = [settings.validate, lambda: settings.validate_project(Path.cwd())]
    wrong: list[BadConfig] = []
    for ask in asked[: 2 if project else 1]:
        try:
            path = ask()
        except BadConfig as invalid:
            wrong.append(invalid)
        else:
            if path and not as_json:
                click.echo(f"{path} is valid.")
    if as_json:
        data({"valid": not wrong, "problems": [one for invalid in wrong for one in settings.problems(invalid)]})
        raise click.exceptions.Exit(wrong[0].exit_code if wrong else 0)
    if wrong:
        raise BadConfig("\n".join(invalid.message for invalid in wrong), wrong[0].hint)

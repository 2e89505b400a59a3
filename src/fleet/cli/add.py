"""add: one task, or all of a file, into the queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fleet.cli.show import data, json_option, talk, text_of
from fleet.cli.spec_options import read_spec, spec_options
from fleet.core.text import clean


@click.command()
@click.argument("title", required=False)
@click.option("--file", "path", metavar="FILE", help="Add every task of a Markdown list or of JSON; - reads stdin.")
@click.option("--format", "form", type=click.Choice(["md", "json"]), help="What the file is.  [default: by its name]")
@click.option("--dry-run", is_flag=True, help="Check the file and show what would be added.")
@click.option("--description", "-d", default="", help="What is to be done, at length; - reads it from stdin.")
@click.option("--priority", "-p", type=click.IntRange(0, 4), default=2, show_default=True, help="0 is most urgent.")
@click.option("--after", metavar="ID", multiple=True, help="Wait for this task to be done. May be given again.")
@spec_options
@json_option
def add(
    title: str | None, path: str | None, form: str | None, dry_run: bool, description: str, priority: int,
    after: tuple[str, ...], as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Put one task in the queue, or all of a file. It is worked on where you are now, unless --cwd says otherwise."""
    from fleet.app.add import add as put
    from fleet.core.task import NewTask, Spec

    spec = Spec(**{"cwd": str(Path().absolute())} | read_spec(given))
    if title is None or path is not None or form is not None or dry_run:
        from fleet.cli.plan import add_file

        add_file(title, path, form, dry_run, NewTask("", description, priority, after), spec, as_json)
        return
    made, is_awake = put(NewTask(title, text_of(description), priority, after), spec)
    if as_json:
        data({"id": made.id, "title": made.title, "cwd": spec.cwd})
    else:
        click.echo(f"Added {made.id}: {clean(made.title, 500)}")
        if not is_awake:
            talk("  no supervisor runs; start one: fleet run")
    if spec.check is not None:
        from fleet.app.check_look import doubt_about

        doubt = doubt_about(spec.check, Path(spec.cwd), needs=spec.needs or (), task=made.id)
        if doubt:
            talk(f"  the check may not start: {doubt}")

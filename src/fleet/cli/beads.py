"""fleet bd: everything behind it is bd's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.beads import Made


class Verbatim(click.Command):
    """A command whose words click does not look at: `--help` and `--` are for somebody else."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args


@click.command(cls=Verbatim, add_help_option=False)
@click.pass_context
def bd(ctx: click.Context) -> None:
    """Call bd in the home; a `create` also records where, and by whom, the task is to be worked on."""
    from fleet.app import beads

    made = beads.call(ctx.args, Path.cwd())
    _show(made)
    ctx.exit(made.code)


def _show(made: Made) -> None:
    if "json" in made.options:
        sys.stdout.buffer.write(made.out)
        sys.stdout.buffer.flush()
    elif made.code:
        click.echo(clean(made.complaint, 2000), err=True, nl=bool(made.complaint))
    elif "quiet" not in made.options:
        for task, title in made.tasks:
            click.echo(task if "silent" in made.options else _line(made, task, title))


def _line(made: Made, task: str, title: str) -> str:
    facts = [("cwd", made.spec.cwd), ("coder", made.spec.coder), ("model", made.spec.model)]
    how = ", ".join(f"{name}: {clean(value, 1000)}" for name, value in facts if value)
    return f"Created {task}: {clean(title, 500)}  [{how}]"

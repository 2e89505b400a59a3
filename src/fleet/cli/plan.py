"""add --file: every task of a plan."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from fleet.app.plan import LARGEST, STDIN, Added, Checked, content, prepare, put, ring, would_add
from fleet.cli.show import data, talk
from fleet.core.task import NewTask, Spec
from fleet.core.text import clean

SHOWN = 6


def add_file(
    title: str | None, file: str | None, form: str | None, dry_run: bool, new: NewTask, spec: Spec, as_json: bool
) -> None:
    """Add the tasks of a file. What the other options say holds for every task that does not say it itself."""
    if file is None:
        raise click.UsageError("Missing argument 'TITLE'." if title is None else "--format and --dry-run need --file")
    if title is not None or new.description:
        raise click.UsageError("with --file, the title and the description of each task stand in the file")
    path = STDIN if file == "-" else Path(file)
    source = sys.stdin.buffer.read(LARGEST + 1) if file == "-" else content(path)
    checked = prepare(source, path, form, new, spec)
    _tell_done(checked.plan.done)
    made = would_add(checked) if dry_run else _add(checked, as_json)
    if as_json:
        places = {task.key: n for n, task in enumerate(checked.plan.tasks)}
        data(sorted(made, key=lambda one: places[one.key]))
    elif dry_run:
        for one in made:
            click.echo(_line(one.key, one))
    if dry_run:
        talk(f"{len(made)} {'task' if len(made) == 1 else 'tasks'} would be added; nothing was")


def _add(checked: Checked, as_json: bool) -> list[Added]:
    made = put(checked, _silent if as_json else _tell)
    if made and not ring(checked) and not as_json:
        talk("  no supervisor runs; start one: fleet run")
    return made


def _tell(one: Added) -> None:
    with suppress(BrokenPipeError):  # a reader who has seen enough is no reason to add half a plan
        click.echo(_line(one.id or "", one))


def _silent(one: Added) -> None:
    pass


def _line(name: str, one: Added) -> str:
    more = f" and {len(one.after) - SHOWN} more" if len(one.after) > SHOWN else ""
    after = f"  (after {', '.join(one.after[:SHOWN])}{more})" if one.after else ""
    return f"{clean(name)}  {clean(one.title, 500)}{clean(after, 1000)}"


def _tell_done(lines: tuple[int, ...]) -> None:
    if not lines:
        return
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    where = f"{'line' if len(lines) == 1 else 'lines'} {', '.join(map(str, lines[:SHOWN]))}{more}"
    talk(f"done already and not added: {where}")

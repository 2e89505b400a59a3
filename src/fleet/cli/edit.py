"""edit: a task that is in the queue already, changed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from fleet.cli.show import data, json_option, talk, text_of
from fleet.cli.spec_options import read_spec, spec_options
from fleet.core import BadConfig
from fleet.core.task import Spec

OPTIONS = {"files": "max-files", "protected": "allow-protected"}  # facts of a Spec whose option has another name
FACTS = {OPTIONS.get(field.name, field.name): field.name for field in fields(Spec)}
CLEARED = [name for name in FACTS if name not in ("cwd", "interactive")]


@click.command()
@click.argument("id")
@click.option("--title", help="What is to be done, in a line.")
@click.option("--description", "-d", help="What is to be done, at length; - reads it from stdin.")
@click.option("--priority", "-p", type=click.IntRange(0, 4), help="0 is most urgent.")
@click.option("--after", metavar="ID", multiple=True, help="Wait for this task, too. May be given again.")
@click.option("--not", "no_longer", metavar="ID", multiple=True, help="Wait for this one no more. May be given again.")
@spec_options
@click.option(
    "--clear", metavar="NAME", type=click.Choice(CLEARED), multiple=True,
    help="Take back what the option of this name said. May be given again.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Also while an attempt runs: it goes on as it was, the next one differs.")
@json_option
def edit(
    id: str, title: str | None, description: str | None, priority: int | None, after: tuple[str, ...],
    no_longer: tuple[str, ...], clear: tuple[str, ...], force: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Change a task that is in the queue: its words, how it is to be worked on, and what it waits for.

    Refused for what an attempt that runs was given, unless --force is. Lists such as --allow replace what was there.
    """
    from fleet.app.edit import Change
    from fleet.app.edit import edit as change
    from fleet.cli.tasks import open_desk
    from fleet.core.task import NewWords

    words = NewWords(title, None if description is None else text_of(description), priority)
    spec = read_spec(given)
    for name in clear:
        if FACTS[name] in spec:
            raise BadConfig(f"--{name} and --clear {name} contradict each other")
        spec[FACTS[name]] = None
    wanted = Change(words, spec, after, no_longer)
    if not wanted.names:
        raise BadConfig("what is to be changed?", hint=f'fleet edit {id} --check "make test"; fleet edit --help')
    done = change(open_desk(), id, wanted, force=force)
    names = {fact: name for name, fact in FACTS.items()}
    changed = [names.get(name, name) for name in wanted.names]
    if as_json:
        held = None if done.running is None else done.running.id
        data({"id": done.task.id, "changed": changed, "waits_for": done.task.waits_for, "goes_on_as_it_was": held})
        return
    click.echo(f"Changed {done.task.id}: {', '.join(changed)}")
    if done.running is not None:
        talk(f"  {done.running.id} goes on with what it was given; the next attempt differs")
    elif done.task.status in ("blocked", "closed"):
        talk(f"  it is not open: fleet retry {done.task.id}")

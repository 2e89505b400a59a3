"""questions, answer."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk, text_of
from fleet.cli.tasks import open_desk
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.questions import Open
    from fleet.questions.thread import Question

BELOW = "----- Your answer stands above this line. The question: -----"


@click.command()
@json_option
def questions(as_json: bool) -> None:
    """List what agents ask and nobody has answered, the oldest first."""
    from fleet.app.questions import open_questions

    found = open_questions(open_desk())
    if as_json:
        data(found)
        return
    for one in found:
        _print(one)
    if not found:
        talk("no agent asks anything")


def _print(one: Open) -> None:
    from fleet.cli.grid import span

    since = span(None if one.since is None else max(0.0, time.time() - one.since))
    who = "its agent waits" if one.waiting else "its agent has ended"
    head = f"{one.id}  question {one.number}  {since}  {one.coder}, {who}  {clean(one.title, 200)}"
    click.echo(click.style(head, bold=True))
    for line in one.question.splitlines():
        click.echo(f"    {clean(line, 2000)}")
    for option in one.options:
        click.echo(f"    - {clean(option, 500)}")
    click.echo(click.style(f'    fleet answer {one.id} --question {one.number} "…"', dim=True))


@click.command()
@click.argument("id")
@click.argument("text", required=False)
@click.option("--question", "number", type=click.IntRange(1), help="Which one.  [default: the oldest that is open]")
@json_option
def answer(id: str, text: str | None, number: int | None, as_json: bool) -> None:
    """Answer what the agent of a task asks, and let the task go on. The first answer counts.

    TEXT may be - for stdin; without it, $VISUAL or $EDITOR is opened.
    """
    from fleet.app.questions import answer as give
    from fleet.app.questions import question

    desk = open_desk()
    asked = question(desk, id, number)
    given = give(desk, id, asked, _words(id, text, asked))
    if as_json:
        data(given)
        return
    click.echo(f"Answered question {given.number} of {given.id}: {clean(' '.join(given.question.split()), 200)}")
    talk(f"  {given.next}")


def _words(id: str, text: str | None, asked: Question) -> str:
    if text is not None:
        return text_of(text)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadConfig("what is the answer? There is no terminal for an editor", hint=f'fleet answer {id} "…"')
    lines = [*asked.text.splitlines(), *(f"- {option}" for option in asked.options)]
    shown = "\n".join(clean(line, 2000) for line in lines)
    written = click.edit(f"\n\n{BELOW}\n\n{shown}\n", extension=".md")
    return (written or "").partition(BELOW)[0]

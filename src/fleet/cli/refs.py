"""clean --refs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fleet.cli.places import say_kept
from fleet.cli.show import data, table, talk
from fleet.core.text import clean, sayable

if TYPE_CHECKING:
    from fleet.app.refs import LetGo, Ref


def clean_refs(*, days: int, yes: bool, as_json: bool) -> None:
    """Show what git keeps of attempts, and remove what nobody needs any more once a person agreed."""
    from fleet.app.refs import kept, let_go
    from fleet.cli.tasks import open_desk

    desk = open_desk()
    found = kept(desk, days * 86400.0)
    offered, staying = [one for one in found if one.may_go], [_said(one) for one in found if not one.may_go]
    if as_json and not yes:
        data({"removed": [], "removable": [_said(one) for one in offered], "kept": staying})
        return
    if not as_json:
        _show(found)
    if not offered or not (yes or _agreed(days)):
        if as_json:
            data({"removed": [], "removable": [], "kept": staying})
        return
    done = list(let_go(desk, offered))
    if as_json:
        data({"removed": done, "removable": [], "kept": staying})
    _tell(done, quietly=as_json)


def _show(found: Sequence[Ref]) -> None:
    if found:
        rows = [
            (one.ref, clean(str(one.repository), 2000), "may go" if one.may_go else "stays", one.why) for one in found
        ]
        table(("REF", "REPOSITORY", "", "WHY"), rows)
    if not any(one.may_go for one in found):
        talk("every ref is still needed" if found else "git keeps nothing of this home's attempts")


def _agreed(days: int) -> bool:
    if not sys.stdin.isatty():
        talk(f"remove them with: fleet clean --refs --days {days} --yes")
        return False
    return click.confirm("Remove those that may go? Git forgets their commits some time later.", err=True)


def _tell(done: Sequence[LetGo], *, quietly: bool) -> None:
    for one in done:
        if one.problem is None and not quietly:
            click.echo(f"removed {one.ref} ({one.commit[:12]})")
    say_kept({one.ref: (one.problem, one.hint) for one in done if one.problem is not None})


def _said(one: Ref) -> dict[str, object]:
    return {
        "ref": one.ref, "repository": sayable(str(one.repository)), "commit": one.commit, "task": one.task,
        "attempt": one.attempt, "why": one.why,
    }  # fmt: skip

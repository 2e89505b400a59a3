"""diff, salvage, and clean --places."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import BAD, GOOD, data, json_option, size, table, talk, warn
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.places import Removable, Removed

LINES = {"+": GOOD, "-": BAD, "@": "cyan"}


@click.command()
@click.argument("name", metavar="BRANCH|TASK|ATTEMPT")
@click.option("--stat", is_flag=True, help="Only which files, and how much.")
def diff(name: str, stat: bool) -> None:
    """Show what an attempt's place has against what it began from: commits, what is not committed, new files."""
    from fleet.app.places import compare
    from fleet.cli.tasks import open_desk

    text = compare(open_desk(), Path.cwd(), name, stat=stat)
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    for line in text.decode(errors="replace").splitlines():
        click.echo(click.style(_safe(line), fg=LINES.get(line[:1])))


def _safe(line: str) -> str:
    """A line of an agent's file, without what a terminal would obey."""
    return "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


@click.group()
def salvage() -> None:
    """What was saved of places that are gone (list, show, restore, drop).

    Every file that was not committed and every commit that no branch leads to is kept in the project's own repository,
    under refs/fleet/salvage, until it is dropped.
    """


@salvage.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List what was saved in this repository."""
    from fleet.app.places import kept

    found = kept(Path.cwd())
    if as_json:
        data(found)
    elif not found:
        talk("nothing was saved here")
    else:
        rows = [(one.name, _clock(one.at), size(one.size), one.task or "-", one.branch or "-") for one in found]
        table(("NAME", "SAVED", "SIZE", "TASK", "BRANCH"), rows)


@salvage.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what is in one: files, commits, sizes."""
    from fleet.app.places import show as look

    found = look(Path.cwd(), name)
    if as_json:
        data(found)
        return
    facts = [
        ("name", found.kept.name), ("saved", _clock(found.kept.at)), ("branch", found.kept.branch),
        ("base", found.kept.base or ""), ("from", found.kept.path), ("task", found.kept.task),
    ]  # fmt: skip
    for label, value in facts:
        if value:
            click.echo(f"{label + ':':9}{clean(value, 2000)}")
    for commit, subject in found.commits:
        click.echo(f"commit   {commit[:12]}  {clean(subject, 500)}")
    for path in found.gone:
        click.echo(f"deleted  {clean(path, 2000)}")
    for path, count in found.files:
        click.echo(f"file     {clean(path, 2000)}  {size(count)}")
    talk(f"  bring it back: fleet salvage restore {clean(name)}")


@salvage.command()
@click.argument("name")
@click.option("--to", type=click.Path(path_type=Path), help="A new directory.  [default: NAME, here]")
@click.option("--branch", metavar="NAME", help="A new branch to stand on.  [default: none]")
@json_option
def restore(name: str, to: Path | None, branch: str | None, as_json: bool) -> None:
    """Bring one back as a worktree in a new directory: what was not committed is there, and not committed."""
    from fleet.app.places import restore as bring_back

    kept, where = bring_back(Path.cwd(), name, to, branch)
    if as_json:
        data({"name": kept.name, "path": str(where), "branch": branch})
    else:
        click.echo(f"Restored {kept.name} in {clean(str(where), 2000)}")
        talk(f"  it is still saved, until: fleet salvage drop {kept.name}")


@salvage.command()
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def drop(name: str, yes: bool, as_json: bool) -> None:
    """Let one go for good."""
    from fleet.app.places import drop as let_go
    from fleet.app.places import show as look

    if not yes:
        found = look(Path.cwd(), name)
        talk(f"{found.kept.name}: {len(found.files)} files, {len(found.commits)} commits, {size(found.kept.size)}")
        click.confirm("Let it go for good?", abort=True, err=True)
    kept = let_go(Path.cwd(), name)
    data({"name": kept.name, "commit": kept.commit}) if as_json else click.echo(f"Dropped {kept.name} ({kept.commit})")


def clean_places(*, yes: bool, large: bool, as_json: bool) -> None:
    """Offer the places that nobody needs any more, and remove them once a person agreed; each is saved first."""
    from fleet.app.places import clean_up, removable
    from fleet.cli.tasks import open_desk
    from fleet.places.salvage import CAP

    desk = open_desk()
    offered = removable(desk, Path.cwd())
    if as_json and not yes:
        data({"removed": [], "removable": [_said(one) for one in offered]})
        return
    if not as_json:
        _offer(offered)
    if not offered or not (yes or _agreed()):
        return
    done = list(clean_up(desk, offered, None if large else CAP))
    if as_json:
        data({"removed": done, "removable": []})
    _tell(done, quietly=as_json)


def _tell(done: Sequence[Removed], *, quietly: bool) -> None:
    for one in done:
        if one.problem is not None:
            warn(f"kept {clean(one.path, 2000)}: {clean(one.problem, 2000)}")
        elif not quietly:
            saved = f"saved as {one.salvage}: fleet salvage show {one.salvage}" if one.salvage else "nothing to save"
            click.echo(f"removed {clean(one.path, 2000)}; {saved}")
    if any(one.problem is not None for one in done):
        raise click.exceptions.Exit(1)


def _offer(offered: Sequence[Removable]) -> None:
    if not offered:
        talk("every place is still needed")
        return
    rows = [
        (str(one.place.path), size(one.size), one.why, "unknown" if one.changed is None else str(one.changed))
        for one in offered
    ]
    table(("PLACE", "SIZE", "WHY", "NOT COMMITTED"), rows)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        talk("remove them with: fleet clean --places --yes")
        return False
    return click.confirm("Save what is not committed, and remove them?", err=True)


def _said(one: Removable) -> dict[str, object]:
    return {
        "path": str(one.place.path), "branch": one.place.branch, "task": one.task, "why": one.why, "size": one.size,
        "changed": one.changed, "ahead": one.ahead,
    }  # fmt: skip


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"

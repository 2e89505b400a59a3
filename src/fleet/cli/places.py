"""diff, salvage, and clean --places."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import BAD, GOOD, data, json_option, size, table, talk, warn
from fleet.core import BadConfig
from fleet.core.text import clean, sayable

if TYPE_CHECKING:
    from fleet.app.places import Compared, Removed, Standing
    from fleet.places.salvage import Content

LINES = {"+": GOOD, "-": BAD, "@": "cyan"}


@click.command()
@click.argument("name", metavar="BRANCH|TASK|ATTEMPT")
@click.option("--stat", is_flag=True, help="Only which files, and how much.")
@json_option
def diff(name: str, stat: bool, as_json: bool) -> None:
    """Show what an attempt's place has against what it began from: commits, what is not committed, new files."""
    from fleet.app.places import compare
    from fleet.cli.tasks import open_desk

    found = compare(open_desk(), Path.cwd(), name, stat=stat)
    if not found.there:
        warn(f"its place is gone, so this is what its branch has: {clean(found.place.branch or '', 200)}")
    for inside in found.difference.repositories:
        warn(f"{clean(inside, 2000)} is a repository of its own, and what it holds is not shown: see there")
    if as_json:
        data(_compared(found, stat=stat))
        return
    text = found.difference.text
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    for line in text.decode(errors="replace").splitlines():
        click.echo(click.style(_safe(line), fg=LINES.get(line[:1])))


def _compared(found: Compared, *, stat: bool) -> dict[str, object]:
    place, seen = found.place, found.difference
    return {
        "path": sayable(str(place.path)), "branch": place.branch, "base": place.base, "place_is_there": found.there,
        "files": [{"path": path, "added": added, "removed": removed} for path, added, removed in seen.files],
        "repositories": [sayable(path) for path in seen.repositories],
        "patch": None if stat else seen.text.decode(errors="replace"),
    }  # fmt: skip


def _safe(line: str) -> str:
    """A line of an agent's file, without what a terminal would obey."""
    return "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


@click.group()
def salvage() -> None:
    """What was saved of places that are gone (list, show, restore, drop).

    Each has a name; its task or its branch will do when only one is meant.

    Every file that was not committed and every commit that no branch leads to is kept in the project's own repository,
    under refs/fleet/salvage, until it is dropped.
    """


@salvage.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List what was saved in this repository; outside of one, in every repository that agents worked in."""
    from fleet.app.places import kept

    found = kept(Path.cwd())
    if as_json:
        data([{**asdict(one), "repository": sayable(str(top))} for top, one in found])
    elif not found:
        talk("nothing was saved here")
    else:
        rows = [
            (one.name, _clock(one.at), size(one.size), one.task or "-", one.branch or "-", str(top))
            for top, one in found
        ]
        several = len({top for top, _ in found}) > 1
        heads = ("NAME", "SAVED", "SIZE", "TASK", "BRANCH", "REPOSITORY")
        table(heads if several else heads[:-1], rows if several else [row[:-1] for row in rows])


@salvage.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what is in one: files, commits, sizes."""
    from fleet.app.places import show as look

    found = look(Path.cwd(), name)
    if as_json:
        data(_content(found))
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
    talk(f"  bring it back: fleet salvage restore {clean(found.kept.name)}")


@salvage.command()
@click.argument("name")
@click.option("--to", type=click.Path(path_type=Path), help="A new directory.  [default: PROJECT-NAME, beside PROJECT]")
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
        files, commits = _count(len(found.files), "file"), _count(len(found.commits), "commit")
        talk(f"{clean(found.kept.name)}: {files}, {commits}, {size(found.kept.size)}")
        if not sys.stdin.isatty():
            raise BadConfig("nobody can be asked here", hint=f"fleet salvage drop {clean(found.kept.name)} --yes")
        click.confirm("Let it go for good?", abort=True, err=True)
    kept = let_go(Path.cwd(), name)
    data({"name": kept.name, "commit": kept.commit}) if as_json else click.echo(f"Dropped {kept.name} ({kept.commit})")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _content(found: Content) -> dict[str, object]:
    return {
        "kept": found.kept, "files": [(sayable(path), count) for path, count in found.files],
        "gone": [sayable(path) for path in found.gone], "commits": found.commits,
    }  # fmt: skip


def clean_places(*, yes: bool, large: bool, as_json: bool) -> None:
    """Show every place, and remove those that nobody needs any more once a person agreed; each is saved first."""
    from fleet.app.places import clean_up, standing
    from fleet.cli.tasks import open_desk
    from fleet.places.salvage import CAP

    desk = open_desk()
    found = standing(desk, Path.cwd())
    offered, kept = [one for one in found if one.may_go], [one for one in found if not one.may_go]
    if as_json and not yes:
        data({"removed": [], "removable": [_said(one) for one in offered], "kept": [_said(one) for one in kept]})
        return
    if not as_json:
        _show(found)
    if not offered or not (yes or _agreed()):
        return
    done = list(clean_up(desk, offered, None if large else CAP))
    if as_json:
        data({"removed": done, "removable": [], "kept": [_said(one) for one in kept]})
    _tell(done, quietly=as_json)


def _tell(done: Sequence[Removed], *, quietly: bool) -> None:
    from fleet.cli.grid import folded, terminal_width

    for one in done:
        if one.problem is None and not quietly:
            saved = f"saved as {one.salvage}: fleet salvage show {one.salvage}" if one.salvage else "nothing to save"
            click.echo(folded(f"removed {clean(one.path, 2000)}; {saved}", terminal_width(), 4))
    say_kept({one.path: (one.problem, one.hint) for one in done if one.problem is not None})


def say_kept(problems: Mapping[str, tuple[str, str | None]]) -> None:
    """What could not be removed, why, and what to do; that is exit code 1."""
    for what, (problem, hint) in problems.items():
        warn(f"kept {clean(what, 2000)}: {clean(problem, 2000)}")
        if hint:
            talk(f"  next: {clean(hint, 2000)}")
    if problems:
        raise click.exceptions.Exit(1)


def _show(found: Sequence[Standing]) -> None:
    from fleet.cli.grid import terminal_width

    width = terminal_width()
    if found and width is not None:
        _draw(found, width)
    elif found:
        rows = [
            (str(one.place.path), size(one.size), _changed(one), "may go" if one.may_go else "stays", one.why)
            for one in found
        ]  # fmt: skip
        table(("PLACE", "SIZE", "NOT COMMITTED", "", "WHY"), rows)
    if not any(one.may_go for one in found):
        talk("every place is still needed")


def _draw(found: Sequence[Standing], width: int) -> None:
    """The same on a terminal: each by its name, with its path below."""
    from fleet.cli.grid import Column, draw

    columns: list[Column[Standing]] = [
        Column("PLACE", 0, lambda one: clean(one.place.path.name, 500), least=20),
        Column("SIZE", 2, lambda one: size(one.size)),
        Column("NOT COMMITTED", 1, _changed),
        Column("", 0, lambda one: "may go" if one.may_go else "stays"),
        Column("WHY", 0, lambda one: one.why, least=10),
    ]
    click.echo("\n".join(draw(found, columns, lambda one: str(one.place.path), width)))


def _changed(one: Standing) -> str:
    return "unknown" if one.changed is None else str(one.changed)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        talk("remove them with: fleet clean --places --yes")
        return False
    return click.confirm("Save what is not committed, and remove those that may go?", err=True)


def _said(one: Standing) -> dict[str, object]:
    return {
        "path": sayable(str(one.place.path)), "branch": one.place.branch, "task": one.task, "why": one.why,
        "size": one.size, "changed": one.changed, "ahead": one.ahead,
    }  # fmt: skip


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"

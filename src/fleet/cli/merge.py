"""merge: bring results onto their branch, and take the last landing back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import BAD, GOOD, data, json_option, talk
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.train import Report
    from fleet.landing.choose import PutAside

MAX_OUTPUT_LINES = 12
SHORT_COMMIT = 7  # characters


@click.command()
@click.argument("names", metavar="[TASK|BRANCH]...", nargs=-1)
@click.option("--batch", metavar="NAME", help="The results of agents that were begun together.")
@click.option(
    "--proven", is_flag=True, help="Every result of this repository that is verified or accepted by a person."
)
@click.option("--onto", metavar="BRANCH", help="Another branch than the one that the results are meant for.")
@click.option(
    "--strategy", type=click.Choice(["merge", "squash", "rebase"]), default="merge", show_default=True,
    help="How each result gets there: by a merge commit, as one commit, or commit by commit.",
)  # fmt: skip
@click.option("--anyway", metavar="REASON", help="Land what was refused, or onto a branch whose own check is red.")
@click.option("--dry-run", is_flag=True, help="Merge and check, and move nothing.")
@click.option("--undo", is_flag=True, help="Take the last landing on the branch back, while nothing stands on it.")
@json_option
def merge(
    names: tuple[str, ...], batch: str | None, proven: bool, onto: str | None, strategy: str, anyway: str | None,
    dry_run: bool, undo: bool, as_json: bool,
) -> int:  # fmt: skip
    """Bring results onto the branch that they are meant for, each checked on top of the others.

    Results are merged and checked outside your checkout, each on top of the ones before; the branch moves once, with
    the files of whoever has it checked out, or not at all. To name a result that nothing could check is to accept it.
    What does not merge, or breaks the branch, is put aside with its reason, and the rest is landed.
    """
    if onto is not None and not onto.strip():
        raise BadConfig("--onto wants the name of a branch")
    if undo:
        if names or batch or proven or anyway or dry_run:
            raise BadConfig("--undo takes no other argument than --onto")
        return _undo(onto, as_json=as_json)
    from fleet.app.merge import Request
    from fleet.app.merge import merge as land
    from fleet.app.train import Way
    from fleet.landing.chain import Strategy

    if anyway is not None and not anyway.strip():
        raise BadConfig("--anyway wants a reason")
    way = Way(Strategy(strategy), anyway or "", dry_run)
    reports = land(Path.cwd(), Request(names, batch, proven, onto, way), say=talk)
    if as_json:
        data([asdict(one) for one in reports])
    else:
        for one in reports:
            _print_report(one, dry_run=dry_run)
        if not reports:
            click.echo("nothing to land: no result here is proven and not landed yet (fleet tasks --all)")
    return 1 if any(one.aside or one.base_is_red or one.problem for one in reports) else 0


def _undo(onto: str | None, *, as_json: bool) -> int:
    from fleet.app.merge import undo

    last = undo(Path.cwd(), onto)
    if as_json:
        data(asdict(last))
        return 0
    names = ", ".join(one.task for one in last.results)
    click.echo(f"{last.branch} is at {last.old[:SHORT_COMMIT]} again, without {names}")
    click.echo(f"next: to land them once more: fleet merge {' '.join(one.task for one in last.results)}")
    return 0


def _print_report(report: Report, *, dry_run: bool) -> None:
    if report.problem:
        click.echo(click.style(f"nothing was landed on {report.branch}: {clean(report.problem, 2000)}", fg=BAD))
        if report.hint:
            click.echo(f"  next: {clean(report.hint, 1000)}")
    if report.base_is_red:
        click.echo(
            click.style(f"{report.branch} is red without any of them: {clean(report.base_is_red, 2000)}", fg=BAD)
        )
        click.echo("  next: mend it, or land all the same: --anyway REASON")
    if report.landed:
        names = ", ".join(one.task for one in report.landed)
        verb = "would land" if dry_run else "landed"
        new = "the new branch " if report.is_new else ""
        span = f"{report.old[:SHORT_COMMIT]}..{report.new[:SHORT_COMMIT]}"
        click.echo(
            click.style(f"{verb} {names} on {new}{report.branch} ({span}), {_checks(report.checks_run)}", fg=GOOD)
        )
    if report.already:
        where = f"the branch that {report.branch} would begin at has" if report.is_new else f"on {report.branch}"
        click.echo(f"{where} already: {', '.join(report.already)}")
    for one in report.aside:
        _print_aside(one)
    if report.landed and not dry_run:
        click.echo("next: git log --graph --oneline; take it back: fleet merge --undo")


def _checks(count: int) -> str:
    return "no check had to be run again" if not count else f"{count} check{'' if count == 1 else 's'} run"


def _print_aside(one: PutAside) -> None:
    click.echo(click.style(f"{one.task} is not landed: {clean(one.reason, 2000)}", fg=BAD))
    for line in one.output.splitlines()[-MAX_OUTPUT_LINES:]:
        click.echo(f"    {clean(line, 500)}")
    if one.hint:
        click.echo(f"  next: {clean(one.hint, 500)}")

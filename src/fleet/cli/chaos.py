"""chaos: a real supervisor under agents that misbehave and under kills, and a scorecard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.show import data, json_option, table, talk
from fleet.core import FleetError
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.chaos.judge import Recovery, Scorecard
    from fleet.chaos.script import Behaviour, Script

MOST_SEED = 10**6
HEADS = ["Behaviour", "Cases", "Detected", "Missed", "False kills", "Lost", "Unfinished", "Orphans", "Doubled"]


def _behaviours(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> list[Behaviour]:
    from fleet.chaos.script import Behaviour
    from fleet.core.text import nearest

    try:
        return [Behaviour(name) for name in names]
    except ValueError:
        known = [one.value for one in Behaviour]
        wrong = next(name for name in names if name not in known)
        there = f"there are {', '.join(known)}"
        raise click.BadParameter(f"there is no behaviour {wrong!r}{nearest(wrong, known)}; {there}") from None


class Minutes(click.FloatRange):
    """A number of minutes; not-a-number is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        minutes = float(super().convert(value, param, ctx))
        return minutes if minutes == minutes else self.fail(f"{value!r} is not a number of minutes", param, ctx)


@click.command()
@click.option("--seed", type=click.IntRange(0), help="Play the script of this seed.  [default: a new one]")
@click.option("--minutes", type=Minutes(0.05, 600), default=2.0, show_default=True, help="How long it may take.")
@click.option("--tasks", type=click.IntRange(1, 10_000), help="How many tasks.  [default: 20 a minute]")
@click.option(
    "--only", metavar="BEHAVIOUR", multiple=True, callback=_behaviours, help="Only such agents. May be given again."
)
@click.option("--script", "--dry-run", "dry_run", is_flag=True, help="Print the script of the seed, and do nothing.")
@click.option("--keep", is_flag=True, help="Leave the scratch home and the repositories there to be looked at.")
@json_option
def chaos(
    seed: int | None, minutes: float, tasks: int | None, only: list[Behaviour], dry_run: bool, keep: bool, as_json: bool
) -> None:
    """Drive a real supervisor with agents that misbehave, kill it now and then, and print a scorecard.

    Everything happens in a scratch home and scratch repositories; nothing is kept, nothing leaves this machine and no
    model is asked. The agents are scripted. The same seed gives the same script. Exit 0 when nothing was missed, lost
    or left behind and nobody honest was ended; else 1.
    """
    from random import SystemRandom

    from fleet.chaos.script import write

    script = write(SystemRandom().randrange(MOST_SEED) if seed is None else seed, minutes, tasks, only)
    if dry_run:
        data(script) if as_json else _print_script(script)
        return
    from fleet.app.chaos import chaos as play

    talk(f"seed {script.seed}: {len(script.cases)} tasks, {len(script.kills)} kills, {minutes:g} minutes at the most …")
    card, kept = play(script, talk, keep=keep)
    if as_json:
        data(_as_data(card))
    else:
        _print(card)
    if kept is not None:
        talk(f"everything is in {kept}")
    if not card.passed:
        again = "".join(f" --only {one}" for one in only) + (f" --tasks {tasks}" if tasks else "")
        raise FleetError(_verdict(card), hint=f"fleet chaos --seed {script.seed} --minutes {minutes:g}{again} --keep")


def _as_data(card: Scorecard) -> dict[str, object]:
    return {
        "seed": card.seed,
        "seconds": card.seconds,
        "passed": card.passed,
        "total": card.total,
        "behaviours": card.lines,
        "kills": card.kills,
        "findings": card.findings,
    }


def _print_script(script: Script) -> None:
    from fleet.chaos.script import TRAITS

    rows = [
        [str(case.number), str(case.priority), case.behaviour, TRAITS[case.behaviour].does] for case in script.cases
    ]
    table(["Case", "Priority", "Behaviour", "The agent"], rows)
    click.echo()
    table(["Second", "What"], [[f"{kill.at:.2f}", kill.victim] for kill in script.kills])
    talk(f"\nTo play it:  fleet chaos --seed {script.seed} --minutes {script.seconds / 60:g}")


def _print(card: Scorecard) -> None:
    rows = [
        [
            line.behaviour, str(line.cases), "-" if line.detected is None else str(line.detected), str(line.missed),
            str(line.false_kills), str(line.lost), str(line.unfinished), str(line.orphans), str(line.doubled),
        ]
        for line in card.lines
    ]  # fmt: skip
    table(HEADS, [*rows, ["together", *(str(number) for number in card.total.values())]])
    for found in card.findings:
        if found.outcome != "right" or found.orphans or found.doubled:
            also = [f"{found.orphans} processes left"] if found.orphans else []
            said = "; ".join([found.why, *also, *(["doubled"] if found.doubled else [])])
            click.echo(f"  {found.task} {found.case.behaviour}: {found.outcome}: {clean(said, 500)}")
    for kill in card.kills:
        click.echo(_recovered(kill))
    click.echo(f"seed {card.seed}, {card.seconds:.0f} s: {_verdict(card)}")


def _recovered(kill: Recovery) -> str:
    after = (
        "no attempt was taken over or claimed"
        if kill.recovered is None
        else f"at work again after {kill.recovered:.1f} s"
    )
    return f"  {kill.at:.1f} s: {kill.victim} ({clean(kill.whom)}): {after}"


def _verdict(card: Scorecard) -> str:
    if card.passed:
        return "nothing missed, nobody honest ended, nothing lost"
    words = ("missed", "false_kills", "lost", "unfinished", "orphans", "doubled")
    return ", ".join(f"{card.total[name]} {name.replace('_', ' ')}" for name in words if card.total[name])

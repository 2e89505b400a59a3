"""init, demo, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.models import timeout_option
from fleet.cli.show import BAD, GOOD, MEH, config_option, data, json_option, out_option, paint, talk
from fleet.core import FleetError
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.doctor import Check

HEALTH = {"ok": GOOD, "note": MEH, "wrong": BAD, "unknown": MEH}


@click.command()
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("fleet.yaml"),
    show_default=True,
    help="Where to write it.",
)
@json_option
def init(force: bool, output: Path, as_json: bool) -> None:
    """Write a fleet.yaml that fits this machine.

    Looks for Ollama, LM Studio, llama.cpp and vLLM on their usual ports, gives the smallest model to the planner and
    the summarizer and the biggest to the implementer and the reviewer.
    """
    from fleet.app.start import init as write

    made = write(output, force=force)
    if as_json:
        found = {place.node.name: [model.name for model in place.models] for place in made.found}
        data({"created": str(made.path), "found": found, "placeholder": made.placeholder})
        return
    click.echo(f"Created {made.path}")
    for place in made.found:
        names = ", ".join(model.name for model in place.models) or "no model yet"
        talk(f"  found {place.node.kind} on {place.node.endpoint}: {names}")
    if made.placeholder:
        talk("  no model was found on this machine, so the file holds placeholders")
    talk("\nEdit it with your node addresses, then run:\n  fleet discover\n  fleet generate")


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Show the whole thing on two demonstration nodes in a scratch directory; nothing is kept.

    The nodes are real servers on loopback that speak Ollama's API; what they answer is scripted.
    """
    from fleet.app.demo import demo as run
    from fleet.cli.demonstration import tell

    shown = run((lambda step, value: None) if as_json else tell)
    if as_json:
        answers = [{"agent": a.agent, "node": a.node, "text": a.text} for a in shown.answers]
        data(
            {"nodes": shown.nodes, "files": [s.path for s in shown.files], "answers": answers, "crossed": shown.crossed}
        )
    if shown.crossed:
        raise FleetError(f"{shown.crossed} requests went to the wrong node")
    if not as_json:
        click.echo("\nEvery request reached the node of its own agent, and nothing left this machine.")
        talk("Your own fleet:  fleet init")


@click.command()
@config_option
@out_option
@timeout_option
@json_option
def doctor(config: Path, out: Path | None, timeout: float, as_json: bool) -> None:
    """Check everything, and say how to mend what is wrong. Exit 1 when something is."""
    from fleet.app.doctor import doctor as examine

    found = examine(config, out or config.parent, timeout)
    if as_json:
        data(found)
    else:
        _show(found)
    if any(check.health == "wrong" for check in found):
        raise click.exceptions.Exit(1)


def _show(found: list[Check]) -> None:
    for check in found:
        click.echo(f"{paint(f'{check.health:8}', HEALTH)}{check.name:10} {clean(check.finding, 2000)}")
        if check.remedy:
            click.echo(f"{'':18} mend: {clean(check.remedy, 2000)}")
    wrong = sum(check.health == "wrong" for check in found)
    click.echo(f"\n{wrong} wrong, {len(found)} checks" if wrong else f"\nall well ({len(found)} checks)")

"""init, doctor."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.forerunners import warn_of_unread
from fleet.cli.models import paid_option, timeout_option
from fleet.cli.show import BAD, GOOD, MEH, config_option, data, json_option, out_option, paint, talk, warn
from fleet.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.app.doctor import Check
    from fleet.app.start import Begun, Starter

HEALTH = {"ok": GOOD, "note": MEH, "wrong": BAD, "unknown": MEH}


@click.command()
@click.option("--force", is_flag=True, help="Replace a fleet.yaml that is there. The settings are never replaced.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    show_default="fleet.yaml, at the top of the repository",
    help="Where to write it.",
)
@click.option("--home-only", is_flag=True, help="Make the home and no fleet.yaml.")
@click.option(
    "--tracker",
    type=click.Choice(["local", "beads"]),
    help="Where tasks are written down. Changes the settings; tasks of the other tracker stay there.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["rails", "node", "python", "go", "rust"]),
    help="What kind of project it is, for the workspace.  [default: as its files say]",
)
@click.option(
    "--migrate-legacy", "migrate", is_flag=True, help="Take over the settings of ai-fleet; they stay as they are."
)
@click.option("--models", is_flag=True, help="Write models into fleet.yaml, also where no model server answers.")
@json_option
def init(
    force: bool,
    output: Path | None,
    home_only: bool,
    tracker: str | None,
    kind: str | None,
    migrate: bool,
    models: bool,
    as_json: bool,
) -> None:
    """Make the home, and a fleet.yaml that fits this machine. What exists is kept.

    The home is $FLEET_HOME, ~/.fleet by default: this machine's settings, its tasks and its logs.

    Into the workspace of fleet.yaml it writes which files a new place needs, and the commands that set one up, from
    what the project shows. It looks for Ollama, LM Studio, llama.cpp and vLLM on their usual ports: where one has
    models, the smallest goes to the planner and the summarizer and the biggest to the implementer and the reviewer.
    Where none answers, agents think with the models of their own CLIs, and fleet.yaml names none.
    """
    from fleet.app.start import init as begin

    begun = begin(output, force=force, home_only=home_only, tracker=tracker, kind=kind, migrate=migrate, models=models)
    if not migrate:
        warn_of_unread(project=not home_only, home=begun.home)
    if as_json:
        data(_begun(begun))
    else:
        _show_begun(begun, tracker)
    if begun.starter and begun.starter.missing:
        raise click.exceptions.Exit(1)


def _show_begun(begun: Begun, tracker: str | None) -> None:
    click.echo(
        f"{'Created' if begun.home_is_new else 'Kept'} {begun.home}{'' if begun.home_is_new else ' (as it was)'}"
    )
    if tracker:
        talk(f"  tasks are kept by the tracker {tracker}")
    if begun.starter:
        _show_starter(begun.starter)


def _begun(begun: Begun) -> dict[str, object]:
    starter = begun.starter
    made = {
        "home": begun.home,
        "home_is_new": begun.home_is_new,
        "tracker": begun.tracker,
        "created": starter.path if starter and starter.is_new else None,
        "kept": starter.path if starter and not starter.is_new else None,
    }
    if starter and starter.migrated:
        made |= {"read": starter.migrated.files, "left_out": starter.migrated.left, "to_add": starter.missing or None}
    if starter is None or not starter.is_new:
        return made
    made |= {"type": starter.kind, "workspace": starter.workspace}
    found = {place.node.name: [model.name for model in place.models] for place in starter.found}
    return made | {"found": found, "agents": starter.agents, "placeholder": starter.placeholder}


def _show_starter(starter: Starter) -> None:
    if not starter.is_new:
        click.echo(f"Kept {starter.path} (as it was)")
        _show_migrated(starter)
        return
    click.echo(f"Created {starter.path}")
    _show_migrated(starter)
    if starter.workspace:
        kind = starter.kind or "as before"
        talk(f"  its workspace says how a new place is set up ({kind}): look at the commands before you use it")
    for place in starter.found:
        names = ", ".join(model.name for model in place.models) or "no model yet"
        talk(f"  found {place.node.kind} on {place.node.endpoint}: {names}")
    if starter.placeholder:
        talk("  no model was found on this machine, so the file holds placeholders")
    if starter.agents:
        talk(f"  agents on this machine: {', '.join(starter.agents)}")
    if starter.has_models:
        talk("\nEdit it with your node addresses, then run:\n  fleet discover\n  fleet generate")
    else:
        _show_first_task(starter.agents)


def _show_first_task(agents: Sequence[str]) -> None:
    """What somebody runs first who has agent CLIs, and no models of their own."""
    from fleet.app.doctor import PROGRAMS

    steps = [] if agents else [f"{PROGRAMS['claude'][1]}    # or another agent CLI: fleet coders list"]
    steps += [] if "claude" in agents or not agents else [f"fleet config set coder={agents[0]}"]
    steps += ['fleet add "what is to be done" --check "a command that shows it"', "fleet run"]
    steps += ['fleet create my-branch -p "what to do"    # or: an agent in a terminal of its own']
    talk("\nLook through it, then run:" + "".join(f"\n  {step}" for step in steps))


def _show_migrated(starter: Starter) -> None:
    if starter.migrated is None:
        return
    for path in starter.migrated.files:
        talk(f"  read {path}, which stays as it is")
    for why in starter.migrated.left:
        warn(f"not taken over: {clean(why, 2000)}")
    if starter.missing:
        talk(f"\n{starter.path} does not say all of it. Add this to its workspace, or start anew with --force:\n")
        click.echo(starter.missing, nl=False)


@click.command()
@config_option
@out_option
@timeout_option
@json_option
@click.option("--deep", is_flag=True, help="Ask every model through the gateway as an agent asks. Loads models.")
@paid_option
def doctor(config: Path, out: Path | None, timeout: float, as_json: bool, deep: bool, paid: bool) -> None:
    """Check everything, and say how to mend what is wrong. Exit 1 when something is.

    The work plane is always checked: the installation, the home, the database, the supervisor, git, the agent CLIs.
    The models plane is checked where fleet.yaml names models.
    """
    from fleet.app.doctor import Deep, examine

    if paid and not deep:
        raise click.UsageError("--paid goes with --deep")
    found = examine(config, out or config.parent, timeout, Deep(paid, talk) if deep else None)
    if as_json:
        data(found)
    else:
        _show(found)
    if any(check.health == "wrong" for check in found):
        raise click.exceptions.Exit(1)


def _show(found: list[Check]) -> None:
    for plane, checks in groupby(found, lambda check: check.plane):
        several = list(checks)
        if len(several) == 1 and several[0].health == "note":
            click.echo(f"{plane}: {clean(several[0].finding, 2000)}")
            continue
        click.echo(f"{plane}:")
        for check in several:
            click.echo(f"  {paint(f'{check.health:8}', HEALTH)}{check.name:13}{clean(check.finding, 2000)}")
            if check.remedy:
                click.echo(f"{'':23}mend: {clean(check.remedy, 2000)}")
    wrong = [check for check in found if check.health == "wrong"]
    if not wrong:
        click.echo(f"\n{_nothing_wrong(found)}")
        return
    click.echo(f"\n{len(wrong)} {'fault' if len(wrong) == 1 else 'faults'} in {len(found)} checks")
    click.echo(f"  now: {clean(wrong[0].remedy or wrong[0].finding, 2000)}\n  then: fleet doctor")


def _nothing_wrong(found: list[Check]) -> str:
    """All is well only once every agent of fleet.yaml is known to be answered."""
    unproven = [check for check in found if check.name == "agent" and check.health != "ok"]
    if not unproven:
        return f"all well ({len(found)} checks)"
    agents = ", ".join(clean(check.finding.partition(":")[0]) for check in unproven)
    following = unproven[0].remedy or "fleet gateway up"
    return f"nothing is wrong ({len(found)} checks), but no answer is known of: {agents}\n  next: {following}"

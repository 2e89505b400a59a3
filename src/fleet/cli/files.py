"""generate, clean."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.models import open_fleet
from fleet.cli.show import BAD, GOOD, MEH, config_option, data, json_option, out_option, paint, talk
from fleet.cli.where import Where
from fleet.core import BadConfig
from fleet.core.fleet import Fleet
from fleet.core.text import clean as clean_text
from fleet.core.text import nearest

if TYPE_CHECKING:
    from fleet.app.files import Generation

# Codex takes no provider from a project, only from a profile in its home.
START = {
    "claude": "claude",
    "codex": 'CODEX_HOME="$PWD/.codex" codex --profile fleet',
    "opencode": "opencode",
    "aider": "aider",
}
ENV_FILE = ".env.subagent-fleet"
COLOURS = {"new": GOOD, "changed": MEH, "edited": BAD, "foreign": BAD, "obsolete": MEH, "replaced": BAD, "removed": MEH}


def _targets(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[str]:
    known = ["claude", "codex", "opencode", "aider"]
    names = [name.strip() for words in given for name in words.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise click.BadParameter(f"there is no target {name!r}{near}; the targets are {', '.join(known)}")
    return names


@click.command()
@config_option
@out_option
@click.option("--target", "targets", multiple=True, callback=_targets, help="claude, codex, opencode, aider; commas.")
@click.option("--litellm-only", is_flag=True, help="Only litellm_config.yaml.")
@click.option("--claude-only", is_flag=True, help="Only .claude/agents.")
@click.option("--force", is_flag=True, help="Replace files that were edited or are not ours.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when files on disk are stale.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; show what would change.")
@json_option
def generate(
    config: Path,
    out: Path | None,
    targets: list[str],
    litellm_only: bool,
    claude_only: bool,
    force: bool,
    check: bool,
    show_diff: bool,
    as_json: bool,
) -> None:
    """Write the files that LiteLLM and the agent CLIs read.

    A target that was generated once is renewed every time; --target adds one. Files that you edited, or that were
    there before, are never replaced without --force. The nodes are asked what their models can do; one that is silent
    for a second is taken as it was.
    """
    from fleet.app import capabilities
    from fleet.app import files as app

    if litellm_only and claude_only:
        raise click.UsageError("give --litellm-only or --claude-only, not both")
    only = app.Only.LITELLM if litellm_only else app.Only.CLAUDE if claude_only else None
    if only and targets:
        raise click.UsageError(f"--{only}-only writes one thing; leave --target out")
    fleet = open_fleet(config)
    if only is app.Only.LITELLM and fleet.is_direct:
        raise BadConfig("gateway.provider is direct, so there is no LiteLLM file", hint="fleet generate")
    where = Where(config, out or config.parent)
    known = capabilities.recall(fleet, where.out) if check or show_diff else capabilities.ask_shortly(fleet, where.out)
    capabilities.refuse_toolless(fleet, config, where.out, known, targets)
    if check or show_diff:
        plan = app.plan(fleet, where.out, targets, only)
        _show_plan(where, plan, show_diff, as_json)
        if check and plan.stale_for_all:
            talk(where.command("stale: run fleet generate"))
            raise click.exceptions.Exit(1)
        return
    with where.hints():
        done = app.generate(fleet, where.out, targets, only, force=force)
    capabilities.keep(fleet, where.out, known)
    _show_written(where, fleet, done, as_json)


def _show_written(where: Where, fleet: Fleet, done: Generation, as_json: bool) -> None:
    if as_json:
        data({"written": True, **_as_data(done)})
        return
    click.echo("Generated:")
    for step in done.steps:
        click.echo(f"  {paint(f'{step.change.done:9}', COLOURS)}{where.path(step.path)}")
    if done.key_note:
        talk(f"\n{where.command(done.key_note)}")
    _next_steps(where, fleet, done.targets)


def _as_data(found: Generation) -> dict[str, object]:
    files = [{"path": step.path, "change": step.change} for step in found.steps]
    return {"directory": found.out.resolve(), "files": files}


def _show_plan(where: Where, plan: Generation, show_diff: bool, as_json: bool) -> None:
    from fleet.app.files import difference

    if as_json:
        data({"written": False, "stale": bool(plan.stale_for_all), **_as_data(plan)})
    elif show_diff:
        for step in plan.stale:
            click.echo(difference(step), nl=False)
    else:
        for step in plan.steps:
            click.echo(f"{paint(f'{step.change:9}', COLOURS)}{where.path(step.path)}")


def _next_steps(where: Where, fleet: Fleet, targets: tuple[str, ...]) -> None:
    """The commands that are next, in the project's directory, and none that needs a file that is not there."""
    has_gateway = fleet.is_direct or (where.out / "litellm_config.yaml").exists()
    has_env = (where.out / ENV_FILE).exists()
    if has_gateway and has_env:
        talk("\nYour fleet is ready:")
        for route in fleet.routes():
            talk(f"  {route.agent} thinks with {clean_text(route.served)} on {clean_text(route.node)}")
    lines = [] if where.is_here else [f"cd {shlex.quote(where.path())}"]
    lines += ["fleet generate"] if not has_gateway else [] if fleet.is_direct else ["fleet gateway up"]
    lines += [f"source {ENV_FILE}", *(START[target] for target in targets or ("claude",))] if has_env else []
    talk("\nNext:")
    for line in lines:
        talk(f"  {where.command(line, where.out)}")
    if has_gateway and not has_env:
        talk(where.command(f"there is no {where.path(ENV_FILE)} for the shell of an agent yet: fleet generate"))


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="The project directory.",
)
@click.option("--places", is_flag=True, help="The places of merged branches and of attempts that ended long ago.")
@click.option("--refs", is_flag=True, help="What git keeps of attempts that ended long ago, under refs/fleet.")
@click.option("--days", type=click.IntRange(min=0), default=30, show_default=True, help="With --refs: how long ago.")
@click.option("--large", is_flag=True, help="Save even what is over the size limit of a place.")
@click.option("--yes", "-y", is_flag=True, help="Remove them.")
@json_option
def clean(out: Path, places: bool, refs: bool, days: int, large: bool, yes: bool, as_json: bool) -> None:
    """List, or with --yes remove, the files that generate wrote and nobody edited.

    With --places it is the places of attempts that nobody needs any more; what is not committed there is saved first.
    With --refs it is the commits of attempts whose task is closed; one that a task was done by stays until a branch
    has it.
    """
    if places and refs:
        raise BadConfig("--places and --refs are two things", hint="fleet clean --places")
    if refs:
        from fleet.cli.refs import clean_refs

        clean_refs(days=days, yes=yes, as_json=as_json)
        return
    if places:
        from fleet.cli.places import clean_places

        clean_places(yes=yes, large=large, as_json=as_json)
        return
    _clean_generated(out, yes=yes, as_json=as_json)


def _clean_generated(out: Path, *, yes: bool, as_json: bool) -> None:
    from fleet.app import files as app

    found = app.clean(out) if yes else app.cleaning(out)
    if as_json:
        data({"removed": yes, "removable": found.removable, "edited": found.edited})
        return
    for path in found.removable:
        click.echo(f"{'removed' if yes else 'would remove'} {path}")
    for path in found.edited:
        click.echo(f"kept {path}: edited since fleet wrote it")
    if not found.removable:
        talk("nothing of ours to remove")
    elif not yes:
        talk("remove them with: fleet clean --yes")

"""skills and plugins: what teaches an assistant to use fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from fleet import assist
from fleet.cli import show

out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("."),
    show_default=True,
    help="The directory to work in.",
)
force_option = click.option("--force", is_flag=True, help="Replace files that differ.")
COLOURS = {"same": show.GOOD, "written": show.GOOD, "replaced": show.MEH, "differs": show.MEH, "blocked": show.BAD}


@click.group()
def skills() -> None:
    """Teach your assistant to set up and run a fleet."""


@skills.command("list")
@out_option
@show.json_option
def list_skills(out: Path, as_json: bool) -> None:
    """Show the skills, where each assistant looks for them, and what is there now."""
    places = assist.places(out)
    if as_json:
        show.data({"out": out, "skills": [_about(skill) for skill in assist.bundled()], "places": places})
    else:
        rows = [(place.skill, place.target, place.state, str(out / place.path)) for place in places]
        show.table(("SKILL", "TARGET", "STATE", "PATH"), rows, COLOURS)


@skills.command("install")
@click.option("--target", "targets", multiple=True, help="claude-code, codex or opencode; all when none is named.")
@click.option("--skill", "names", multiple=True, help="A skill; setup and operations when none is named.")
@out_option
@force_option
@show.json_option
def install_skills(targets: tuple[str, ...], names: tuple[str, ...], out: Path, force: bool, as_json: bool) -> None:
    """Write skills where Claude Code, Codex and OpenCode find them.

    --target and --skill may be repeated, or hold several names with commas between.
    """
    _report(out, assist.install_skills(out, targets, names, force=force), as_json=as_json)


@click.group()
def plugins() -> None:
    """Write plugin marketplaces for Claude Code and Codex."""


@plugins.command("install")
@click.option("--target", "targets", multiple=True, help="claude-code or codex; both when none is named.")
@out_option
@force_option
@show.json_option
def install_plugins(targets: tuple[str, ...], out: Path, force: bool, as_json: bool) -> None:
    """Write a marketplace that Claude Code and Codex can add.

    --target may be repeated, or hold both names with a comma between.
    """
    _report(out, assist.install_plugins(out, targets, force=force), as_json=as_json)
    for add, install in assist.next_commands(out.resolve(), targets):
        show.talk(f"next: {add} && {install}")


def _about(skill: assist.Skill) -> dict[str, object]:
    return {"name": skill.name, "description": skill.description, "usual": skill.name in assist.USUAL}


def _report(out: Path, installed: Sequence[assist.Installed], *, as_json: bool) -> None:
    if as_json:
        show.data({"out": out, "files": installed})
    else:
        show.table(("RESULT", "PATH"), [(done.result, str(out / done.path)) for done in installed], COLOURS)
    counts = Counter(done.result.value for done in installed)
    show.talk(", ".join(f"{count} {result}" for result, count in counts.items()))

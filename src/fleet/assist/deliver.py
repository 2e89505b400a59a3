"""The three things this room does for whoever asks: list skills, install skills, install the plugin bundle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleet import __version__
from fleet.assist.base import File, Skill, Target
from fleet.assist.bundle import bundled
from fleet.assist.install import Installed, State, install, look
from fleet.assist.marketplace import TARGETS, commands, plugin_files
from fleet.assist.plan import chosen_skills, chosen_targets, skill_files


@dataclass(frozen=True, slots=True)
class Place:
    """Where one skill goes for one target, and what is there now."""

    skill: str
    target: Target
    path: str
    state: State


def places(root: Path) -> tuple[Place, ...]:
    return tuple(place for target in Target for skill in bundled() for place in _places(root, target, skill))


def install_skills(
    root: Path, targets: Iterable[str], names: Iterable[str], *, force: bool = False
) -> tuple[Installed, ...]:
    known = chosen_targets(targets, tuple(Target))
    wanted = chosen_skills(names)
    skills = [skill for skill in bundled() if skill.name in wanted]
    return install(root, skill_files(known, skills), force=force)


def install_plugins(root: Path, targets: Iterable[str], *, force: bool = False) -> tuple[Installed, ...]:
    return install(root, plugin_bundle(targets), force=force)


def plugin_bundle(targets: Iterable[str] = ()) -> tuple[File, ...]:
    """The files of the marketplace."""
    return plugin_files(chosen_targets(targets, TARGETS), bundled(), __version__)


def next_commands(root: Path, targets: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """What the user types next, for each target whose bundle was installed."""
    return tuple(commands(target, root) for target in chosen_targets(targets, TARGETS))


def _places(root: Path, target: Target, skill: Skill) -> list[Place]:
    found = look(root, skill_files([target], [skill]))
    return [Place(skill.name, target, seen.path, seen.state) for seen in found]

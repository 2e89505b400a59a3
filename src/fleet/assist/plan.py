"""What is to be written where: decided from names alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from fleet.assist.base import File, Skill, Target
from fleet.assist.bundle import SKILLS, USUAL
from fleet.core import BadConfig


def skill_path(target: Target, name: str) -> str:
    return f"{target.home}/skills/{name}/SKILL.md"


def skill_files(targets: Iterable[Target], skills: Sequence[Skill]) -> tuple[File, ...]:
    return tuple(File(skill_path(target, skill.name), skill.content) for target in targets for skill in skills)


def chosen_targets(wanted: Iterable[str], known: Sequence[Target]) -> tuple[Target, ...]:
    """The named targets in our order, each once; all of them when none is named."""
    names = _checked("target", _split(wanted), known)
    return tuple(target for target in known if target in names) if names else tuple(known)


def chosen_skills(wanted: Iterable[str]) -> tuple[str, ...]:
    """The named skills in our order, each once; the usual ones when none is named."""
    names = _checked("skill", _split(wanted), SKILLS)
    return tuple(name for name in SKILLS if name in names) if names else USUAL


def _split(wanted: Iterable[str]) -> list[str]:
    return [name.strip() for text in wanted for name in text.split(",")]


def _checked(kind: str, names: list[str], known: Sequence[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise BadConfig(f"there is no {kind} {name!r}", _hint(kind, name, known))
    return names


def _hint(kind: str, name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5) or [part for part in known if name and name in part][:1]
    return f"did you mean {near[0]}?" if near else f"the {kind}s are {', '.join(known)}"

"""What is asked of a task's result: by the task, by its project, by this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fleet.config.limits import FLEET_YAML, candidates, project_file
from fleet.core.frozen import dataclass
from fleet.core.proof import CheckSpec, Demands, ProjectDemands, TaskKind, Unverified
from fleet.core.scope import combine
from fleet.core.task import Spec
from fleet.core.work import ProjectLimits
from fleet.host import git

LARGEST = 4 * 1024 * 1024
TASK = "task"
SHOWN = 7  # signs of a commit


def resolve(spec: Spec, project: ProjectDemands, unverified: Unverified) -> Demands:
    """A project's checks and what it denies stay, whatever a task says: a task adds to them. Of everything else the
    task's own word goes first. The project's checks are run first, and each is lent what the task needs, too.
    """
    own = () if spec.check is None else (CheckSpec(spec.check, source=TASK),)
    asked = (*project.checks, *own)
    checks = (replace(one, needs=tuple(dict.fromkeys((*one.needs, *(spec.needs or ()))))) for one in asked)
    return Demands(
        kind=spec.kind or TaskKind.WORK,
        checks=tuple(checks),
        scope=combine(project.scope, spec.scope),
        unverified=project.unverified or unverified,
    )


@dataclass(frozen=True, slots=True)
class Trusted:
    """A fleet.yaml that no agent of the task has written."""

    text: str
    path: Path
    source: str


def trusted_yaml(cwd: Path, base: str | None) -> Trusted | None:
    """The fleet.yaml of a directory as it stands in a commit; where none is tracked there, or without a commit, as it
    stands outside every agent's place.
    """
    tracked = None if base is None else _tracked(cwd, base)
    if tracked is not None and base is not None:
        source = f"{FLEET_YAML} at {base[:SHOWN]}"
        return Trusted(tracked, Path(source), source)
    found = project_file(cwd)
    if found is None:
        return None
    from fleet.config.fleet_yaml import text_of  # what nobody pays for who has none

    return Trusted(text_of(found), found, FLEET_YAML)


Find = Callable[[Path, str | None], Trusted | None]


def project_demands(cwd: Path, base: str | None, find: Find = trusted_yaml) -> ProjectDemands:
    """What the fleet.yaml of a directory asks, by the one that is trusted."""
    found = find(cwd, base)
    if found is None:
        return ProjectDemands()
    from fleet.config.fleet_yaml import read_demands

    return read_demands(found.text, found.path, found.source)


def trusted_limits(cwd: Path, base: str | None, find: Find = trusted_yaml) -> ProjectLimits | None:
    """What the fleet.yaml of a directory says about limits, by the one that is trusted."""
    found = find(cwd, base)
    if found is None:
        return None
    from fleet.config.fleet_yaml import read_limits

    return read_limits(found.text, found.path)


def _tracked(cwd: Path, commit: str) -> str | None:
    """The nearest fleet.yaml of a commit, from a directory upwards."""
    here = cwd.resolve()
    repository = git.find(here)
    if repository is None:
        return None
    top = repository.top.resolve()
    with git.mirror(repository) as ours:
        for path in candidates(here):
            found = ours.blob(commit, str(path.relative_to(top)), LARGEST) if path.is_relative_to(top) else None
            if found is not None:
                return found.decode(errors="replace")
    return None

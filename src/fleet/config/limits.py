"""Which limits a task has, and who set them: the task, its project, this machine, or nobody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from fleet.config.runtime import Runtime
from fleet.core.frozen import dataclass
from fleet.core.task import Spec
from fleet.core.work import Limits, ProjectLimits
from fleet.host import git

FLEET_YAML = "fleet.yaml"
LIMITS = tuple(field.name for field in fields(Limits))
Number = TypeVar("Number", int, float)


class Origin(StrEnum):
    """Who set a limit; the first of these who did."""

    TASK = "task"
    PROJECT = "project"
    MACHINE = "machine"
    DEFAULT = "default"

    @property
    def words(self) -> str:
        """Who it was, for people: where they find it."""
        return {"task": "set by the task", "project": "set by fleet.yaml", "machine": "set by runtime.toml"}.get(
            self.value, "the default"
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """The limits of one task, and for each of them who set it."""

    limits: Limits
    origins: Mapping[str, Origin]


def resolve_limits(spec: Spec, project: ProjectLimits | None, runtime: Runtime) -> Resolved:
    """A task's own limits, then its project's, then this machine's."""
    project = project or ProjectLimits()
    machine = runtime.limits
    origins = {name: _origin(getattr(spec, name), getattr(project, name), name in runtime.given) for name in LIMITS}
    limits = Limits(
        timeout=_first(spec.timeout, project.timeout, machine.timeout),
        attempts=_first(spec.attempts, project.attempts, machine.attempts),
        output=_first(spec.output, project.output, machine.output),
        silence=_first(spec.silence, project.silence, machine.silence or 0.0) or None,
        tokens=_first(spec.tokens, project.tokens, machine.tokens or 0) or None,
        cost=_first(spec.cost, project.cost, machine.cost or 0.0) or None,
    )
    return Resolved(limits, origins)


def _origin(of_task: object, of_project: object, is_given: bool) -> Origin:
    if of_task is not None:
        return Origin.TASK
    if of_project is not None:
        return Origin.PROJECT
    return Origin.MACHINE if is_given else Origin.DEFAULT


def _first(task: Number | None, project: Number | None, machine: Number) -> Number:
    if task is not None:
        return task
    return machine if project is None else project


def project_limits(cwd: Path) -> ProjectLimits | None:
    """What the fleet.yaml of a directory says about limits; None without one, or when it says nothing."""
    found = project_file(cwd)
    if found is None:
        return None
    from fleet.config.fleet_yaml import load_limits

    return load_limits(found)


def project_file(cwd: Path) -> Path | None:
    """The fleet.yaml that counts for a directory; None without one.

    In a linked worktree it is the one of the main working tree: an agent can write the one that it works beside.
    """
    found = next((path for path in _upwards(_in_main(cwd)) if os.path.lexists(path)), None)
    return None if found is None else Path(found)


def _in_main(cwd: Path) -> Path:
    """The same directory in the main working tree, or the nearest above it that is there."""
    here = cwd.resolve()
    repository = git.find(here)
    if repository is None or repository.common == repository.own.resolve() or repository.common.name != ".git":
        return cwd
    main = repository.common.parent
    wanted = main / here.relative_to(repository.top)
    return next((place for place in (wanted, *wanted.parents) if place.is_dir()), main)


def _is_ours(directory: str) -> bool:
    try:
        return os.stat(directory).st_uid == os.geteuid()
    except OSError:
        return False


def candidates(cwd: Path, is_ours: Callable[[str], bool] = _is_ours) -> Iterator[Path]:
    """Where its fleet.yaml may stand: here, then upwards to the top of the repository or the user's own directory.

    A parent of somebody else is not looked into: /tmp belongs to everybody.
    """
    return map(Path, _upwards(cwd, is_ours))


def _upwards(cwd: Path, is_ours: Callable[[str], bool] = _is_ours) -> Iterator[str]:
    here, own = os.path.realpath(cwd), str(Path.home())
    at, below = here, ""
    while at != below:
        if below and not is_ours(at):
            return
        yield os.path.join(at, FLEET_YAML)
        if at == own or os.path.lexists(os.path.join(at, ".git")):
            return
        at, below = os.path.dirname(at), at

"""What is asked of a task's result, as people see it: each part of it, and who asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet.config.demands import TASK, project_demands, resolve
from fleet.config.limits import Origin
from fleet.config.runtime import Runtime
from fleet.core import FleetError
from fleet.core.proof import Demands, Scope, TaskKind
from fleet.core.task import Spec
from fleet.core.work import Attempt
from fleet.host import git
from fleet.supervisor.demands import trusted


def asked(runtime: Runtime, spec: Spec | None, history: Sequence[Attempt], *, is_open: bool) -> Demands | None:
    """What the last attempt was asked; of a task that nobody has tried, what the first one would be."""
    last = next((one.demands for one in reversed(history) if one.demands is not None), None)
    if spec is None or (last is not None and not is_open):
        return last
    try:
        found = project_demands(Path(spec.cwd), trusted(history, history[-1].place if history else None, _head(spec)))
    except (FleetError, OSError):
        return last  # its fleet.yaml cannot be read, which the next attempt says
    return resolve(spec, found, runtime.unverified)


def _head(spec: Spec) -> str | None:
    repository = git.find(Path(spec.cwd))
    return git.head(repository).commit if repository else None


def described(demands: Demands, spec: Spec | None) -> Iterator[tuple[str, str]]:
    """Each demand that is not the default, in a line."""
    if demands.kind is not TaskKind.WORK:
        yield "kind", demands.kind.value
    for check in demands.checks:
        named = f"{check.name}: {check.run}" if check.name else check.run
        yield "check", named if check.source == TASK else f"{named}  ({check.source})"
    told = ", ".join(_touched(demands.scope, spec.scope if spec else Scope()))
    if told:
        yield "scope", told


def _touched(scope: Scope, own: Scope) -> Iterator[str]:
    lists = {"only": (scope.allow, own.allow), "not": (scope.deny, own.deny), "also": (scope.protected, own.protected)}
    for word, (patterns, of_task) in lists.items():
        yield from (f"{word} {pattern}{_by(pattern in of_task)}" for pattern in patterns)
    if scope.files is not None:
        yield f"at most {scope.files} files{_by(own.files is not None)}"
    if scope.deletions is not None:
        yield f"deletions {scope.deletions}{_by(own.deletions is not None)}"


def _by(is_own: bool) -> str:
    return f" ({(Origin.TASK if is_own else Origin.PROJECT).words})"

"""The limits of one task as people see them: what each allows, who set it, what is used, and whether it can be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fleet.config.demands import trusted_yaml
from fleet.config.limits import LIMITS, Origin
from fleet.config.runtime import Runtime
from fleet.core import FleetError
from fleet.core.task import Spec
from fleet.core.work import FOREVER, Attempt, Limits
from fleet.host import git
from fleet.supervisor.demands import allowed as next_limits
from fleet.supervisor.demands import trusted
from fleet.supervisor.limits import model_of, spent, untold


@dataclass(frozen=True, slots=True)
class Allowed:
    """One limit. `limit` is None when there is none, `used` when it is not known, or not counted over a task."""

    name: str
    limit: float | None
    set_by: Origin
    used: float | None = None
    not_kept: str | None = None


def allowed(
    runtime: Runtime, spec: Spec | None, coder: str, history: Sequence[Attempt], *, is_open: bool
) -> list[Allowed]:
    """The limits that the last attempt had; of a task that is open, those that the next one would get."""
    last = history[-1] if history else None
    if last is not None and last.limits is not None and not is_open:
        return _listed(runtime, last.limits, last.origins, coder, history)
    if spec is None:
        return []
    try:
        base = trusted(history, last.place if last else None, _head(spec, last))
        found = next_limits(runtime, history, spec, base, trusted_yaml)
    except FleetError:
        return []  # its fleet.yaml cannot be read, which the next attempt says
    return _listed(runtime, found.limits, found.origins, coder, history)


def _head(spec: Spec, last: Attempt | None) -> str | None:
    """The commit that the next attempt would find."""
    if last is not None:
        return last.base
    repository = git.find(Path(spec.cwd).resolve())
    return git.head(repository).commit if repository is not None else None


def _listed(
    runtime: Runtime, limits: Limits, origins: Mapping[str, str], coder: str, history: Sequence[Attempt]
) -> list[Allowed]:
    used, why = asdict(spent(history)), untold(history) | _unkept(runtime, limits, coder, model_of(history))
    who = {name: Origin(origins.get(name, Origin.DEFAULT)) for name in LIMITS}
    return [
        Allowed(name, limit, who[name], used.get(name), None if limit is None else why.get(name))
        for name, limit in ((name, None if limit == FOREVER else limit) for name, limit in asdict(limits).items())
    ]


def _unkept(runtime: Runtime, limits: Limits, coder: str, model: str | None) -> dict[str, str]:
    from fleet.coders.known import find_coder
    from fleet.supervisor.spending import not_kept

    try:
        can = find_coder(coder, runtime).can
    except FleetError:
        return {}
    return not_kept(limits, coder, can, model or runtime.model)

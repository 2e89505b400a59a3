"""Which models run on machines of one's own, by the fleet.yaml of a project: they cost nothing by the token."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.config.demands import Find, trusted_yaml
from fleet.config.limits import project_file
from fleet.core import FleetError
from fleet.core.work import Attempt, names_model

if TYPE_CHECKING:
    from fleet.core.fleet import Fleet


class Projects:
    """The fleet.yaml of each directory that is asked about, as it stood when it was first asked about."""

    def __init__(self) -> None:
        self._found: dict[str, Fleet | None] = {}

    def of(self, cwd: str) -> Fleet | None:
        """None without one, or with one that cannot be read."""
        if cwd not in self._found:
            try:
                path = project_file(Path(cwd))
                self._found[cwd] = None if path is None else _load(path, path.stat().st_mtime_ns)
            except (FleetError, OSError):
                self._found[cwd] = None
        return self._found[cwd]

    def is_local(self, attempt: Attempt, model: str) -> bool:
        """Whether an attempt means such a model by this name; some put their provider's name in front of it.

        What was noted before its agent ran goes before the file, which the agent may have written since.
        """
        names = attempt.local
        if names is None:
            fleet = self.of(where(attempt))
            names = () if fleet is None else local_names(fleet)
        return names_model(names, model)


def where(attempt: Attempt) -> str:
    """The directory whose fleet.yaml says which models are whose: its task's own, wherever its place stands."""
    return attempt.spec.cwd if attempt.spec else attempt.cwd


def noted(cwd: Path, base: str | None, find: Find = trusted_yaml) -> tuple[str, ...]:
    """What agents may call such models there, by the fleet.yaml that is trusted; none without one that names models."""
    try:
        found = find(cwd, base)
        if found is None:
            return ()
        from fleet.config.fleet_yaml import read

        return local_names(read(found.text, found.path).fleet)
    except (FleetError, OSError):
        return ()


def local_names(fleet: Fleet) -> tuple[str, ...]:
    """What agents may call the models on machines of one's own, unless one that is paid for is called the same."""
    paid = [model for model in fleet.models.values() if fleet.node_of(model).is_cloud]
    own = [model for model in fleet.models.values() if model not in paid]
    free = {name for m in own for name in (m.alias, m.served)} - {name for m in paid for name in (m.alias, m.served)}
    return tuple(sorted(free))


@lru_cache(maxsize=64)
def _load(path: Path, changed: int) -> Fleet:
    from fleet.config.fleet_yaml import load

    return load(path).fleet

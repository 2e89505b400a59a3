"""Which models run on machines of one's own, by the fleet.yaml of a project: they cost nothing by the token."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fleet.config.limits import project_file
from fleet.core import FleetError
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

    def is_local(self, cwd: str, model: str) -> bool:
        """Whether agents there mean such a model by this name; some put their provider's name in front of it."""
        fleet = self.of(cwd)
        names = set() if fleet is None else local_names(fleet)
        return model in names or model.partition("/")[2] in names


def local_names(fleet: Fleet) -> set[str]:
    """What agents may call the models on machines of one's own, unless one that is paid for is called the same."""
    paid = [model for model in fleet.models.values() if fleet.node_of(model).is_cloud]
    own = [model for model in fleet.models.values() if model not in paid]
    return {name for m in own for name in (m.alias, m.served)} - {name for m in paid for name in (m.alias, m.served)}


@lru_cache(maxsize=64)
def _load(path: Path, changed: int) -> Fleet:
    from fleet.config.fleet_yaml import load

    return load(path).fleet

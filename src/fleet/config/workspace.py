"""How the project of a directory wants its places, and where each value of that comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from fleet.config.limits import project_file
from fleet.core.frozen import dataclass
from fleet.core.workspace import Workspace

SECTION = "workspace"
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One value in force; without a line it is the default."""

    key: Key
    value: object
    line: int | None


def project_workspace(cwd: Path) -> Workspace | None:
    """What the project's fleet.yaml says; None without one, and everything by default when it says nothing."""
    found = project_file(cwd)
    if found is None:
        return None
    from fleet.config.fleet_yaml import load_workspace

    return load_workspace(found)


def project_onto(cwd: Path) -> str | None:
    """The branch for which the project's fleet.yaml says that results are meant; None when it names none."""
    found = project_file(cwd)
    if found is None:
        return None
    from fleet.config.fleet_yaml import load_onto

    return load_onto(found)


def values(path: Path) -> list[Value]:
    """Every value of a fleet.yaml's workspace that is in force; what is empty is left out."""
    from fleet.config.document import parse
    from fleet.config.fleet_yaml import load_workspace, text_of

    workspace = load_workspace(path)
    places = parse(text_of(path)).places
    lines = {key: place.line for key, place in places.items() if key[:1] == (SECTION,)}
    return [Value(key, value, lines.get(key)) for key, value in _flat(workspace) if value not in (None, "", ())]


def _flat(workspace: Workspace) -> Iterator[tuple[Key, object]]:
    for field in fields(workspace):
        value = getattr(workspace, field.name)
        if isinstance(value, Mapping):
            yield from (((SECTION, field.name, name), item) for name, item in value.items())
        else:
            yield (SECTION, field.name), value

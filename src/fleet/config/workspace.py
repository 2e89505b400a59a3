"""How the project of a directory wants its places."""

from __future__ import annotations

from pathlib import Path

from fleet.config.limits import project_file
from fleet.core.workspace import Workspace


def project_workspace(cwd: Path) -> Workspace | None:
    """What the project's fleet.yaml says; None without one, and everything by default when it says nothing."""
    found = project_file(cwd)
    if found is None:
        return None
    from fleet.config.fleet_yaml import load_workspace

    return load_workspace(found)

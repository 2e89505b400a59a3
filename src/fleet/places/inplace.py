"""The task's own directory, as it is."""

from __future__ import annotations

from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import sayable
from fleet.host import git
from fleet.places.base import Place


def prepare(cwd: Path) -> Place:
    """The directory and the commit it stands on; a directory that is not there is an error, never made."""
    if sayable(str(cwd)) != str(cwd):
        raise FleetError(f"the task's directory {sayable(str(cwd))} has a name that is not UTF-8")
    if not cwd.is_dir():
        raise FleetError(f"the task's directory {cwd} does not exist", hint=f"mkdir {cwd}")
    repository = git.find(cwd)
    if repository is None:
        return Place(cwd)
    head = git.head(repository)
    return Place(cwd, head.branch, head.commit)

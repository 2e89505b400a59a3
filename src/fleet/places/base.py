"""The promise of a place: somewhere an attempt can work, with what it began from written down."""

from __future__ import annotations

import shlex
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.core.work import PlaceKind


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt works. Outside a git repository there is no branch and no base.

    A worktree or a clone is made from a repository, whose top is kept; it belongs to fleet, and may be removed.
    """

    path: Path
    branch: str | None = None
    base: str | None = None
    kind: PlaceKind = PlaceKind.INPLACE
    repository: Path | None = None

    @property
    def is_there(self) -> bool:
        """Whether it stands; a link that somebody put in its place is something else."""
        return self.path.is_dir() and (self.kind is PlaceKind.INPLACE or not self.path.is_symlink())

    def must_be_itself(self) -> None:
        """Refuse to look at what a link leads to."""
        if self.kind is not PlaceKind.INPLACE and self.path.is_symlink():
            raise FleetError(
                f"{clean(str(self.path))} is a link, and not the place that fleet made",
                hint=f"mv {shlex.quote(str(self.path))} aside, and put back what stood there",
            )


@dataclass(frozen=True, slots=True)
class Condition:
    """What stands in a place now. None is unknown."""

    ahead: int | None = None  # commits on top of its base
    changed: int | None = None  # files that differ from the last commit, new ones too
    there: bool = True
    size: int | None = None  # bytes on disk, when it was asked for

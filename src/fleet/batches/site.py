"""Where people begin attempts: one project, and what its attempts are made with."""

from __future__ import annotations

from pathlib import Path

from fleet import places
from fleet.core.frozen import dataclass
from fleet.core.work import Attempt
from fleet.core.workspace import Workspace
from fleet.host import locks
from fleet.places import Place, Project
from fleet.sessions import Server
from fleet.supervisor.house import House

SCREEN = "screen.txt"  # what its terminal showed last
BEING_MADE = "making.lock"  # held by whoever makes the attempt, or ends it, for as long as that takes


@dataclass(frozen=True, slots=True)
class Site:
    """A project that somebody stands in."""

    house: House
    project: Project
    workspace: Workspace
    server: Server

    @property
    def root(self) -> Path:
        """Where the places of its attempts are made; what its project asks for may be refused."""
        return places.root_for(self.house.home, self.project, self.workspace.worktree_root)

    def attempts(self) -> list[Attempt]:
        """The attempts of this project that people talk to and have not ended."""
        return [one for one in self.house.ledger.talked_to() if one.repository == str(self.project.top)]

    def directory(self, attempt: Attempt) -> Path:
        return self.house.attempt_directory(attempt)

    def being_made(self, attempt: Attempt) -> bool:
        """Whether some living process makes the attempt just now, or ends it."""
        return locks.held(self.directory(attempt) / BEING_MADE)


def place_of(attempt: Attempt) -> Place:
    return Place(
        Path(attempt.cwd),
        attempt.branch,
        attempt.base,
        attempt.place,
        Path(attempt.repository) if attempt.repository else None,
    )

"""What a person has paused: everything, one coder, or one project. In fleet.db until somebody resumes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.gates.base import Closed
from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS pauses (
    scope TEXT NOT NULL, name TEXT NOT NULL, since REAL NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (scope, name)
) WITHOUT ROWID;
"""
PAUSE = "INSERT INTO pauses VALUES (:scope, :name, :since, :reason) ON CONFLICT DO UPDATE SET reason = :reason"
RESUME = "DELETE FROM pauses WHERE scope = :scope AND name = :name"
RESUME_ALL = "DELETE FROM pauses"
ALL = "SELECT scope, name, since, reason FROM pauses ORDER BY since"


class Scope(StrEnum):
    """What a pause holds back."""

    ALL = "all"
    CODER = "coder"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Pause:
    """`name` is the coder's, or the directory of the project; empty when everything is paused."""

    scope: Scope
    name: str
    since: float
    reason: str = ""

    def closes(self, coder: str, cwd: str | None) -> Closed | None:
        """Whether it holds back a task with this coder in this directory."""
        match self.scope:
            case Scope.ALL:
                return Closed(self._because("everything is paused"))
            case Scope.CODER:
                return Closed(self._because(f"{self.name} is paused")) if coder == self.name else None
            case Scope.PROJECT:
                inside = cwd is not None and Path(cwd).is_relative_to(self.name)
                return Closed(self._because(f"{self.name} is paused")) if inside else None

    def _because(self, what: str) -> str:
        return f"{what}: {self.reason}" if self.reason else f"{what}; fleet resume lets it go on"


class Pauses:
    """The pauses of one home. People write them, the supervisor reads them at every pass."""

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def pause(self, pause: Pause) -> None:
        values = {"scope": pause.scope, "name": pause.name, "since": pause.since, "reason": pause.reason}
        with database.changing(self._file, SCHEMA) as db:
            db.execute(PAUSE, values)

    def resume(self, scope: Scope, name: str) -> int:
        """End one pause; or, for everything, all of them. How many were ended."""
        with database.changing(self._file, SCHEMA) as db:
            if scope is Scope.ALL:
                return db.execute(RESUME_ALL).rowcount
            return db.execute(RESUME, {"scope": scope, "name": name}).rowcount

    def all(self) -> list[Pause]:
        rows = [(scope, *rest) for scope, *rest in database.ask(self._file, SCHEMA, ALL) if scope in set(Scope)]
        return [Pause(Scope(scope), name, since, reason) for scope, name, since, reason in rows]

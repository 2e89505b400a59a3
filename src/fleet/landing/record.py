"""What was landed: one row a landing in fleet.db, written before the branch moves and closed after it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from fleet.core.frozen import dataclass
from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS landings (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, repository TEXT NOT NULL, branch TEXT NOT NULL,
    old TEXT NOT NULL, new TEXT NOT NULL, state TEXT NOT NULL, results TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS landings_on ON landings (repository, branch, number);
CREATE TABLE IF NOT EXISTS landings_refused (
    attempt TEXT NOT NULL, repository TEXT NOT NULL, branch TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (attempt, repository, branch)
) WITHOUT ROWID;
"""
REFUSE = """
    INSERT INTO landings_refused VALUES (:attempt, :repository, :branch, :reason)
    ON CONFLICT DO UPDATE SET reason = excluded.reason
"""
REFUSED = "SELECT attempt, reason FROM landings_refused WHERE repository = :repository AND branch = :branch"
BEGIN = """
    INSERT INTO landings (at, repository, branch, old, new, state, results)
    VALUES (:at, :repository, :branch, :old, :new, 'moving', :results)
"""
SETTLE = "UPDATE landings SET state = :state WHERE number = :number"
ALL = "SELECT * FROM landings WHERE state IN (SELECT value FROM json_each(:states)) ORDER BY number"


class LandingState(StrEnum):
    MOVING = "moving"  # the branch was about to be moved
    LANDED = "landed"
    NOT_MOVED = "not moved"
    UNDOING = "undoing"  # it was about to be taken back
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class LandedResult:
    """One result of a landing: the commit that was judged, and the one that it became on its branch."""

    task: str
    attempt: str
    result: str
    landed: str
    note: str = ""  # why it was landed without proof


@dataclass(frozen=True, slots=True)
class Landing:
    number: int
    at: float
    repository: str  # where git keeps what all its working trees share
    branch: str
    old: str
    new: str
    state: LandingState
    results: tuple[LandedResult, ...]


READ = msgspec.json.Decoder(tuple[LandedResult, ...])


class Landings:
    """The landings of a home."""

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def begin(self, at: float, common: Path, branch: str, old: str, new: str, results: Sequence[LandedResult]) -> int:
        """Write down what is about to happen; its number."""
        values = {"at": at, "repository": str(common), "branch": branch, "old": old, "new": new}
        with database.changing(self._file, SCHEMA) as db:
            row = db.execute(BEGIN, values | {"results": msgspec.json.encode(results).decode()})
            assert row.lastrowid is not None
            return row.lastrowid

    def settle(self, number: int, state: LandingState) -> None:
        with database.changing(self._file, SCHEMA) as db:
            db.execute(SETTLE, {"number": number, "state": state.value})

    def all(self, *states: LandingState) -> list[Landing]:
        """The landings in these states, the oldest first."""
        found = database.ask(self._file, SCHEMA, ALL, {"states": msgspec.json.encode(states).decode()})
        return [
            Landing(
                row["number"], row["at"], row["repository"], row["branch"], row["old"], row["new"],
                LandingState(row["state"]), READ.decode(row["results"]),
            )
            for row in found
        ]  # fmt: skip

    def refuse(self, attempt: str, common: Path, branch: str, reason: str) -> None:
        """Remember that a result broke a branch: tried again on top of what it broke, it might pass for good."""
        values = {"attempt": attempt, "repository": str(common), "branch": branch, "reason": reason}
        with database.changing(self._file, SCHEMA) as db:
            db.execute(REFUSE, values)

    def refused(self, common: Path, branch: str) -> dict[str, str]:
        """The attempts whose results broke a branch, with the reasons."""
        values = {"repository": str(common), "branch": branch}
        return {row["attempt"]: row["reason"] for row in database.ask(self._file, SCHEMA, REFUSED, values)}

    def landed_attempts(self) -> dict[str, Landing]:
        """Every attempt whose result was landed and not taken back, with the landing."""
        return {one.attempt: landing for landing in self.all(LandingState.LANDED) for one in landing.results}

"""Whether there is memory for one agent more: by what such agents used before, and by what the machine has now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleet.gates.base import Closed
from fleet.host import database

KEPT = 0.1  # of all memory, for everybody else
PRESSURE = 10.0  # percent of the last ten seconds that somebody waited for memory
GB = 1e9
SCHEMA = "CREATE TABLE IF NOT EXISTS needs (coder TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;"
ALL = "SELECT coder, bytes FROM needs"
# What was used most, forgotten slowly: one small task does not make the next agent small.
NOTE = """
    INSERT INTO needs VALUES (:coder, :bytes)
    ON CONFLICT DO UPDATE SET bytes = max(:bytes, CAST(0.8 * bytes + 0.2 * :bytes AS INTEGER))
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the machine has now. None is not known."""

    total: int | None
    available: int | None
    pressure: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What agents may use all together, and what one of each coder is expected to use."""

    memory: Memory
    allowed: int | None = None  # what a person said that agents may use; else all but a tenth
    needs: dict[str, int] | None = None
    usual: int = 0  # of a coder that was never seen

    def need(self, coder: str) -> int:
        return (self.needs or {}).get(coder, self.usual)

    @property
    def whole(self) -> int | None:
        if self.allowed is not None:
            return self.allowed
        return None if self.memory.total is None else int(self.memory.total * (1 - KEPT))


def short_of_memory(budget: Budget, coder: str, promised: int, starting: int) -> Closed | None:
    """Why there is no memory for one more of this coder. `promised` is what those that run may come to use, `starting`
    what those that begin now will take of what is free. The first agent always starts: else none ever would.
    """
    need, memory = budget.need(coder), budget.memory
    if promised == 0:
        return None
    if budget.whole is not None and promised + need > budget.whole:
        left = max(0, budget.whole - promised)
        return Closed(f"waits for memory: {_gb(left)} of {_gb(budget.whole)} not promised, {coder} needs {_gb(need)}")
    if memory.available is not None and memory.available - starting < need:
        return Closed(f"waits for memory: {_gb(memory.available - starting)} free, {coder} needs {_gb(need)}")
    if memory.pressure is not None and memory.pressure > PRESSURE:
        return Closed(f"waits for memory: programs wait for it {memory.pressure:.0f} % of the time")
    return None


def _gb(count: int) -> str:
    return f"{max(0, count) / GB:.1f} GB"


class Needs:
    """What agents of each coder have used, in fleet.db. Only the supervisor writes it."""

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def all(self) -> dict[str, int]:
        return dict(map(tuple, database.ask(self._file, SCHEMA, ALL)))

    def note(self, coder: str, used: int) -> None:
        with database.changing(self._file, SCHEMA) as db:
            db.execute(NOTE, {"coder": coder, "bytes": used})

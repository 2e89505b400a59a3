"""Ten ports for each attempt that asks, on this machine: nobody else's in this home, and free when they are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from fleet.core import FleetError
from fleet.core.template import PORTS
from fleet.host import database, machine

FIRST, LAST = 20_000, 30_000  # below those that systems hand out by themselves
LOOPBACK = "127.0.0.1"
SCHEMA = "CREATE TABLE IF NOT EXISTS ports (attempt TEXT PRIMARY KEY, first INTEGER NOT NULL UNIQUE) WITHOUT ROWID;"
MINE = "SELECT first FROM ports WHERE attempt = ?"
TAKEN = "SELECT first FROM ports"
TAKE = "INSERT INTO ports VALUES (?, ?)"
FREE = "DELETE FROM ports WHERE attempt = ?"
ALL = "SELECT attempt FROM ports"


def take(home: Path, attempt: str) -> int:
    """The first of ten ports in a row, which stay this attempt's until they are freed; asked again, the same ones."""
    with database.changing(database.path(home), SCHEMA) as db:
        mine = db.execute(MINE, (attempt,)).fetchone()
        if mine is not None:
            return int(mine[0])
        first = next(_free_blocks({int(row[0]) for row in db.execute(TAKEN)}), None)
        if first is None:
            raise FleetError(
                f"all ports from {FIRST} to {LAST - 1} are in use", hint="end attempts that are not needed: fleet list"
            )
        db.execute(TAKE, (attempt, first))
    return first


def _free_blocks(taken: Collection[int]) -> Iterator[int]:
    for first in range(FIRST, LAST, PORTS):
        if first not in taken and all(_is_free(port) for port in range(first, first + PORTS)):
            yield first


def _is_free(port: int) -> bool:
    return machine.why_not_listening(LOOPBACK, port) is None


def free(home: Path, attempt: str) -> None:
    """Let an attempt's ports go."""
    if not database.ask(database.path(home), SCHEMA, MINE, (attempt,)):
        return  # as nearly always: nobody waits for the right to write
    with database.changing(database.path(home), SCHEMA) as db:
        db.execute(FREE, (attempt,))


def forget(home: Path, living: Callable[[], Collection[str]]) -> list[str]:
    """Free the ports of every attempt that does not live; whose they were. Who lives is asked after it is known who has
    ports: an attempt is written down before it takes some.
    """
    known = {str(row[0]) for row in database.ask(database.path(home), SCHEMA, ALL)}
    gone = sorted(known - set(living()))
    with database.changing(database.path(home), SCHEMA) as db:
        db.executemany(FREE, [(attempt,) for attempt in gone])
    return gone

"""The database of a home: one SQLite file that several rooms and DBOS share, each with tables of its own."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.host import files

NAME = "fleet.db"
PATIENCE = 5.0
OTHERS = 0o077
LITTLE = 64 * 1024  # bytes that are not enough for a transaction and its index
MOST_IDLE = 8  # as many as may be in use at once; each knows all rooms
Key = tuple[str, int, float]
Values = Sequence[object] | Mapping[str, object]


class _Connection(sqlite3.Connection):
    """A connection, and which rooms' tables are known to be there."""

    key: Key = ("", 0, 0.0)
    schemas: set[str]


_idle: dict[Key, list[_Connection]] = {}


def path(home: Path) -> Path:
    return home / NAME


def reading(file: Path, schema: str = "", patience: float = PATIENCE) -> Turn:
    """One connection that sees one moment of the database, however many questions it asks."""
    return Turn(file, schema, patience, "BEGIN")


def changing(file: Path, schema: str = "", patience: float = PATIENCE) -> Turn:
    """One connection that alone may write: everything it does is kept, or, when anything is raised, nothing."""
    return Turn(file, schema, patience, "BEGIN IMMEDIATE")


def ask(file: Path, schema: str, question: str, values: Values = (), patience: float = PATIENCE) -> list[sqlite3.Row]:
    """What one question finds. It sees one moment by itself, and so costs a third of what a transaction does."""
    with Turn(file, schema, patience, "") as db:
        return db.execute(question, values).fetchall()


class Turn:
    """A connection that nobody else uses meanwhile, in a transaction; one that served well is kept for the next."""

    __slots__ = ("_begin", "_db", "_file", "_patience", "_schema")

    def __init__(self, file: Path, schema: str, patience: float, begin: str) -> None:
        self._file, self._schema, self._patience, self._begin = file, schema, patience, begin

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._db = _take(self._file, self._patience)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise
        except sqlite3.DatabaseError as problem:
            raise self._explained(problem) from problem
        return self._db

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _: object) -> None:
        if problem is None:
            try:
                if self._begin:
                    self._db.execute("COMMIT")
                _give_back(self._db)
                return
            except BaseException as failed:
                problem = failed
        self._undo()
        if isinstance(problem, sqlite3.DatabaseError):
            raise self._explained(problem) from problem
        if kind is None:
            raise problem

    def _open(self) -> None:
        if self._schema and self._schema not in self._db.schemas:
            self._db.executescript(self._schema)
            self._db.schemas.add(self._schema)
        if self._begin:
            self._db.execute(self._begin)

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # SQLite rolls some failures back by itself
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._db.close()

    def _explained(self, problem: sqlite3.DatabaseError) -> Exception:
        """A broken promise between rows is its room's to explain."""
        return problem if isinstance(problem, sqlite3.IntegrityError) else explain(problem, self._file, self._patience)


def _take(file: Path, patience: float) -> _Connection:
    """A connection to the file that stands there now: one that was kept, or a new one."""
    try:
        return _idle[str(file), os.stat(file).st_ino, patience].pop()  # atomic: two threads never get the same one
    except (FileNotFoundError, KeyError, IndexError):
        _keep_private(file)
        return _connect(file, patience)


def _give_back(db: _Connection) -> None:
    waiting = _idle.setdefault(db.key, [])
    if len(waiting) < MOST_IDLE:
        waiting.append(db)
    else:
        db.close()


def _connect(file: Path, patience: float) -> _Connection:
    key = (str(file), os.stat(file).st_ino, patience)
    db = sqlite3.connect(file, timeout=patience, isolation_level=None, check_same_thread=False, factory=_Connection)
    try:
        db.key, db.schemas = key, set()
        db.row_factory = sqlite3.Row
        _write_ahead(db, time.monotonic() + patience)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection, deadline: float) -> None:
    """Let readers and a writer work side by side. SQLite does not wait for its turn here, so we do."""
    while True:
        try:
            if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _keep_private(file: Path) -> None:
    """Make the file for its owner alone; SQLite gives its -wal and -shm the same mode.

    It is never opened here: closing any descriptor of it would drop the locks that SQLite holds in this process.
    """
    files.private_dir(file.parent)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        files.create(file, b"", files.PRIVATE)
        return
    if mode & OTHERS:
        for one in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
            with suppress(FileNotFoundError, PermissionError):
                os.chmod(one, files.PRIVATE)


def explain(problem: sqlite3.Error, file: Path, patience: float = PATIENCE) -> FleetError:
    """What SQLite's complaint means for a person, and what to do about it."""
    code = getattr(problem, "sqlite_errorcode", None)
    match code & 0xFF if code is not None else None:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            said = f"another process has been writing to it for {patience:g} s"
            return Unavailable(f"{file} is busy: {said}", hint="try again; fleet run status shows the supervisor")
        case sqlite3.SQLITE_FULL:
            return _full(file)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return FleetError(f"{file} is damaged: {problem}", hint=f"put it aside: mv {file} {file}.damaged")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_IOERR if _is_full(
            file.parent
        ):  # SQLite knows that it failed only
            return _full(file)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return Unavailable(f"{file} cannot be opened or written: {problem}", hint=f"ls -la {file.parent}")
        case _:
            return FleetError(f"{file}: {problem}", hint="fleet doctor")


def _full(file: Path) -> FleetError:
    return Unavailable(f"{file} cannot grow: the disk is full", hint=f"df -h {file.parent}")


def _is_full(directory: Path) -> bool:
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < LITTLE

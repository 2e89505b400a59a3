"""The database of a home: one SQLite file that several rooms and DBOS share, each with tables of its own."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.host import files

NAME = "fleet.db"
PATIENCE = 5.0
OTHERS = 0o077
MOST_IDLE = 2
Key = tuple[str, int, str, float]
_idle: dict[Key, list[sqlite3.Connection]] = {}


def path(home: Path) -> Path:
    return home / NAME


@contextmanager
def reading(file: Path, schema: str = "", patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    """One connection that sees one moment of the database, however many questions it asks."""
    with _transaction(file, schema, patience, "BEGIN") as db:
        yield db


@contextmanager
def changing(file: Path, schema: str = "", patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    """One connection that alone may write: everything it does is kept, or, when anything is raised, nothing."""
    with _transaction(file, schema, patience, "BEGIN IMMEDIATE") as db:
        yield db


@contextmanager
def _transaction(file: Path, schema: str, patience: float, begin: str) -> Iterator[sqlite3.Connection]:
    try:
        with _connection(file, schema, patience) as db:
            db.execute(begin)
            try:
                yield db
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite rolls some failures back by itself
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
    except sqlite3.IntegrityError:
        raise  # a broken promise between rows is its room's to explain
    except sqlite3.DatabaseError as problem:
        raise explain(problem, file, patience) from problem


@contextmanager
def _connection(file: Path, schema: str, patience: float) -> Iterator[sqlite3.Connection]:
    """A connection that nobody else uses meanwhile. One that served well is kept for the next who asks the same way."""
    db, key = _kept(file, schema, patience)
    if db is None:
        _keep_private(file)
        key = (str(file), os.stat(file).st_ino, schema, patience)
        db = _open(file, schema, patience)
    try:
        yield db
    except BaseException:
        db.close()
        raise
    waiting = _idle.setdefault(key, [])
    if len(waiting) < MOST_IDLE:
        waiting.append(db)
    else:
        db.close()


def _kept(file: Path, schema: str, patience: float) -> tuple[sqlite3.Connection | None, Key]:
    """A connection that was kept, if it is to the file that stands there now."""
    try:
        key = (str(file), os.stat(file).st_ino, schema, patience)
        return _idle[key].pop(), key  # atomic, so two threads never get the same one
    except (FileNotFoundError, KeyError, IndexError):
        return None, (str(file), 0, schema, patience)


def _open(file: Path, schema: str, patience: float) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        _write_ahead(db, time.monotonic() + patience)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        if schema:
            db.executescript(schema)
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
            return Unavailable(f"{file} cannot grow: the disk is full", hint=f"df -h {file.parent}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return FleetError(f"{file} is damaged: {problem}", hint=f"put it aside: mv {file} {file}.damaged")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return Unavailable(f"{file} cannot be opened or written: {problem}", hint=f"ls -la {file.parent}")
        case _:
            return FleetError(f"{file}: {problem}", hint="fleet doctor")

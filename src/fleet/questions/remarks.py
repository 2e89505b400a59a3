"""What a person says to an agent that has no terminal: kept in fleet.db until the agent's next turn."""

from __future__ import annotations

from pathlib import Path

from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS remarks (
    task TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (task, number)
) WITHOUT ROWID;
"""
ADD = "INSERT INTO remarks SELECT :task, coalesce(max(number), 0) + 1, :text FROM remarks WHERE task = :task"
ALL = "SELECT text FROM remarks WHERE task = :task ORDER BY number"
DROP = "DELETE FROM remarks WHERE task = :task AND number = :number"


def add(home: Path, task: str, text: str) -> int:
    """Keep a remark for the task's agent; how many there are now."""
    with database.changing(database.path(home), SCHEMA) as db:
        db.execute(ADD, {"task": task, "text": text})
        return len(db.execute(ALL, {"task": task}).fetchall())


def read(home: Path, task: str) -> list[str]:
    """Everything that was said about a task, the first first."""
    with database.reading(database.path(home), SCHEMA) as db:
        return [row[0] for row in db.execute(ALL, {"task": task})]


def drop(home: Path, task: str, number: int) -> None:
    """Take back a remark that came too late."""
    with database.changing(database.path(home), SCHEMA) as db:
        db.execute(DROP, {"task": task, "number": number})

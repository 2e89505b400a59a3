"""What a person says to an agent that has no terminal: kept in fleet.db until the agent's next turn."""

from __future__ import annotations

from pathlib import Path

from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS remarks (
    task TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (task, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS remarks_heard (task TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""
LAST = "SELECT coalesce(max(number), 0) FROM remarks WHERE task = :task"
ADD = "INSERT INTO remarks VALUES (:task, :number, :text)"
READ = "SELECT text FROM remarks WHERE task = :task AND number > :after AND number <= :to ORDER BY number"
HEAR = "INSERT INTO remarks_heard VALUES (:task, :number) ON CONFLICT DO UPDATE SET number = excluded.number"
DROP = """
    DELETE FROM remarks WHERE task = :task AND number = :number
        AND number > coalesce((SELECT number FROM remarks_heard WHERE task = :task), 0)
"""
NO_END = 2**62


def add(home: Path, task: str, text: str) -> int:
    """Keep a remark for the task's agent; its number, which is larger than those of all that are kept."""
    with database.changing(database.path(home), SCHEMA) as db:
        number = int(db.execute(LAST, {"task": task}).fetchone()[0]) + 1
        db.execute(ADD, {"task": task, "number": number, "text": text})
    return number


def read(home: Path, task: str, *, after: int = 0, to: int = NO_END) -> list[str]:
    """What was said about a task behind one number and up to another, the first first."""
    return [row[0] for row in database.ask(database.path(home), SCHEMA, READ, {"task": task, "after": after, "to": to})]


def last(home: Path, task: str) -> int:
    """The number of the last remark about a task, or 0. Whoever asks acts on it: from now on these remarks stay."""
    if not database.ask(database.path(home), SCHEMA, LAST, {"task": task})[0][0]:
        return 0  # as for nearly every task: nobody waits for the right to write
    with database.changing(database.path(home), SCHEMA) as db:
        number = int(db.execute(LAST, {"task": task}).fetchone()[0])
        db.execute(HEAR, {"task": task, "number": number})
    return number


def drop(home: Path, task: str, number: int) -> bool:
    """Take back a remark that came too late; False when somebody heard of it, so that an agent will be told."""
    with database.changing(database.path(home), SCHEMA) as db:
        return db.execute(DROP, {"task": task, "number": number}).rowcount > 0

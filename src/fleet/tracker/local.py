"""Tasks in the home's own database: no other program is needed, and every change is one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from sqlite3 import Connection, Row

from fleet.core import NotFound
from fleet.core.task import Comment, NewTask, NewWords, Status, Task
from fleet.core.text import clean
from fleet.host import database
from fleet.tracker import reserve, words
from fleet.tracker.base import Tracker, circle, urgency

SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    number      INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    status      TEXT NOT NULL DEFAULT 'open',
    priority    INTEGER NOT NULL,
    created     REAL NOT NULL,
    assignee    TEXT NOT NULL DEFAULT '',
    notes       TEXT NOT NULL DEFAULT '',
    reason      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS tasks_in_turn ON tasks (status, priority, number);
CREATE TABLE IF NOT EXISTS dependencies (
    task  TEXT NOT NULL REFERENCES tasks (id),
    needs TEXT NOT NULL REFERENCES tasks (id),
    PRIMARY KEY (task, needs)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS comments (
    number INTEGER PRIMARY KEY,
    task   TEXT NOT NULL REFERENCES tasks (id),
    author TEXT NOT NULL,
    text   TEXT NOT NULL,
    at     REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS comments_of_task ON comments (task, number);
"""

# What a task needs is done once it is closed, unless it was closed as cancelled; what is not done yet bears a mark.
_TASKS = """
    SELECT t.*, (
        SELECT group_concat(
            CASE WHEN n.status = 'closed' AND n.reason != 'cancelled' AND n.reason NOT GLOB 'cancelled:*'
            THEN '' ELSE '!' END || n.id, ' '
        )
        FROM dependencies d JOIN tasks n ON n.id = d.needs WHERE d.task = t.id
    ) AS needs
    FROM tasks t
"""
ONE = _TASKS + "WHERE t.id = :task"
ALL = _TASKS + "ORDER BY t.number"
UNFINISHED = _TASKS + "WHERE t.status != 'closed' ORDER BY t.number"
READY = (
    _TASKS
    + """
    WHERE t.status = 'open' AND t.priority = :priority AND ifnull(needs, '') NOT GLOB '*!*'
    ORDER BY t.number LIMIT :limit
"""
)
PRIORITIES = range(5)
LAST = "SELECT coalesce(max(number), 0) FROM tasks"
EXISTS = "SELECT 1 FROM tasks WHERE id = :task"
ADD = """
    INSERT INTO tasks (number, id, title, description, priority, created)
    VALUES (:number, :task, :title, :description, :priority, :now)
"""
CLAIM = """
    UPDATE tasks SET status = 'in_progress', assignee = :actor
    WHERE id = :task AND (status = 'open' OR (status = 'in_progress' AND assignee = :actor))
"""
RELEASE = "UPDATE tasks SET status = 'open', assignee = '', notes = :note WHERE id = :task AND status = 'in_progress'"
BLOCK = "UPDATE tasks SET status = 'blocked', assignee = '', notes = :note WHERE id = :task AND status != 'closed'"
OPEN = "UPDATE tasks SET status = 'open', assignee = '', reason = '' WHERE id = :task"
CLOSE = "UPDATE tasks SET status = 'closed', reason = :reason WHERE id = :task AND status != 'closed'"
DEPEND = "INSERT OR IGNORE INTO dependencies (task, needs) VALUES (:task, :needs)"
UNDEPEND = "DELETE FROM dependencies WHERE task = :task AND needs = :needs"
REWORD = """
    UPDATE tasks SET title = ifnull(:title, title), description = ifnull(:description, description),
        priority = ifnull(:priority, priority)
    WHERE id = :task
"""
NEEDED_BY = """
    WITH RECURSIVE needed (id) AS (
        SELECT :needs UNION SELECT d.needs FROM dependencies d JOIN needed ON d.task = needed.id
    )
    SELECT 1 FROM needed WHERE id = :task
"""
COMMENT = "INSERT INTO comments (task, author, text, at) VALUES (:task, :author, :text, :now)"
COMMENTS = "SELECT author, text, at FROM comments WHERE task = :task ORDER BY number"


class Local:
    """The tracker that needs nothing. Its calls take milliseconds and may be made from any thread."""

    name = "local"

    def __init__(
        self, home: Path, *, patience: float = database.PATIENCE, now: Callable[[], float] = time.time
    ) -> None:
        self._home = home
        self._file = database.path(home)
        self._patience = patience
        self._now = now

    def check(self, new: NewTask | NewWords) -> None:
        words.check(new)

    def add(self, new: NewTask, record: Callable[[str], None]) -> Task:
        self.check(new)
        with database.reading(self._file, SCHEMA, self._patience) as db:
            for needs in new.after:
                _must_exist(db, needs)
            last: int = db.execute(LAST).fetchone()[0]
        task = reserve.reserve(self._home, (f"t{number}" for number in count(last + 1)))
        try:
            record(task)
            return self._insert(task, new)
        except Exception:
            reserve.give_back(self._home, task)
            raise

    def get(self, task: str) -> Task:
        for row in database.ask(self._file, SCHEMA, ONE, {"task": task}, self._patience):
            return _task(row)
        raise _unknown(task)

    def all(self) -> list[Task]:
        return self._list(ALL)

    def unfinished(self) -> list[Task]:
        return self._list(UNFINISHED)

    def ready(self, limit: int | None = None, ageing: float | None = None) -> list[Task]:
        """Of each priority the oldest are found by the index; among them are the most urgent of all."""
        most, now = -1 if limit is None else limit, self._now()
        with database.reading(self._file, SCHEMA, self._patience) as db:
            asked = [db.execute(READY, {"priority": priority, "limit": most}) for priority in PRIORITIES]
            found = [_task(row) for rows in asked for row in rows]
        return sorted(found, key=lambda task: urgency(task, ageing, now))[:limit]

    def claim(self, task: str, actor: str) -> bool:
        return self._change(CLAIM, task, actor=actor)

    def release(self, task: str, note: str) -> None:
        self._change(RELEASE, task, note=words.note(note))

    def block(self, task: str, note: str) -> None:
        self._change(BLOCK, task, note=words.note(note))

    def open(self, task: str) -> None:
        self._change(OPEN, task)

    def close(self, task: str, reason: str) -> None:
        self._change(CLOSE, task, reason=words.note(reason))

    def depend(self, task: str, on: str) -> None:
        with database.changing(self._file, SCHEMA, self._patience) as db:
            _must_exist(db, task)
            _must_exist(db, on)
            if db.execute(NEEDED_BY, {"task": task, "needs": on}).fetchone():
                raise circle(task, on)
            db.execute(DEPEND, {"task": task, "needs": on})

    def undepend(self, task: str, on: str) -> None:
        self._change(UNDEPEND, task, needs=on)

    def reword(self, task: str, words: NewWords) -> None:
        self.check(words)
        self._change(REWORD, task, title=words.title, description=words.description, priority=words.priority)

    def comment(self, task: str, text: str, author: str) -> None:
        facts = {"task": task, "text": words.comment(text), "author": author, "now": self._now()}
        with database.changing(self._file, SCHEMA, self._patience) as db:
            _must_exist(db, task)
            db.execute(COMMENT, facts)

    def comments(self, task: str) -> list[Comment]:
        with database.reading(self._file, SCHEMA, self._patience) as db:
            _must_exist(db, task)
            return [Comment(row["author"], row["text"], row["at"]) for row in db.execute(COMMENTS, {"task": task})]

    def _insert(self, task: str, new: NewTask) -> Task:
        facts = {"title": new.title, "description": new.description, "priority": new.priority}
        with database.changing(self._file, SCHEMA, self._patience) as db:
            db.execute(ADD, {"number": int(task[1:]), "task": task, "now": self._now()} | facts)
            for needs in new.after:
                db.execute(DEPEND, {"task": task, "needs": needs})
            return _task(db.execute(ONE, {"task": task}).fetchone())

    def _list(self, question: str, **facts: float) -> list[Task]:
        return [_task(row) for row in database.ask(self._file, SCHEMA, question, facts, self._patience)]

    def _change(self, statement: str, task: str, **facts: str | float | None) -> bool:
        """Make one change to a task that exists; whether it was made."""
        with database.changing(self._file, SCHEMA, self._patience) as db:
            made = db.execute(statement, {"task": task} | facts).rowcount == 1
            if not made:
                _must_exist(db, task)
            return made


def _must_exist(db: Connection, task: str) -> None:
    if db.execute(EXISTS, {"task": task}).fetchone() is None:
        raise _unknown(task)


def _unknown(task: str) -> NotFound:
    return NotFound(f"there is no task {clean(task)}", hint="fleet tasks --all")


def _task(row: Row) -> Task:
    needs = sorted(row["needs"].split(), key=lambda mark: int(mark.lstrip("!t"))) if row["needs"] else []
    return Task(
        id=row["id"],
        title=row["title"],
        description=row["description"],
        status=Status(row["status"]),
        priority=row["priority"],
        created=row["created"],
        after=tuple(mark.removeprefix("!") for mark in needs),
        waits_for=tuple(mark[1:] for mark in needs if mark.startswith("!")),
        assignee=row["assignee"],
        notes=row["notes"],
        reason=row["reason"],
    )


_promise: type[Tracker] = Local

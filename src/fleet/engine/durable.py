"""DBOS Transact as the engine: attempts are workflows, their steps are checkpoints in fleet.db.

Attempts are started directly and not through a DBOS queue: who may start is a question of three limits at once, of
disk and of backoff, which the dispatcher answers, and a queue that is polled is either slow or busy.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeVar

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, _workflow_commands
from sqlalchemy import event
from sqlalchemy.engine import Engine as SqlEngine
from sqlalchemy.exc import SQLAlchemyError

from fleet.core import Unavailable
from fleet.engine.base import Engine, Work

# What a stored attempt's steps are called and in which order they come. DBOS would compute this from our source, and
# every upgrade would strand what was running.
STEPS_VERSION = "1"
READ = "3.3.0"  # the release of DBOS whose insides we know
UNFINISHED = ["PENDING", "ENQUEUED"]
GIVEN_UP = ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
WAIT = 0.1
REST = 60.0
THREADS = 2  # for its own statements only; more of them would fight over the interpreter
POOL = 2  # connections; SQLite lets one write at a time
AGAIN = 2.0
KEPT = timedelta(days=1)
AT_A_TIME = 5000
T = TypeVar("T")
_launching = threading.Event()
_new: ContextVar[bool] = ContextVar("_new", default=False)  # whether this very call has begun the attempt
Act = Callable[..., Coroutine[Any, Any, None]]


class Durable:
    """One DBOS a process. It must be launched from the event loop that is to run the attempts."""

    def __init__(self, database: Path, work: Work, log: logging.Handler) -> None:
        logger = logging.getLogger("dbos")
        logger.handlers = [log]
        logger.propagate = False
        event.listen(SqlEngine, "connect", _tune)
        _launching.set()
        config: DBOSConfig = {
            "name": "fleet",
            "system_database_url": f"sqlite:///{database}",
            "application_version": STEPS_VERSION,
            "executor_id": "local",
            "log_level": "WARNING",
            "enable_otlp": False,
            "serializer": DBOSPortableJSONSerializer(),
            "notification_listener_polling_interval_sec": REST,
            "db_engine_kwargs": {
                "pool_size": POOL,
                "max_overflow": 0,
                "pool_timeout": 60,
                "pool_pre_ping": False,
                "pool_use_lifo": True,
                "connect_args": {"factory": _Connection},
            },
            "max_executor_threads": THREADS,
        }
        self._dbos = DBOS(config=config)
        self._begun: set[str] = set()  # carried by this process now
        self._expected: set[str] | None = None  # left by an earlier process
        self._attempt = _workflow(work, self._begun)
        self._resting = False
        with suppress(AttributeError):  # DBOS has no public setting for its own queue; without it we are only slower
            self._dbos._registry.get_internal_queue()._polling_interval_sec = WAIT
        _workflow_commands._SWEEP_POLLING_INTERVAL_SEC = REST  # no attempt has a deadline of DBOS's: its keeper has it
        DBOS.launch()
        _launching.clear()
        _spare(self._dbos)

    async def start(self, attempt: str) -> None:
        with SetWorkflowID(attempt):
            new = _new.set(True)  # its task inherits this; one that is taken over is begun elsewhere
            try:
                await _or_unavailable(DBOS.start_workflow_async(self._attempt, attempt))
            finally:
                _new.reset(new)

    async def unfinished(self) -> set[str]:
        found = await self._named(UNFINISHED)
        if self._expected is None:
            self._expected = found - self._begun
        return found

    async def gave_up(self) -> set[str]:
        return await self._named(GIVEN_UP)

    async def rest(self) -> None:
        if not self._resting and self._expected is not None:
            still = await self._named(UNFINISHED)
            self._resting = not (self._expected & still) - self._begun
            if self._resting:  # nothing is ever queued or scheduled, but for what it found of an earlier process
                for stop in self._dbos.background_thread_stop_events:
                    stop.set()

    async def forget(self) -> None:
        before = (datetime.now(UTC) - KEPT).isoformat()
        done = await _or_unavailable(
            DBOS.list_workflows_async(
                status="SUCCESS", end_time=before, limit=AT_A_TIME, load_input=False, load_output=False
            )
        )
        if done:
            await _or_unavailable(DBOS.delete_workflows_async([workflow.workflow_id for workflow in done]))

    async def _named(self, states: list[str]) -> set[str]:
        found = await _or_unavailable(DBOS.list_workflows_async(status=states, load_input=False, load_output=False))
        return {workflow.workflow_id for workflow in found}


def _workflow(work: Work, begun: set[str]) -> Callable[[str], Coroutine[Any, Any, None]]:
    """The attempt as DBOS runs it: read this aloud to know what becomes of a task."""
    prepare, run, verify = _step(work, work.prepare), _step(work, work.run), _step(work, work.verify)
    broke, settle = _step(work, work.broke, Exception), _step(work, work.settle, Exception)

    async def carry(name: str) -> None:
        try:
            await prepare(name)
            await run(name)
            await verify(name)
        except SQLAlchemyError:
            raise
        except Exception as problem:
            await broke(name, f"{type(problem).__name__}: {problem}")
        await settle(name)

    @DBOS.workflow(name="attempt", max_recovery_attempts=None)
    async def attempt(name: str) -> None:
        begun.add(name)
        try:
            await carry(name)
        except Exception as problem:  # an attempt that is not settled must never count as finished
            work.cannot_go_on(f"{type(problem).__name__}: {problem}")
        begun.discard(name)
        work.over(name)

    return attempt


def _step(work: Work, act: Act, waits_for: type[Exception] = Unavailable) -> Act:
    """A checkpoint, done again for as long as what it needs does not answer.

    DBOS could try again by itself, but keeps every failure with its frames for as long as it goes on.
    """

    async def step(name: str, *more: str) -> None:
        while True:
            try:
                return await act(name, *more)
            except waits_for as problem:
                work.waits(name, f"{act.__name__}: {problem}")
            await asyncio.sleep(AGAIN)

    return DBOS.step(name=act.__name__)(step)


async def _or_unavailable(asked: Coroutine[Any, Any, T]) -> T:
    try:
        return await asked
    except SQLAlchemyError as problem:
        raise Unavailable(f"the engine cannot use its database: {problem}", hint="df -h") from problem


def _tune(connection: sqlite3.Connection, _: object) -> None:
    """The same settings as host.database: readers never wait for a writer, and a crash of ours loses nothing."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _spare(dbos: DBOS) -> None:
    """Leave out two things that cost a third of a workflow and say nothing: it asks before each step whether that is
    done already, which it cannot be in an attempt that was begun just now; and it puts together anew, for each
    statement, how the time is asked for. DBOS has no settings for them, so only in the release that we have read.
    """
    if version("dbos") != READ:
        return
    database: Any = dbos._sys_db
    look_up, now = database.check_operation_execution, database._now_ms_sql()
    database.check_operation_execution = lambda *step: None if _new.get() else look_up(*step)
    database._now_ms_sql = lambda: now


class _Cursor(sqlite3.Cursor):
    def execute(self, statement: str, *values: Any) -> Self:
        """While tables are made, a transaction holds them too: sqlite3 opens none by itself for such statements, and a
        supervisor that is killed in the middle would leave a home that no other can use.
        """
        try:
            if _launching.is_set() and not self.connection.in_transaction and not statement.startswith("PRAGMA"):
                super().execute("BEGIN IMMEDIATE")
            return super().execute(statement, *values)
        except sqlite3.OperationalError as problem:
            raise _waited_for(problem) from problem


class _Connection(sqlite3.Connection):
    """SQLAlchemy has events for all this, and asks them at every turn once one is listened to."""

    def cursor(self, *_: Any) -> _Cursor:  # type: ignore[override]
        return super().cursor(_Cursor)

    def commit(self) -> None:
        try:
            super().commit()
        except sqlite3.OperationalError as problem:
            raise _waited_for(problem) from problem


def _waited_for(problem: sqlite3.OperationalError) -> sqlite3.OperationalError:
    """Let DBOS wait for a full disk as it waits for a lock: it tries again what was refused for that."""
    is_full = problem.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return sqlite3.OperationalError(f"database is locked: {problem}") if is_full else problem


_promise: type[Engine] = Durable

"""DBOS Transact as the engine: what is short in an attempt is two workflows, whose progress is kept in fleet.db.

    begin   prepare                      an attempt that was prepared is not prepared again
    (run)   the agent, held by its keeper: no workflow waits for it
    end     verify, then settle          a verdict that was begun is carried through

DBOS has threads that look for work every second, which costs most of a percent of a core for as long as it is
launched. Between the two workflows it is not needed, so it is launched for them and put away when none is under way.
Attempts are started directly and not through a DBOS queue: who may start is a question of three limits at once, of
disk and of backoff, which the dispatcher answers. Only public interfaces of DBOS and SQLAlchemy are used here.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
from sqlalchemy import event
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from fleet.core import Unavailable
from fleet.engine.base import Engine, Work

# Which workflows there are, and their steps. DBOS would compute this from our source, and every upgrade would strand
# what was under way.
WORKFLOWS_VERSION = "2"
BEGIN, END = "begin:", "end:"  # and the attempt's name: the ids of its two workflows
UNFINISHED = ["PENDING", "ENQUEUED"]
FAILED_BEFORE = "the engine has given it up"
RETRY_AFTER_S = 2.0
REST_AFTER_S = 10.0
STOP_POLLING_S = 0.2  # how long DBOS's listener may take to see that it is to end
NEVER_S = 86_400.0
LOCK_TIMEOUT_MS = 30_000
EXECUTOR_THREADS = 2  # for DBOS's own statements only; more of them would fight over the interpreter
CONNECTIONS = 2  # SQLite lets one write at a time
REMEMBERED_FOR = timedelta(days=1)
MAX_FORGOTTEN_AT_ONCE = 5000
T = TypeVar("T")
Act = Callable[..., Coroutine[Any, Any, None]]


class Durable:
    """One a process. It must be made in the event loop that is to run the attempts."""

    def __init__(self, database: Path, work: Work, log: logging.Handler, rest_after_s: float = REST_AFTER_S) -> None:
        self._database = database
        self._rest_after_s = rest_after_s
        self._work = work
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}  # every attempt that this process carries or has carried
        self._begun_here: set[str] = set()
        self._begin_workflow, self._end_workflow = self._register()
        self._users = 0
        self._changing = asyncio.Lock()  # launching it, or putting it away
        self._resting: asyncio.TimerHandle | None = None
        self._rest_task: asyncio.Task[None] | None = None
        self._sql: sqlalchemy.Engine | None = None
        self._launch()

    async def start(self, attempt: str) -> None:
        if attempt not in self._tasks:
            self._tasks[attempt] = asyncio.create_task(self._carry_to_the_end(attempt))

    async def interrupted(self) -> set[str]:
        async with self._launched():
            found = await _or_unavailable(
                DBOS.list_workflows_async(
                    status=UNFINISHED, app_version=WORKFLOWS_VERSION, load_input=False, load_output=False
                )
            )
        return {_attempt_of(workflow.workflow_id) for workflow in found} - self._tasks.keys()

    async def forget(self) -> None:
        before = (datetime.now(UTC) - REMEMBERED_FOR).isoformat()
        under_way = {name for name, task in self._tasks.items() if not task.done()}
        async with self._launched():
            done = await _or_unavailable(
                DBOS.list_workflows_async(
                    status="SUCCESS",
                    end_time=before,
                    limit=MAX_FORGOTTEN_AT_ONCE,
                    load_input=False,
                    load_output=False,
                )
            )
            ids = [one.workflow_id for one in done if _attempt_of(one.workflow_id) not in under_way]
            if ids:
                await _or_unavailable(DBOS.delete_workflows_async(ids))
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done() or name in under_way}

    # ---- one attempt

    async def _carry_to_the_end(self, name: str) -> None:
        try:
            await self._carry(name)
        except Exception as problem:  # an attempt that is not settled must never count as finished
            self._work.cannot_go_on(f"{type(problem).__name__}: {problem}")
        self._work.over(name)

    async def _carry(self, name: str) -> None:
        """Read this aloud to know what becomes of a task."""
        problem = await self._do(self._begin_workflow, BEGIN + name, name)
        if name in self._begun_here or not await self._was_ending(name):
            problem = problem or await self._run(name)
        if await self._do(self._end_workflow, END + name, name, problem) == FAILED_BEFORE:
            await self._until_done(self._work.broke, Exception)(name, FAILED_BEFORE)
            await self._until_done(self._work.settle, Exception)(name)

    async def _run(self, name: str) -> str:
        """Let the agent run; why that could not be done, if it could not."""
        try:
            await self._until_done(self._work.run)(name)
        except Exception as problem:
            return _said(problem)
        return ""

    async def _do(self, workflow: Callable[..., Coroutine[Any, Any, str]], known_as: str, *given: str) -> str:
        """What a workflow comes to: now, or earlier, or in the process that recovers it."""
        while True:
            try:
                async with self._launched():
                    with SetWorkflowID(known_as):
                        handle = await _or_unavailable(DBOS.start_workflow_async(workflow, *given))
                    return await _or_unavailable(handle.get_result(polling_interval_sec=RETRY_AFTER_S / 4))
            except Unavailable as problem:
                self._work.waits(given[0], problem.message)
            except Exception:  # the workflows themselves raise nothing: an earlier version's fault
                return FAILED_BEFORE
            await asyncio.sleep(RETRY_AFTER_S)

    async def _was_ending(self, name: str) -> bool:
        while True:
            try:
                async with self._launched():
                    return await _or_unavailable(DBOS.get_workflow_status_async(END + name)) is not None
            except Unavailable as problem:
                self._work.waits(name, problem.message)
            await asyncio.sleep(RETRY_AFTER_S)

    def _register(self) -> tuple[Callable[..., Coroutine[Any, Any, str]], Callable[..., Coroutine[Any, Any, str]]]:
        """The two workflows. What stands in one outside a step is done again when the process dies in it."""
        prepare, settle = self._until_done(self._work.prepare), self._until_done(self._work.settle, Exception)
        verify = DBOS.step(name="verify")(self._until_done(self._work.verify))
        broke = DBOS.step(name="broke")(self._until_done(self._work.broke, Exception))

        @DBOS.workflow(name="begin", max_recovery_attempts=None)
        async def begin(name: str) -> str:
            self._begun_here.add(name)
            try:
                await prepare(name)
            except Exception as problem:
                return _said(problem)
            return ""

        @DBOS.workflow(name="end", max_recovery_attempts=None)
        async def end(name: str, problem: str) -> str:
            try:
                await self._verified(verify, broke, name, problem)
                await settle(name)
            except Exception as surprise:  # what could not be written down must not pass for done
                self._work.cannot_go_on(_said(surprise))
            return ""

        return begin, end

    async def _verified(self, verify: Act, broke: Act, name: str, problem: str) -> None:
        if not problem:
            try:
                await verify(name)
            except SQLAlchemyError:
                raise
            except Exception as surprise:
                problem = _said(surprise)
        if problem:
            await broke(name, problem)

    def _until_done(self, act: Act, waits_for: type[Exception] = Unavailable) -> Act:
        """The same, done again for as long as what it needs does not answer.

        DBOS could try again by itself, but keeps every failure with its frames for as long as it goes on.
        """

        async def do(name: str, *more: str) -> None:
            while True:
                try:
                    return await act(name, *more)
                except waits_for as problem:
                    self._work.waits(name, f"{act.__name__}: {problem}")
                await asyncio.sleep(RETRY_AFTER_S)

        return do

    # ---- DBOS itself, launched while somebody needs it

    @asynccontextmanager
    async def _launched(self) -> AsyncIterator[None]:
        async with self._changing:
            if self._sql is None:
                self._launch()
            self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._rest_later()

    def _launch(self) -> None:
        logger = logging.getLogger("dbos")
        logger.handlers, logger.propagate = [self._log], False
        self._sql = _open(self._database)
        config: DBOSConfig = {
            "name": "fleet",
            "system_database_url": f"sqlite:///{self._database}",
            "system_database_engine": self._sql,
            "application_version": WORKFLOWS_VERSION,
            "executor_id": "local",
            "log_level": "WARNING",
            "enable_otlp": False,
            "serializer": DBOSPortableJSONSerializer(),
            "notification_listener_polling_interval_sec": STOP_POLLING_S,  # we send no notifications
            "scheduler_polling_interval_sec": NEVER_S,  # nor is anything scheduled
            "max_executor_threads": EXECUTOR_THREADS,
        }
        DBOS(config=config)
        DBOS.launch()
        self._rest_later()

    def _rest_later(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if self._users == 0:
            self._resting = asyncio.get_running_loop().call_later(self._rest_after_s, self._begin_rest)

    def _begin_rest(self) -> None:
        self._rest_task = asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        """Put DBOS away, with its threads. It took over the loop's own thread pool, which has to be replaced."""
        async with self._changing:
            if self._users or self._sql is None:
                return
            loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(1, "engine")
            loop.set_default_executor(pool)
            await loop.run_in_executor(pool, DBOS.destroy)
            self._sql.dispose()
            self._sql = None


def _attempt_of(workflow_id: str) -> str:
    return workflow_id.removeprefix(BEGIN).removeprefix(END)


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


async def _or_unavailable(asked: Coroutine[Any, Any, T]) -> T:
    try:
        return await asked
    except SQLAlchemyError as problem:
        raise Unavailable(f"the engine cannot use its database: {problem}", hint="df -h") from problem


def _open(database: Path) -> sqlalchemy.Engine:
    """The database with the settings of host.database, and what DBOS would set on an engine of its own."""
    engine = sqlalchemy.create_engine(
        f"sqlite:///{database}", pool_size=CONNECTIONS, max_overflow=0, pool_timeout=60, pool_use_lifo=True
    )
    event.listen(engine, "connect", _set_up_connection)
    event.listen(engine, "handle_error", _wait_for_space)
    return engine


def _set_up_connection(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = "IMMEDIATE"
    connection.execute(f"PRAGMA busy_timeout={LOCK_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA journal_mode=WAL")  # readers never wait for a writer
    connection.execute("PRAGMA synchronous=NORMAL")  # a crash of ours loses nothing


def _wait_for_space(context: sqlalchemy.ExceptionContext) -> Exception | None:
    """Let DBOS wait for a full disk as it waits for a lock: it tries again what was refused for that."""
    problem = context.original_exception
    if not isinstance(problem, sqlite3.OperationalError):
        return None
    if problem.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return None
    as_lock = sqlite3.OperationalError(f"database is locked: {problem}")
    return OperationalError(context.statement, None, as_lock)


_promise: type[Engine] = Durable

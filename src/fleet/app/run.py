"""The supervisor of this home: started, asked how it is, and stopped."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fleet import tracker
from fleet.app.home import RECORD, SETTINGS, WAKE, ensure_home, home_fault, pointing_to_doctor, read_last_error
from fleet.coders.known import find_coder
from fleet.config.runtime import Live
from fleet.core import FleetError, NotFound, Unavailable
from fleet.engine.base import Engine
from fleet.evidence.journal import Record
from fleet.evidence.ledger import Ledger
from fleet.host import database, files, git, leaving, locks, process
from fleet.supervisor.attempts import Attempts
from fleet.supervisor.choice import LOCK
from fleet.supervisor.house import House
from fleet.supervisor.log import Log
from fleet.supervisor.overheard import Handler
from fleet.supervisor.rules import rules
from fleet.supervisor.supervisor import Launch, Mode, Supervisor, sums_of_held

LAUNCHED = "launched"  # in the record, once the engine is there
STARTS_WITHIN = 30.0
STOPS_WITHIN = 20.0
LONGEST_LOG = 1024**3
LONGEST_LINE = 4096
LOG_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Running:
    """Who supervises this home; what is None is nobody, or not known."""

    running: bool
    pid: int | None = None
    started: float | None = None
    actor: str | None = None
    home: str | None = None
    stopped: bool = False  # it is there, and does nothing until it is let go on


def status(home: Path | None = None) -> Running:
    """Whether a supervisor runs for this home: the lock says so, its record only says who."""
    home = home or ensure_home()
    if not locks.held(home / LOCK):
        return Running(False, home=str(home))
    try:
        found = json.loads(files.read(home / RECORD) or b"{}")
        pid = int(found["pid"])
        stopped = process.is_stopped(pid)
        return Running(True, pid, float(found["started"]), str(found["actor"]), str(home), stopped)
    except (OSError, ValueError, KeyError, TypeError):
        return Running(True, home=str(home))


def held_back() -> str | None:
    """What holds back every task now, by the rules that a supervisor applies; None when nothing does."""
    from fleet.app.tasks import Desk, with_until

    desk = Desk.open()
    closed = rules(desk.home, desk.runtime, time.time()).closed
    return None if closed is None else with_until(closed)


def supervise(
    mode: Mode, coder: str | None, hear: Callable[[Record], None], farewell: Callable[[], None] = lambda: None
) -> None:
    """Supervise until told to stop, or until the mode is satisfied, and end the process; agents live on."""
    with pointing_to_doctor():
        home = ensure_home()
        settings = Live(home / SETTINGS)
        if coder is not None:
            find_coder(coder, settings.runtime)
        desk = tracker.open(home, settings.runtime.tracker)
        with suppress(Unavailable):  # one that only does not answer is waited for; one that is not there is said now
            desk.ready(1)
        lock = _take(home)
        actor = f"fleet-{sha256(str(home).encode()).hexdigest()[:6]}-{secrets.token_hex(4)}"
        _introduce(home, actor)
    git.clear()
    log = Log(home, hear)
    house = House(home, desk, Ledger(home), settings, find_coder, log, actor, coder)
    log.say("supervisor started", pid=os.getpid(), actor=actor, tracker=settings.runtime.tracker.value)
    try:
        asyncio.run(_run(house, mode, database.path(home), lambda code: _leave(farewell, code)))
    finally:
        locks.release(lock)


async def _run(house: House, mode: Mode, file: Path, leave: Callable[[int], None]) -> None:
    def launch(work: Attempts) -> Engine:
        from fleet.engine.durable import Durable  # takes a second to import

        return Durable(file, work, Handler(house.log))

    def cannot_go_on(problem: str) -> None:
        house.log.say("supervisor failed", level="error", text=problem[:2000])
        leave(1)

    supervisor = Supervisor(house, _announced(launch, house.home), mode, cannot_go_on)
    loop = asyncio.get_running_loop()
    bell = _hang_bell(house.home)
    loop.add_reader(bell, _ring, bell, supervisor)
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(sign, _asked_to_stop, supervisor, house.log, leave)
    try:
        await supervisor.run()
    except Exception as problem:  # unwinding would end what it must not
        from fleet.app.dependencies import explain_failure  # wanted only now

        cannot_go_on(explain_failure(problem))
    if supervisor.left_held:
        said, names = sums_of_held(supervisor.left_held), " ".join(supervisor.left_held)
        house.log.say("tasks left held", level="warning", text=said, tasks=names)
    house.log.say("supervisor ended")
    leave(1 if supervisor.left_held else 0)


def _asked_to_stop(supervisor: Supervisor, log: Log, leave: Callable[[int], None]) -> None:
    if not supervisor.stop():
        log.say("supervisor ended")
        leave(0)  # asked twice: at once


def _leave(farewell: Callable[[], None], code: int) -> None:
    """End here and now. What runs is carried on by keepers, and what was begun is in the ledger: there is nothing to
    unwind, and unwinding would only tell the engine that attempts had failed.
    """
    with suppress(Exception):
        farewell()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    leaving.leave(code)


def _take(home: Path) -> int:
    lock = locks.take(home / LOCK)
    if lock is None:
        raise _taken(home)
    (home / RECORD).unlink(missing_ok=True)  # until there is a new one, nobody may take the last one for it
    return lock


def _taken(home: Path) -> FleetError:
    who = status(home)
    since = f" since {time.strftime('%H:%M:%S', time.localtime(who.started))}" if who.started else ""
    return FleetError(
        f"a supervisor already runs for {home}: process {who.pid or 'unknown'}{since}", hint="fleet run status"
    )


def _introduce(home: Path, actor: str) -> None:
    record = {"pid": os.getpid(), "started": time.time(), "actor": actor}
    files.write(home / RECORD, json.dumps(record).encode(), files.PRIVATE)


def _announced(launch: Launch, home: Path) -> Launch:
    """The same, and then it stands in the record: the engine is there, and the supervisor works."""

    def announced(work: Attempts) -> Engine:
        engine = launch(work)
        with suppress(OSError, ValueError):
            record = json.loads(files.read(home / RECORD) or b"{}")
            files.write(home / RECORD, json.dumps(record | {LAUNCHED: True}).encode(), files.PRIVATE)
        return engine

    return announced


def _has_launched(home: Path, pid: int) -> bool:
    """Whether this supervisor has started its engine; until then it may still fail."""
    try:
        found = json.loads(files.read(home / RECORD) or b"{}")
        return bool(found["pid"] == pid and found[LAUNCHED])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _hang_bell(home: Path) -> int:
    """The pipe that others write to when there is something to do. Open for both ends, it never reads as closed."""
    path = home / WAKE
    for _ in range(2):
        with suppress(FileExistsError):
            os.mkfifo(path, files.PRIVATE)
        with suppress(OSError):
            bell = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
            if stat.S_ISFIFO(os.fstat(bell).st_mode):
                return bell
            os.close(bell)
        files.put_aside(path)
    raise FleetError(f"{path} is not a pipe of ours", hint=f"rm {path}")


def _ring(bell: int, supervisor: Supervisor) -> None:
    try:
        os.read(bell, 4096)
    except BlockingIOError:
        return
    supervisor.wake()


def start_detached(coder: str | None) -> Running:
    """Start a supervisor that outlives this terminal, and wait until it has the home and its engine."""
    with pointing_to_doctor():
        home = ensure_home()
        if locks.held(home / LOCK):
            raise _taken(home)
        argv = [sys.executable, "-m", "fleet", "run", "--quiet", *(["--coder", coder] if coder else [])]
        log = files.private_dir(home / "logging") / "supervisor.out"
        child = process.detach(argv, dict(os.environ), log)
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if process.ended(child, 0.05) is not None:
            break
        if _has_launched(home, child.pid):
            return status(home)
    reason, hint = read_last_error(log.read_text(errors="replace"))
    reason = reason or home_fault(home) or "it said nothing"  # on a full disk it cannot even do that
    raise FleetError(f"the supervisor did not start: {reason}", hint=hint or "fleet doctor")


def stop() -> Running:
    """Ask the supervisor to let go, and wait until it has; who it was."""
    home = ensure_home()
    who = status(home)
    if not who.running:
        return who
    if who.pid is None:
        raise FleetError("a supervisor runs, and did not say which process it is", hint=f"cat {home / RECORD}")
    os.kill(who.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOPS_WITHIN
    while locks.held(home / LOCK) and time.monotonic() < deadline:
        time.sleep(0.02)
    if locks.held(home / LOCK):
        raise FleetError(f"the supervisor, process {who.pid}, did not stop", hint=f"kill -9 {who.pid}  # loses nothing")
    return who


def log_lines(most: int | None) -> list[str]:
    """The supervisor's newest log, or the last lines of it."""
    limit = LONGEST_LOG if most is None else min(LONGEST_LOG, most * LONGEST_LINE)
    lines = (files.read_end(_newest_log(), limit) or b"").decode(errors="replace").splitlines()
    return lines[-most:] if most else lines


def log_growth() -> Iterator[str]:
    """Every whole line that comes from now on, for ever; when a day is over, of the next day's log."""
    path = _newest_log()
    at, rest = path.stat().st_size, b""
    while True:
        rest += files.read_from(path, at + len(rest), LONGEST_LINE * 256) or b""
        *whole, left = rest.split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
        at, rest = at + len(rest) - len(left), left
        if not whole:
            newest = _newest_log()
            if newest != path:
                path, at, rest = newest, 0, b""
            time.sleep(LOG_PAUSE_S)


def _newest_log() -> Path:
    found = sorted((ensure_home() / "logging").glob("fleet-*.jsonl"))
    if not found:
        raise NotFound("no supervisor has run in this home yet", hint="fleet run")
    return found[-1]

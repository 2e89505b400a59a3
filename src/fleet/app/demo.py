"""The work plane end to end in a scratch home and a scratch repository: nothing is kept."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fleet import keeper, tracker
from fleet.app.add import add
from fleet.app.home import SETTINGS
from fleet.app.tasks import Desk, Row, rows
from fleet.config import runtime as settings
from fleet.core import FleetError
from fleet.core.task import NewTask, Spec
from fleet.core.work import State
from fleet.evidence.ledger import Ledger
from fleet.host import files, process
from fleet.host.run import run
from fleet.supervisor.choice import attempt_directory

SCRIPTED = "demonstration"
LONGEST = 900.0
LOOK_EVERY = 0.25
LIAR = "Say that all is done, and do nothing"
TASKS = (
    NewTask("Write a function that greets", "A function in a module of its own, committed.", 1),
    NewTask("Write a function that says goodbye", "A function in a module of its own, committed.", 2),
    NewTask("Write the release note", "One line of text in a file of its own, committed.", 2, ("t1", "t2")),
    NewTask(LIAR, "The agent writes a plan, does nothing, and exits with 0.", 3, ("t3",)),
)
AUTHOR = ("-c", "user.name=fleet", "-c", "user.email=fleet@fleet.invalid", "-c", "commit.gpgSign=false")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of it: the tasks as they ended, and what the repository holds now."""

    tasks: list[Row]
    commits: list[str]
    lie: str

    @property
    def true(self) -> bool:
        """Whether every honest task is done, and the one that is not has failed."""
        states = {row.title: row.state for row in self.tasks}
        return states.pop(LIAR, State.FAILED) is State.FAILED and set(states.values()) == {State.DONE}


def demo(coder: str, see: Callable[[list[Row]], None]) -> Shown:
    """Put a handful of tasks in a queue, run a supervisor until all are settled, and look at the result."""
    with tempfile.TemporaryDirectory(prefix="fleet-demo-") as scratch:
        desk, repository = _prepare(Path(scratch), coder)
        for new in TASKS:
            if coder == SCRIPTED or new.title != LIAR:
                add(new, Spec(cwd=str(repository), attempts=1 if new.title == LIAR else None), desk.home)
        with _supervisor(desk) as child:
            waited = 0.0
            while process.ended(child, LOOK_EVERY) is None and waited < LONGEST:
                waited += LOOK_EVERY
                see(rows(desk, everything=True))
        found = rows(desk, everything=True)
        see(found)
        log = _git(repository, "log", "--format=%h %an: %s", "HEAD").splitlines()
        return Shown(found, log, next((row.cause for row in found if row.title == LIAR), ""))


def _prepare(scratch: Path, coder: str) -> tuple[Desk, Path]:
    home = files.private_dir(scratch / "home")
    files.write(home / SETTINGS, f'coder = "{coder}"\nmodel = ""\nmax_concurrent = 2\n'.encode(), files.PRIVATE)
    repository = files.private_dir(scratch / "repository")
    files.write(repository / "README.md", b"# A scratch repository of the demonstration\n")
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _git(repository, "add", "README.md")
    _git(repository, *AUTHOR, "commit", "--quiet", "--message", "begin")
    runtime = settings.read(home / SETTINGS)
    return Desk(home, runtime, tracker.open(home, runtime.tracker), Ledger(home)), repository


@contextmanager
def _supervisor(desk: Desk) -> Iterator[process.Child]:
    """A supervisor of the scratch home that ends when its work is done; when we are interrupted, nothing is left."""
    argv = [sys.executable, "-m", "fleet", "run", "--drain"]
    child = process.detach(argv, os.environ | {"FLEET_HOME": str(desk.home)}, desk.home / "supervisor.out")
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)
        process.ended(child, 10.0)
        for attempt in desk.ledger.unsettled():
            hold = keeper.adopt(attempt_directory(desk.home, attempt))
            if hold is not None and hold.alive:
                hold.abort()
                _gone(hold)


def _gone(hold: keeper.Hold) -> None:
    deadline = time.monotonic() + 20
    while hold.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    hold.close()


def _git(repository: Path, *args: str) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    done = run(["git", *args], cwd=repository, env=env, timeout=60.0)
    if done.code != 0:
        raise FleetError(f"git {args[0]} failed: {done.said}", hint="git --version")
    return done.out.decode(errors="replace")

"""The work plane end to end in a scratch home and a scratch repository: nothing is kept."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fleet import keeper, tracker
from fleet.app.add import add
from fleet.app.home import SETTINGS, read_last_error
from fleet.app.tasks import Desk, Row, rows
from fleet.config import runtime as settings
from fleet.core import FleetError
from fleet.core.life import LifeState
from fleet.core.task import NewTask, Spec
from fleet.core.work import State
from fleet.evidence.ledger import Ledger
from fleet.host import files, process
from fleet.host.run import run
from fleet.supervisor.choice import attempt_directory

SCRIPTED = "demonstration"
LONGEST = 900.0
LOOK_EVERY = 0.25
STOPS_WITHIN_S = 10.0
LIAR = "Say that all is done, and do nothing"
STUCK = "Install what is needed, and wait at its prompt"
ENDED = (State.DONE, State.REFUSED, State.FAILED, State.BLOCKED, State.CANCELLED)
STUCK_FOR = 60.0  # seconds, at the most
TASKS = (
    NewTask("Write a function that greets", "A function in a module of its own, committed.", 1),
    NewTask("Write a function that says goodbye", "A function in a module of its own, committed.", 2, ("t1",)),
    NewTask("Write the release note", "One line of text in a file of its own, committed.", 2, ("t2",)),
    NewTask(LIAR, "The agent writes a plan, does nothing, and exits with 0.", 3, ("t3",)),
    NewTask(STUCK, "The agent runs a program that asks at a terminal which nobody sees.", 0),
)
CHECKS = {
    "t1": "test -s task_t1.py",
    "t2": "test -s task_t2.py",
    "t3": "test -s task_t3.txt",
    "t4": "test -s task_t4.txt",
}
AUTHOR = ("-c", "user.name=fleet", "-c", "user.email=fleet@fleet.invalid", "-c", "commit.gpgSign=false")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of it: the tasks as they ended, and what the repository holds now."""

    tasks: list[Row]
    commits: list[str]
    lie: str = ""
    stuck: str = ""
    not_started: list[str] = field(default_factory=list)  # tasks that no agent was started for
    problem: str = ""  # why the supervisor ended, when it ended before its work was done
    hint: str = ""

    @property
    def true(self) -> bool:
        """Whether every honest task is done, the liar was not believed, and the one that waits was seen to wait."""
        honest = [row for row in self.tasks if row.title not in (LIAR, STUCK)]
        liars = [row for row in self.tasks if row.title == LIAR]
        return (
            {row.state for row in honest} == {State.DONE}
            and {row.state for row in liars} <= {State.REFUSED}
            and all(waits(row) for row in self.tasks if row.title == STUCK)
        )


def waits(row: Row) -> bool:
    """Whether its agent is seen to wait for a person."""
    return row.life is not None and row.life.state is LifeState.INPUT


def demo(coder: str, see: Callable[[list[Row]], None]) -> Shown:
    """Put a handful of tasks in a queue, run a supervisor until all that can end have ended, and look at the result.

    An agent that waits for a person does so until we leave; then it is ended.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-demo-") as scratch:
        desk, repository = _prepare(Path(scratch), coder)
        _fill(desk, repository, coder)
        output = desk.home / "supervisor.out"
        with _supervisor(desk, output) as child:
            waited, found = 0.0, rows(desk, everything=True)
            while not _is_over(found) and process.ended(child, LOOK_EVERY) is None and waited < LONGEST:
                waited += LOOK_EVERY
                found = rows(desk, everything=True)
                see(found)
            if not _is_over(found):  # a supervisor that has nothing more to do ends while we look
                found = rows(desk, everything=True)
                see(found)
        log = _git(repository, "log", "--format=%h %an: %s", "HEAD").splitlines()
        lie = next((row.cause for row in found if row.title == LIAR and row.state is State.REFUSED), "")
        stuck = next((row.life.why for row in found if row.title == STUCK and row.life is not None), "")
        not_started = [row.id for row in found if not row.attempts]
        problem, hint = ("", "") if _is_over(found) else read_last_error(output.read_text(errors="replace"))
        return Shown(found, log, lie, stuck, not_started, problem, hint)


def _fill(desk: Desk, repository: Path, coder: str) -> None:
    """The queue; an agent that is not our own is asked for honest work only."""
    beside = files.private_dir(repository.parent / "beside")
    for number, new in enumerate(TASKS, 1):
        if new.title == STUCK and coder == SCRIPTED:
            add(new, Spec(cwd=str(beside), attempts=1, timeout=STUCK_FOR), desk.home)
        elif coder == SCRIPTED:
            one = Spec(cwd=str(repository), check=CHECKS[f"t{number}"], attempts=1 if new.title == LIAR else None)
            add(new, one, desk.home)
        elif new.title not in (LIAR, STUCK):
            add(new, Spec(cwd=str(repository)), desk.home)


def _is_over(found: list[Row]) -> bool:
    return all(row.state in ENDED or waits(row) for row in found) and not any(row.waits_for for row in found)


def _prepare(scratch: Path, coder: str) -> tuple[Desk, Path]:
    home = files.private_dir(scratch / "home")
    files.write(home / SETTINGS, f'coder = "{coder}"\nmodel = ""\nmax_concurrent = 3\n'.encode(), files.PRIVATE)
    repository = files.private_dir(scratch / "repository")
    files.write(repository / "README.md", b"# A scratch repository of the demonstration\n")
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _git(repository, "add", "README.md")
    _git(repository, *AUTHOR, "commit", "--quiet", "--message", "begin")
    runtime = settings.read(home / SETTINGS)
    return Desk(home, runtime, tracker.open(home, runtime.tracker), Ledger(home)), repository


@contextmanager
def _supervisor(desk: Desk, output: Path) -> Iterator[process.Child]:
    """A supervisor of the scratch home that ends when its work is done; when we are interrupted, nothing is left."""
    argv = [sys.executable, "-m", "fleet", "run", "--drain"]
    child = process.detach(argv, os.environ | {"FLEET_HOME": str(desk.home)}, output)
    try:
        yield child
    finally:
        _end_supervisor(child)
        for attempt in desk.ledger.unsettled():
            hold = keeper.adopt(attempt_directory(desk.home, attempt))
            if hold is not None and hold.alive:
                hold.abort()
                _gone(hold)


def _end_supervisor(child: process.Child) -> None:
    """Tell it to stop; one that has not, to leave at once. Only then may its home be removed."""
    for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(child.pid, sign)
        if process.ended(child, STOPS_WITHIN_S) is not None:
            return


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

"""The keeper's way through: claim the attempt, run the agent to its end, write down how it ended."""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import fcntl
import os
import sys
import time

from fleet.keeper.program.keeper import Keeper
from fleet.keeper.program.kernel import SET_CHILD_SUBREAPER, prctl, signal
from fleet.keeper.program.record import DRAFT, NotStarted, record, reserve
from fleet.keeper.program.spec import Spec, read_spec
from fleet.keeper.program.supervisor import Events
from fleet.keeper.program.terminal import Terminal

CLAIM_PAUSE, CLAIM_TRIES = 0.02, 10
KEYS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # what a terminal sends to those who are not in front


def main() -> None:
    os.chdir(sys.argv[1])
    terminal = Terminal() if sys.argv[2:] == ["terminal"] else None
    lock, events, control = claim() if terminal else map(int, sys.argv[2:5])
    if terminal:
        terminal.stand_back()
    for fd in (lock, events, control):
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
    wakeups = listen(hangs_up=terminal is not None)
    prctl(SET_CHILD_SUBREAPER, 1)
    keeper = keep(read_spec(), Events(events), control, wakeups, terminal)
    tidy()
    if terminal:
        terminal.take_back(keeper.last_words())
    os._exit(0)  # taking the interpreter apart in order would be a fifth of our time


def claim() -> tuple[int, int, int]:
    """Lock, events and control, made here because nobody could hand them to us; the end, when another has been here."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not is_locked_by_us(lock):
        sys.exit("fleet: another keeper has this attempt")
    if os.path.exists("exit.json") or os.path.exists(DRAFT):
        for name in ("lock", "spec"):
            forget(name)
        sys.exit("fleet: this attempt is over")
    return lock, make_pipe("events"), make_pipe("control")


def is_locked_by_us(lock: int) -> bool:
    for _ in range(CLAIM_TRIES):  # somebody who only looks holds it for a moment
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(CLAIM_PAUSE)
        else:
            return True
    return False


def make_pipe(name: str) -> int:
    """Both ends of a named pipe, whoever made it."""
    try:
        os.mkfifo(name, 0o600)
    except FileExistsError:
        pass
    return os.open(name, os.O_RDWR | os.O_NONBLOCK)


def forget(name: str) -> None:
    try:
        os.unlink(name)
    except OSError:
        pass


def listen(*, hangs_up: bool = False) -> int:
    """Turn the signals that matter into bytes on a pipe, so that the loop hears them like everything else."""
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, *KEYS, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGCHLD, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return heard


def keep(spec: Spec, events: Events, control: int, wakeups: int, terminal: Terminal | None) -> Keeper:
    """Run the agent to its end and write down how it ended."""
    draft = os.open(DRAFT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    keeper = Keeper(spec, events, terminal)
    try:
        reserve(draft)
        keeper.start()
        keeper.watch(control, wakeups)
    except NotStarted as problem:
        keeper.cause, keeper.error = "not started", str(problem)
    except BaseException:
        keeper.tree.destroy()
        raise
    record(draft, keeper.facts())
    events.tell(b"x")
    return keeper


def tidy() -> None:
    """Leave the record and the output, and nothing that only served the running."""
    try:
        for name in ("events", "control", "lock"):
            os.unlink(name)
        if os.stat("keeper.err").st_size == 0:
            os.unlink("keeper.err")
    except OSError:
        pass  # the record is written: what else happens to the directory is not our business

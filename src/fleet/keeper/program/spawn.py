"""How a process becomes the agent."""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import os

from fleet.keeper.program.fence import Unfenced, enclose
from fleet.keeper.program.kernel import SET_PDEATHSIG, prctl, signal
from fleet.keeper.program.record import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from fleet.keeper.program.spec import Spec
    from fleet.keeper.program.terminal import Terminal

UNFENCED = "not fenced: "


def spawn(spec: Spec, streams: list[int], terminal: Terminal | None = None) -> tuple[int, str]:
    """Start the agent: its process, and why it could not become the program, if so."""
    pid, error = fork(spec, streams, terminal)
    if error.startswith(UNFENCED) and spec.fence and not spec.fence["required"]:
        spec.unfenced, spec.fence, spec.is_fenced = error.removeprefix(UNFENCED), None, False
        pid, error = fork(spec, streams, terminal)
    for fd in streams:
        os.close(fd)
    return pid, error


def fork(spec: Spec, streams: list[int], terminal: Terminal | None) -> tuple[int, str]:
    keeper = os.getpid()
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(spec, streams, told, keeper, terminal)
    os.close(told)
    with open(heard, "rb") as report:
        error = report.read().decode()
    if error:
        os.waitpid(pid, 0)
    return pid, error


def become(spec: Spec, streams: list[int], report: int, keeper: int, terminal: Terminal | None) -> NoReturn:
    """Turn this child into the agent: nothing of ours stays open, ignored or blocked."""
    what = b""
    try:
        lead(terminal)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        forget_signals()
        if spec.fence:
            spec.cwd = enclose(spec.fence, spec.cwd)
        prctl(SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(127)  # it died before it could be promised that we die with it
        what = spec.cwd
        os.chdir(spec.cwd)
        what = spec.argv[0]
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606
    except Unfenced as problem:
        os.write(report, (UNFENCED + str(problem)).encode())
    except BaseException as problem:
        os.write(report, explain(problem, os.fsdecode(what)).encode())
    finally:
        os._exit(127)


def lead(terminal: Terminal | None) -> None:
    """Have a session of its own, or the terminal of ours: a group of its own there, and the one in front."""
    if terminal is None:
        os.setsid()
    else:
        os.setpgid(0, 0)
        terminal.give(os.getpid())


def forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP and those the C library keeps for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def open_stdin() -> int:
    try:
        return os.open("stdin", os.O_RDONLY)
    except FileNotFoundError:
        return os.open(os.devnull, os.O_RDONLY)

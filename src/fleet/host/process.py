"""Child processes: started with nothing they do not need, ended by their number and seen to be gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fleet.core import ToolMissing

GRACE = 15.0
Child = subprocess.Popen[bytes]


def detach(argv: Sequence[str], env: Mapping[str, str], log: Path, keep: int) -> Child:
    """Start a process that outlives us, in a session of its own; it writes to the log and inherits one descriptor."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            pass_fds=[keep],
            start_new_session=True,
        )
    finally:
        os.close(output)


def ended(process: Child, within: float) -> int | None:
    """The exit code, once it has ended; None when it still runs after waiting."""
    try:
        return process.wait(timeout=within)
    except subprocess.TimeoutExpired:
        return None


def end(pid: int, is_gone: Callable[[], bool], grace: float = GRACE) -> bool:
    """Ask a process group to end, then make it; True once it is gone."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(pid, sign)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # when it is our own child, it must not stay as a zombie
            if is_gone():
                return True
            time.sleep(0.05)
    return False


def make_environment(home: Path) -> None:
    """A virtual environment with pip in it, in place of whatever is there."""
    shutil.rmtree(home, ignore_errors=True)
    try:
        venv.create(home, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, OSError) as problem:
        raise ToolMissing("this Python cannot make virtual environments", hint="apt install python3-venv") from problem


def follow(argv: Sequence[str], env: Mapping[str, str], hear: Callable[[str], None]) -> int:
    """Run a process to its end, hearing every line it prints; its exit code."""
    with subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            hear(line.rstrip())
    return process.returncode


def asks(argv: Sequence[str]) -> int | None:
    """The exit code of a quick question to another program; None when it cannot be asked."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode

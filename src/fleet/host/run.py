"""Other people's programs, run to their end."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from fleet.core import FleetError, ToolMissing
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host.leaving import ends_with_us

LIMIT = 256 * 1024 * 1024
GRACE = 2.0
PATIENCE = 3.0  # seconds after which it is asked why a program would never end
TICK = 0.1
PASSWORD = re.compile(r"//[^/@\s]+@")  # in an address
OPENS_PIPE = "wait_for_partner"
FOR_EVER = float("inf")
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_MEMORY = 2 * 1024**3  # bytes, for a program that reads what strangers wrote
CANNOT = 126  # what shells say of a program that is there and cannot be run


_listeners: list[Callable[[str], None]] = []
stopping = threading.Event()  # set once this process is on its way out: whatever takes long gives up


def unwind_when_told() -> None:
    """From now on SIGTERM and SIGHUP end us as Ctrl-C does, by unwinding: what we have started ends with us."""
    if threading.current_thread() is not threading.main_thread():
        return
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    for sign, handler in usual.items():
        if signal.getsignal(sign) == handler:  # one that is ignored, as under nohup, stays so
            signal.signal(sign, _unwind)


class _Told:
    """What a signal told us, and whether that has to wait: a program is being started, and nobody could end it yet."""

    number = 0
    waits = False


def _unwind(number: int, frame: object) -> None:
    _Told.number = number
    if not _Told.waits:
        _heed()


def _heed() -> None:
    """Unwind, if we were told to; signals are the main thread's business."""
    if threading.current_thread() is threading.main_thread():
        number, _Told.number, _Told.waits = _Told.number, 0, False
        if number:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _start(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """A program, started. What signals tell us from now on waits until somebody who can end it heeds them."""
    if threading.current_thread() is threading.main_thread():
        _Told.waits = True
    try:
        return subprocess.Popen(argv, **how)
    except BaseException:
        _heed()
        raise


def listen(hear: Callable[[str], None]) -> None:
    """Tell of every program that is run from now on. What is in its environment or its input is never told."""
    _listeners[:] = [hear]


def tell(argv: Sequence[str], began: float, code: int | None) -> None:
    """Say that a program was run, to whoever listens; without a code it goes on by itself."""
    for hear in _listeners:
        ended = "started" if code is None else f"exit {code}, {time.monotonic() - began:.3f} s"
        hear(f"{clean(PASSWORD.sub('//…@', shlex.join(argv)), 1000)}  ({ended})")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. Output beyond the limit was thrown away; one that timed out was killed."""

    code: int
    out: bytes
    err: bytes
    timed_out: bool = False
    waits: str = ""  # why it would never have ended, or not in time

    @property
    def said(self) -> str:
        """What it complained about, for people."""
        return (self.err.strip() or self.out.strip()).decode(errors="replace")


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    limit: int = LIMIT,
    keep: Sequence[int] = (),
    doubt: Callable[[], str] | None = None,
    wary: bool = False,
) -> Ran:
    """Run a program without a terminal; after the time limit it is ended with everything it started in its group.

    What it is to keep open, such as a lock, is still open when we are gone and it is not. Of one that takes long it is
    asked once why it would never end: with a reason, its time is up. Be wary of one that reads what strangers wrote: it
    gets only so much memory, and ends with us.
    """
    began = time.monotonic()
    try:
        process = _start(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=keep,
        )
    except OSError as problem:
        return _not_started(argv[0], problem)
    with process, ends_with_us(process) if wary else nullcontext():
        pump, in_time, reason = _Pump(process, stdin, limit, wary=wary), False, ""
        try:
            _heed()
            in_time = pump.until(began + min(timeout, PATIENCE))
            if not in_time and not pump.is_greedy:
                reason = (doubt() if doubt else "") or (_waits(argv[0], process.pid) if wary else "")
                in_time = not reason and pump.until(began + timeout)
            if pump.is_greedy:
                reason = f"{argv[0]} needs more than {MOST_MEMORY // 1024**2} MB of memory for it"
        finally:  # too late, or we were told to stop: in its own session it would never hear of that
            if not in_time:
                end_group(process)
            pump.close()
    tell(argv, began, process.returncode)
    return Ran(process.returncode, bytes(pump.out), bytes(pump.err), timed_out=not in_time, waits=reason)


def is_greedy(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program takes more memory than one should that reads what strangers wrote; False where nobody knows."""
    try:
        _, resident, mapped, *_ = map(int, Path(f"/proc/{process.pid}/statm").read_bytes().split())
    except (OSError, ValueError):
        return False
    return (resident - mapped) * PAGE > MOST_MEMORY  # without the files that it reads


def _waits(name: str, pid: int) -> str:
    """Why a program would never end that opened a pipe with nobody at its other end, as far as the kernel says."""
    with suppress(OSError):
        if Path(f"/proc/{pid}/wchan").read_text() == OPENS_PIPE:
            return f"{name} waits for a pipe that stands where a file should be"
    return ""


def hear(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run a program on our own terminal, for as long as it likes, and keep what it prints on stdout."""
    began = time.monotonic()
    try:
        done = subprocess.run(argv, cwd=cwd, env=dict(env), stdout=subprocess.PIPE, check=False)
    except OSError as problem:
        return _not_started(argv[0], problem)
    tell(argv, began, done.returncode)
    return Ran(done.returncode, done.stdout, b"")


def become(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> NoReturn:
    """Turn this process into another program: its exit code, its output and its signals are its own."""
    try:
        os.chdir(cwd)
    except OSError as problem:
        where = clean(str(cwd))
        raise FleetError(f"{where} cannot be entered: {problem.strerror}", hint=f"ls -lad {where}") from problem
    tell(argv, time.monotonic(), None)
    try:
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - no shell is wanted
    except FileNotFoundError as problem:
        raise ToolMissing(f"{argv[0]} is not installed") from problem
    except OSError as problem:
        name = clean(argv[0])
        raise FleetError(f"{name} cannot be run: {problem.strerror}", hint=f"ls -la {name}") from problem


class _Pump:
    """Moves bytes between us and a process, none of which can make us wait or fill our memory."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int, *, wary: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._left = memoryview(stdin)
        self._limit = limit
        self._looked = time.monotonic() if wary else FOR_EVER
        self.is_greedy = False
        self.out, self.err = bytearray(), bytearray()
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(process.stdout, selectors.EVENT_READ, self.out)
        self._pipes.register(process.stderr, selectors.EVENT_READ, self.err)
        if stdin:
            os.set_blocking(process.stdin.fileno(), False)
            self._pipes.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()

    def until(self, deadline: float) -> bool:
        """Whether the process ended in time. What it started may hold the pipes for longer; that is not waited for."""
        while self._pipes.get_map():
            now = time.monotonic()
            if now - self._looked > TICK:
                self._looked, self.is_greedy = now, is_greedy(self._process)
            left = deadline - now
            if left <= 0 or self.is_greedy:
                return False
            ready = self._pipes.select(min(left, TICK))
            for key, _ in ready:
                self._move(key)
            if not ready and self._process.poll() is not None:
                self._drain(deadline)
                return True
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        return self._process.poll() is not None

    def _drain(self, deadline: float) -> None:
        """Take what came in between: on a busy machine a process writes and ends after we looked for its output, and
        before we looked whether it lives.
        """
        while time.monotonic() < deadline and (ready := self._pipes.select(0)):
            for key, _ in ready:
                self._move(key)

    def close(self) -> None:
        self._pipes.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def _move(self, key: selectors.SelectorKey) -> None:
        pipe = key.fileobj
        assert not isinstance(pipe, int)
        done = self._read(key) if key.events & selectors.EVENT_READ else self._write(key)
        if done:
            self._pipes.unregister(pipe)
            with suppress(OSError):
                _pipe(pipe).close()

    def _read(self, key: selectors.SelectorKey) -> bool:
        chunk = os.read(key.fd, 65536)
        kept: bytearray = key.data
        kept += chunk[: max(0, self._limit - len(kept))]
        return not chunk

    def _write(self, key: selectors.SelectorKey) -> bool:
        try:
            self._left = self._left[os.write(key.fd, self._left[:65536]) :]
        except OSError:  # it does not want to read any more
            return True
        return not self._left


def _pipe(pipe: object) -> IO[bytes]:
    return pipe  # type: ignore[return-value]


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask a child and its group to end, then make them."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _not_started(program: str, problem: OSError) -> Ran:
    if isinstance(problem, FileNotFoundError) and problem.filename == program:
        raise ToolMissing(f"{program} is not installed") from problem
    return Ran(CANNOT, b"", str(problem).encode(errors="replace"))

"""The supervisor's hold on a keeper: start one, find one again, hear from it, tell it to stop."""

from __future__ import annotations

import marshal
import os
import signal
import stat
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from fleet.host import files, locks, process
from fleet.keeper.base import Exit, Fence, Start
from fleet.keeper.joined import PROGRAM, program

if TYPE_CHECKING:
    from fleet.keeper.program.spec import FenceSpec

LOCK, EVENTS, CONTROL, SPEC, DRAFT, RECORD = "lock", "events", "control", "spec", ".exit.json", "exit.json"
REAP = 0.5
EXIT = msgspec.json.Decoder(Exit)  # made once, here: msgspec crashes when two threads need it first at the same time


class Hold:
    """One attempt's keeper as seen from outside: it is alive, or over, or lost."""

    def __init__(self, directory: Path, events: int | None = None, child: process.Child | None = None) -> None:
        self.directory = directory
        self._events, self._child = events, child
        self._gone = events is None
        self._exit: Exit | None = None

    @property
    def exit(self) -> Exit | None:
        """How the agent ended, once it has."""
        if self._exit is None:
            self._exit = _read_exit(self.directory)
        return self._exit

    @property
    def alive(self) -> bool:
        """Whether the keeper runs."""
        return not self._gone and locks.held(self.directory / LOCK)

    @property
    def lost(self) -> bool:
        """Whether the keeper died without saying how the agent ended; it may have left strays."""
        return not self.alive and self.exit is None

    async def changed(self) -> bool:
        """Wait for news: True when there may be more output, False once the keeper is gone and the exit is final.

        One may wait at a time: what one has heard, another does not hear.
        """
        while not self._gone:
            if self._heard():
                return True
            if not self._gone:
                await self._readable()
        return False

    def abort(self) -> bool:
        """Tell the keeper to end the agent; False when there is no keeper."""
        return abort(self.directory)

    def close(self) -> None:
        """Let go of the keeper, which goes on without us. Nobody may be waiting for it."""
        if self._events is not None:
            os.close(self._events)
            self._events = None
        if self._child is not None:
            process.let_go(self._child)
            self._child = None

    def _heard(self) -> bool:
        """Whether there is news; the end of it means that the keeper is gone."""
        try:
            news = os.read(self._descriptor(), 64 * 1024)
        except BlockingIOError:
            return False
        if not news:
            self._gone = True
            if self._child is not None:
                process.ended(self._child, within=REAP)  # its end is closed, so it is all but buried
            self.close()
        return bool(news)

    async def _readable(self) -> None:
        import asyncio  # only a supervisor waits; everybody else starts faster without it

        loop, readable, events = asyncio.get_running_loop(), asyncio.Event(), self._descriptor()
        loop.add_reader(events, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(events)

    def _descriptor(self) -> int:
        if self._events is None:
            raise ValueError("this hold is closed")
        return self._events


def hold(directory: Path, start: Start) -> Hold:
    """Start an agent under a keeper, unless this directory has had one: that is found again, whatever became of it.

    The lock is held from before the keeper starts until after it has written the exit record, without a gap. So of any
    number of calls, at once or after a crash, one starts the agent. OSError means that nothing was started.
    """
    return adopt(directory) or _start(files.private_dir(directory), start)


def in_terminal(directory: Path, start: Start) -> tuple[str, ...]:
    """The command that keeps an agent in the terminal it is started in; what it is to start is written down for it.

    Standard input and the limits of output are not for an agent in a terminal. Of several that are started for this
    directory, at once or after a crash, one starts the agent; the others end.
    """
    if adopt(directory) is None:
        files.write(files.private_dir(directory) / SPEC, _spec(start), files.PRIVATE)
    return (sys.executable, "-I", "-S", program(), str(directory), "terminal")


def adopt(directory: Path) -> Hold | None:
    """The keeper that was started for this directory, alive, over or lost; None when there never was one."""
    events = _open_pipe(directory / EVENTS, os.O_RDONLY)
    if events is not None:
        found = Hold(directory, events)
        if found.alive:
            return found
        found.close()
    return Hold(directory) if _begun(directory) else None


def _start(directory: Path, start: Start) -> Hold:
    with ExitStack() as ours:
        events, control = (_make_pipe(directory / name, ours) for name in (EVENTS, CONTROL))
        lock = locks.take(directory / LOCK)
        if lock is None:  # somebody else was faster
            return adopt(directory) or Hold(directory)
        ours.callback(locks.release, lock)
        if _begun(directory):  # and has even finished
            return Hold(directory)
        listening = os.open(directory / EVENTS, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return Hold(directory, listening, _spawn(directory, start, (lock, events, control)))
        except BaseException:
            os.close(listening)
            raise


def is_alive(directory: Path) -> bool:
    """Whether a keeper runs for this directory."""
    return locks.held(directory / LOCK)


def forget(directory: Path) -> None:
    """Remove what was written down for a keeper that never came: the variables of its agent are in it."""
    with suppress(OSError):
        (directory / SPEC).unlink()


def rouse(directory: Path, *, finally_end: bool = False) -> int:
    """Let a keeper go on that somebody stopped, or end one that never answers; how many there were."""
    found = process.started_with(f"{PROGRAM.stem}.", str(directory)) if is_alive(directory) else []
    for one in found:
        one.send(signal.SIGKILL if finally_end else signal.SIGCONT)
    return len(found)


def abort(directory: Path) -> bool:
    """Tell the keeper of this directory to end its agent, from any process; False when there is no keeper."""
    control = _open_pipe(directory / CONTROL, os.O_WRONLY)
    if control is None:
        return False
    try:
        os.write(control, b"a")
    except BlockingIOError:
        return True  # it was told so often that it has not read it all yet
    except BrokenPipeError:
        return False
    finally:
        os.close(control)
    return True


def _begun(directory: Path) -> bool:
    """Whether a keeper came as far as to start an agent; it reserves its record before."""
    return (directory / RECORD).exists() or (directory / DRAFT).exists()


def _open_pipe(path: Path, way: int) -> int | None:
    """Our end of a named pipe; None when it has no other end. An agent can put anything in its place."""
    try:
        fd = os.open(path, way | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno in locks.EXHAUSTED:
            raise
        return None
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _make_pipe(path: Path, ours: ExitStack) -> int:
    """Both ends of a named pipe: whoever looks meanwhile sees that somebody is there."""
    with suppress(FileExistsError):
        os.mkfifo(path, files.PRIVATE)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    ours.callback(os.close, fd)
    return fd


def _spawn(directory: Path, start: Start, keep: tuple[int, int, int]) -> process.Child:
    files.write(directory / "stdin", start.stdin.encode(errors="replace"), files.PRIVATE)
    files.write(directory / SPEC, _spec(start), files.PRIVATE)
    argv = [sys.executable, "-I", "-S", program(), str(directory), *map(str, keep)]
    return process.detach(argv, {}, directory / "keeper.err", *keep)


def _spec(start: Start) -> bytes:
    """The start as the keeper reads it, in the one format that it can read without importing anything."""
    return marshal.dumps(
        {
            "argv": [_bytes(word) for word in start.argv],
            "env": {_bytes(name): _bytes(value) for name, value in start.env.items()},
            "cwd": os.fsencode(start.cwd),
            "timeout": float(start.timeout),
            "output": start.output,
            "line": start.line,
            "interrupt": float(start.interrupt),
            "terminate": float(start.terminate),
            "dead_man": float(start.dead_man),
            "supervisor_lock": os.fsencode(start.supervisor_lock),
            "fence": _fence(start.fence) if start.fence else None,
        }
    )


def fence_fault(hidden: Path) -> str | None:
    """Why no fence can be made on this machine; None when one can. A child of ours tries, and is gone."""
    from fleet.keeper.program.fence import Unfenced, enclose

    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enclose(cast("FenceSpec", _fence(Fence(hidden=(hidden,), network=False))), b"/")
        except (Unfenced, OSError) as problem:
            os.write(told, str(problem).encode(errors="replace")[:1000] or b"unknown")
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    with open(heard, "rb") as said:
        return said.read().decode(errors="replace") or None


def _fence(fence: Fence) -> dict[str, object]:
    names = ("hidden", "shown", "guarded", "writable", "read_only")
    paths: dict[str, tuple[Path, ...]] = {name: getattr(fence, name) for name in names}
    return {name: [os.fsencode(path.absolute()) for path in some] for name, some in paths.items()} | {
        "apart": os.fsencode(fence.apart.absolute()) if fence.apart else b"",
        "network": fence.network,
        "required": fence.required,
        "label": fence.label.encode(),
    }


def _bytes(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode(errors="replace")  # half a character, as JSON can carry it


def _read_exit(directory: Path) -> Exit | None:
    try:
        return EXIT.decode(files.read(directory / RECORD) or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    except OSError as problem:
        if problem.errno in locks.EXHAUSTED:
            raise
        return None

"""Child processes: started with nothing they do not need, ended by their number and seen to be gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import pairwise
from pathlib import Path

from fleet.core import ToolMissing
from fleet.core.frozen import dataclass
from fleet.host.run import tell

GRACE = 15.0
SWEEP = 5.0
Child = subprocess.Popen[bytes]
_unreaped: list[Child] = []


def detach(argv: Sequence[str], env: Mapping[str, str], log: Path, *keep: int) -> Child:
    """Start a process that outlives us, in a session of its own; it writes to the log and inherits descriptors."""
    _reap()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    tell(argv, 0.0, None)
    try:
        return subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            pass_fds=keep,
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


def let_go(process: Child) -> None:
    """Wait no more for a process; once it has ended, the next start or letting go buries it."""
    _unreaped.append(process)
    _reap()


def _reap() -> None:
    for child in list(_unreaped):
        if child.poll() is not None:
            with suppress(ValueError):  # another thread was here at the same time
                _unreaped.remove(child)


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
        import venv  # for the few who make one

        venv.create(home, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, OSError) as problem:
        raise ToolMissing("this Python cannot make virtual environments", hint="apt install python3-venv") from problem


def follow(argv: Sequence[str], env: Mapping[str, str], hear: Callable[[str], None]) -> int:
    """Run a process to its end, hearing every line it prints; its exit code."""
    began = time.monotonic()
    with subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            hear(line.rstrip())
    tell(argv, began, process.returncode)
    return process.returncode


def asks(argv: Sequence[str]) -> int | None:
    """The exit code of a quick question to another program; None when it cannot be asked."""
    began = time.monotonic()
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    tell(argv, began, done.returncode)
    return done.returncode


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told by its birth from a later one with the same number."""

    pid: int
    born: str
    parent: int = field(compare=False)

    def send(self, sign: signal.Signals) -> None:
        """Signal it, unless it is gone; its number may be somebody else's by now."""
        handle = _handle(self.pid)
        try:
            if _look(self.pid) != self:
                return
            if handle is None:
                os.kill(self.pid, sign)
            else:
                signal.pidfd_send_signal(handle, sign)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            if handle is not None:
                os.close(handle)


def started_with(script: str, argument: str) -> list[Process]:
    """The living processes of this user that run a script of such a name, with exactly this as its first argument."""
    wanted, begins = os.fsencode(argument), os.fsencode(script)

    def is_one(words: Sequence[bytes]) -> bool:
        return any(after == wanted and os.path.basename(word).startswith(begins) for word, after in pairwise(words))

    return [process for process in _everything() if is_one(_arguments(process.pid))]


def mentioning(text: str) -> list[Process]:
    """The living processes of this user that have a text in their command line or in what they were started with."""
    wanted = os.fsencode(text)

    def mentions(pid: int) -> bool:
        return any(wanted in word for word in (*_arguments(pid), *_environment(pid)))

    return [process for process in _everything() if process.pid != os.getpid() and mentions(process.pid)]


def arguments(pid: int) -> list[str]:
    """The command line of a living process of this user, as words."""
    return [os.fsdecode(word) for word in _arguments(pid)]


def variable(pid: int, name: str) -> str | None:
    """What a variable was in the environment that a process of this user was started with."""
    found = (os.fsdecode(entry).partition("=") for entry in _environment(pid))
    return next((value for key, _, value in found if key == name), None)


def _arguments(pid: int) -> list[bytes]:
    place = Path(f"/proc/{pid}")
    try:
        return (place / "cmdline").read_bytes().split(b"\0") if place.stat().st_uid == os.geteuid() else []
    except OSError:
        return []


def label(marks: Mapping[str, str]) -> str:
    """What a fence is called whose processes have these environment entries: they may forget those, and not this."""
    from hashlib import sha256  # only for those who start agents, or look for strays

    text = "\0".join(sorted(f"{name}={value}" for name, value in marks.items()))
    return f"fleet-{sha256(text.encode(errors='surrogateescape')).hexdigest()[:24]}"


def strays(marks: Mapping[str, str]) -> list[int]:
    """The numbers of all living processes that were started with these environment entries, or in the fence of those
    that were, or come from such a one.
    """
    return [process.pid for process in _marked(marks)]


def sweep(marks: Mapping[str, str], within: float = SWEEP) -> int:
    """End all strays; how many there were.

    Blocks until they are gone, which is soon; reads the environment of every process of this user.
    """
    return end_all(lambda: _marked(marks), within)


def end_all(find: Callable[[], list[Process]], within: float = SWEEP) -> int:
    """End whoever is found, until nobody is: stopped first, since what is stopped cannot fork; how many there were."""
    stopped: set[Process] = set()
    deadline = time.monotonic() + within
    while (found := find()) and time.monotonic() < deadline:
        fresh = [process for process in found if process not in stopped]
        for process in fresh or found:
            process.send(signal.SIGSTOP if fresh else signal.SIGKILL)
        stopped.update(fresh)
        if not fresh:
            time.sleep(0.01)
    return len(stopped)


def _marked(marks: Mapping[str, str]) -> list[Process]:
    entries = {os.fsencode(f"{name}={value}") for name, value in marks.items()}
    everything = _everything()
    fence = label(marks).encode()
    roots = [
        process
        for process in everything
        if entries and (entries <= _environment(process.pid) or _is_fenced(process.pid, fence))
    ]
    return [process for process in _with_descendants(roots, everything) if process.pid != os.getpid()]


def _is_fenced(pid: int, fence: bytes) -> bool:
    """Whether a process lives in a fence of this name. Most live where we do, and need no closer look."""
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            return False
        return b" - tmpfs " + fence + b" " in Path(f"/proc/{pid}/mountinfo").read_bytes()
    except OSError:
        return False  # it is gone, or another user's


def _with_descendants(roots: Sequence[Process], everything: Sequence[Process]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process)
    found = dict.fromkeys(roots)
    waiting = list(found)
    for process in waiting:
        fresh = [child for child in children.get(process.pid, ()) if child not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return waiting


@dataclass(frozen=True, slots=True)
class Tree:
    """What a process and all below it use at one moment: bytes in memory, seconds of a core since it began.

    What several processes share in memory counts for each. Those that have ended count with the time they took.
    """

    processes: int
    memory: int
    cpu: float
    age: float
    at: float

    @property
    def share(self) -> float:
        """How much of one core it took in its whole life; more than one core is more than 1."""
        return self.cpu / self.age if self.age > 0 else 0.0

    def share_since(self, earlier: Tree) -> float:
        """How much of one core it took between two looks, which is what it does now."""
        passed = self.at - earlier.at
        return max(0.0, self.cpu - earlier.cpu) / passed if passed > 0 else 0.0


def facts(pids: Iterable[int]) -> dict[int, Tree]:
    """What the trees below these processes use, in one pass over all processes; without those that are gone.

    Empty where the system does not list its processes as files.
    """
    if not (wanted := list(pids)):
        return {}
    now = time.monotonic()
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else now
    found = table()
    families = children(found)
    return {pid: _add_up(below(pid, families), found, uptime, now) for pid in wanted if pid in found}


def table() -> dict[int, list[bytes]]:
    """What the kernel says of every living process, by its number: its state, its parent, and so on."""
    return {pid: fields for pid in _numbers() if (fields := _stat(pid)) is not None}


def children(found: Mapping[int, Sequence[bytes]]) -> dict[int, list[int]]:
    families: dict[int, list[int]] = {}
    for pid, fields in found.items():
        families.setdefault(int(fields[1]), []).append(pid)
    return families


def below(pid: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    """A process and all that comes from it."""
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def _add_up(tree: Sequence[int], found: Mapping[int, Sequence[bytes]], uptime: float, now: float) -> Tree:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = sum(int(field) for pid in tree for field in found[pid][11:15]) / ticks  # its own, and of the ended below it
    memory = sum(int(found[pid][21]) for pid in tree) * page
    return Tree(len(tree), memory, cpu, uptime - int(found[tree[0]][19]) / ticks, now)


def _everything() -> list[Process]:
    """All living processes, where the system lists them as files."""
    return [process for process in map(_look, _numbers()) if process is not None]


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _look(pid: int) -> Process | None:
    """The process that has this number now; None when there is none, or only its remains."""
    fields = _stat(pid)
    return Process(pid, fields[19].decode(), int(fields[1])) if fields else None


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped a process, by a signal or a debugger: it lives, and does nothing."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def _stat(pid: int) -> list[bytes] | None:
    """What the kernel says of a living process, from its state on, which its own name cannot disturb."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        fields = os.read(fd, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(fd)
    return fields if fields and fields[0] not in (b"Z", b"X") else None


def _environment(pid: int) -> set[bytes]:
    """What a process of this user was started with."""
    place = Path(f"/proc/{pid}")
    try:
        return set((place / "environ").read_bytes().split(b"\0")) if place.stat().st_uid == os.geteuid() else set()
    except OSError:
        return set()


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # not every system, kernel and sandbox has them

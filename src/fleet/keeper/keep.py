"""The keeper: one small process that owns one agent's process tree, whatever becomes of the supervisor.

Run as: python -I -S keep.py <attempt directory> <lock fd> <events fd> <control fd>
    or: python -I -S keep.py <attempt directory> terminal    as the first process of a terminal, which the agent gets

It is a program, not a module: nothing imports it, and it imports nothing of fleet. Hundreds may run at once, so imports
are counted in megabytes and milliseconds: json, signal, subprocess or pathlib would each cost more than all of this.
"""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
    from typing import NoReturn, TypedDict

    class FenceSpec(TypedDict):
        hidden: list[bytes]
        shown: list[bytes]
        guarded: list[bytes]
        writable: list[bytes]
        read_only: list[bytes]
        apart: bytes
        network: bool
        required: bool
        label: bytes
else:
    import _signal as signal  # without the enums around it, which are a third of the start-up time

DRAFT = ".exit.json"
CHUNK = 64 * 1024
STDERR_LIMIT = 16 * 1024 * 1024
RESERVED = 4096
ERROR_LIMIT = 500
NUDGE_PAUSE = 0.05
LEFTOVERS_PAUSE = 2.0
KILL_PAUSE, KILL_PASSES = 0.05, 40
FREEZE_PASSES = 50
LAST_DRAIN = 1.0
LAST_LOOK = 0.05
LOOK_PAUSE = 30.0
FIRST_WEIGHING, LAST_WEIGHING = 0.25, 30.0
CLAIM_PAUSE, CLAIM_TRIES = 0.02, 10
# Of a program that was cut off: no more pastes in brackets, no mouse, a cursor, plain text.
CALM = b"\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?25h\x1b[0m"
NEVER = float("inf")
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
NEW_MOUNTS, NEW_USERS, NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND, ALL_BELOW, FOLLOWS = 1, 2, 4, 32, 4096, 16384, 1 << 19
AS_THEY_WERE = NO_SUID | NO_DEVICES | 8 | 1024 | 2048  # flags that have one number for those who ask and who set them
EMPTY = b"size=1m,nr_inodes=1k,mode=0700"
SET_INTERFACE, LOOPBACK_UP = 0x8914, b"lo".ljust(16, b"\0") + (0x49).to_bytes(2, sys.byteorder).ljust(24, b"\0")
STAGES = (b"/srv", b"/mnt", b"/media")  # only root puts something there, and often nobody does
UNFENCED = "not fenced: "
LINUX = os.path.exists("/proc/self/stat")
KEYS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # what a terminal sends to those who are not in front


class NotStarted(Exception):
    """The agent never ran; the message says why."""


class Unfenced(Exception):
    """The agent cannot be kept from what it is to be kept from; the message says why."""


class Spec:
    """What the supervisor wants done."""

    def __init__(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        timeout: float,
        output: int,
        line: int,
        interrupt: float,
        terminate: float,
        dead_man: float,
        supervisor_lock: bytes,
        fence: FenceSpec | None,
    ) -> None:
        self.argv, self.env, self.cwd = argv, env, cwd
        self.timeout, self.output, self.line = timeout, output, line
        self.interrupt, self.terminate = interrupt, terminate
        self.dead_man, self.supervisor_lock = dead_man, supervisor_lock
        self.fence, self.unfenced = fence, ""
        self.is_fenced = None if fence is None else True


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


class Terminal:
    """The terminal that we were started in: the agent has it while it runs, and it is left as it was found."""

    def __init__(self) -> None:
        import termios  # only here: most keepers have no terminal

        self._set = termios.tcsetattr
        self._now, self._error, self._onward = termios.TCSANOW, termios.error, (termios.tcflow, termios.TCOON)
        self.fd = os.dup(0)
        self._found = termios.tcgetattr(self.fd)

    def stand_back(self) -> None:
        """What we say is for the attempt's directory; the terminal is the agent's."""
        nothing = os.open(os.devnull, os.O_RDWR)
        ours = os.open("keeper.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number, fd in enumerate((nothing, nothing, ours)):
            os.dup2(fd, number, inheritable=False)

    def streams(self) -> list[int]:
        return [os.dup(self.fd) for _ in range(3)]

    def environment(self) -> dict[bytes, bytes]:
        """What tells a program how to draw here. That it is tmux who draws is not its business."""
        return {name: os.environb[name] for name in (b"TERM", b"COLORTERM") if name in os.environb}

    def give(self, group: int) -> None:
        """Let a process group read keys; SIGTTOU must be ignored."""
        os.tcsetpgrp(self.fd, group)

    def go_on(self, pid: int) -> None:
        """Continue an agent that was stopped by a key, or by itself: there is no shell here that could."""
        try:
            self.give(pid)
            os.killpg(pid, signal.SIGCONT)
        except OSError:
            pass

    def take_back(self, words: str) -> None:
        """Say how it ended, on a terminal as sane as it was; it may be gone, or full."""
        try:
            self.give(os.getpgrp())
            self._set(self.fd, self._now, self._found)
            flow, onward = self._onward
            flow(self.fd, onward)
            os.set_blocking(self.fd, False)
            write_all(self.fd, CALM + b"\r\n\x1b[K" + words.encode("ascii", "replace") + b"\r\n")
            time.sleep(LAST_LOOK)  # what is still on its way when the last process ends, tmux may not see
        except (OSError, self._error):
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


def prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def read_spec() -> Spec:
    """The order, whose file is gone once it is read: it carries the agent's environment."""
    with open("spec", "rb") as file:
        spec = Spec(**marshal.load(file))  # noqa: S302 - our own file, where only we can write
    os.unlink("spec")
    return spec


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


class Keeper:
    """One agent from its start to its end: what is heard from it, and what is done about it."""

    def __init__(self, spec: Spec, events: Events, terminal: Terminal | None) -> None:
        self.spec, self.events, self.terminal = spec, events, terminal
        self.tree, self.ladder, self.scales = Tree(terminal), Ladder(), Scales()
        self.cause: str | None = None
        self.error: str | None = None
        self.started: float | None = None
        self.began = time.monotonic()
        self.leftovers = 0
        self.cancelled = self.hung_up = self.leaving = False
        self.outputs: list[Output] = []
        self.poller = select.poll()
        self.hear: dict[int, Callable[[], None]] = {}

    def start(self) -> None:
        """Start the agent, or say why it cannot be started."""
        try:
            self.tree.pid, error = self._spawn()
        except OSError as problem:
            raise NotStarted(explain(problem)) from problem
        if error:
            raise NotStarted(error)
        self.began, self.started = time.monotonic(), time.time()
        self._announce()

    def _spawn(self) -> tuple[int, str]:
        if self.terminal:
            self.spec.env.update(self.terminal.environment())
            return spawn(self.spec, self.terminal.streams(), self.terminal)
        outputs = [Output("stdout", self.spec.output, self.spec.line), Output("stderr", STDERR_LIMIT, sys.maxsize)]
        pipes = [os.pipe(), os.pipe()]
        pid, error = spawn(self.spec, [open_stdin(), pipes[0][1], pipes[1][1]])
        self.outputs = outputs
        for (fd, _), output in zip(pipes, self.outputs, strict=True):
            self._listen_to(fd, output)
        return pid, error

    def _listen_to(self, fd: int, output: Output) -> None:
        os.set_blocking(fd, False)
        output.source = fd
        self._expect(fd, lambda: self._read(output))

    def _expect(self, fd: int, hear: Callable[[], None]) -> None:
        self.hear[fd] = hear
        self.poller.register(fd, select.POLLIN)

    def _announce(self) -> None:
        facts: dict[str, object] = {"pid": self.tree.pid, "keeper": os.getpid(), "started": self.started}
        facts["fenced"] = self.spec.is_fenced
        try:
            write_whole("agent.json", encode(facts))
        except OSError:
            pass  # a full disk: strays can be found without it
        self.events.tell(b"s")

    def watch(self, control: int, wakeups: int) -> None:
        """Stay with the agent until it and all that it started are gone, or nothing more can be done about them."""
        supervisor = Supervisor(self.spec.supervisor_lock, self.spec.dead_man, self.began)
        self._expect(control, lambda: self._obey(control))
        self._expect(wakeups, lambda: self._wake(wakeups))
        while not (self.tree.empty or self.ladder.spent):
            now = time.monotonic()
            self._decide(now, supervisor)
            self.ladder.climb(now)
            self.scales.weigh(now)
            self.events.flush(now)
            self._wait(now, supervisor)
        self._drain()

    def _decide(self, now: float, supervisor: Supervisor) -> None:
        if self.leaving:
            return
        if self.tree.status is not None:
            self._leave(now)
        elif self.cause is None:
            self.cause = self._reason_to_end(now, supervisor)
            if self.cause is not None:
                self.ladder.begin(self._whole_ladder(), now)

    def _reason_to_end(self, now: float, supervisor: Supervisor) -> str | None:
        if self.cancelled:
            return "cancelled"
        if self.hung_up:
            return "terminal closed"
        if self._is_full():
            return "output limit"
        if now >= self.began + self.spec.timeout:
            return "timed out"
        return "abandoned" if supervisor.missing(now) else None

    def _is_full(self) -> bool:
        return bool(self.outputs) and self.outputs[0].full

    def _leave(self, now: float) -> None:
        """The agent itself is gone: what it left behind gets a short time to end."""
        self.leaving = True
        self.leftovers = len(self.tree.living())
        self.ladder.begin([(self.tree.terminate, LEFTOVERS_PAUSE), *self._kills()], now)

    def _whole_ladder(self) -> list[tuple[Callable[[], None], float]]:
        interrupt = [(self.tree.interrupt, self.spec.interrupt)]
        return [*([] if self.hung_up else interrupt), (self.tree.terminate, self.spec.terminate), *self._kills()]

    def _kills(self) -> list[tuple[Callable[[], None], float]]:
        return [(self._kill, KILL_PAUSE)] * KILL_PASSES

    def _kill(self) -> None:
        self.leaving = True  # an agent that is killed leaves nothing behind by its own doing
        self.tree.kill()

    def _wait(self, now: float, supervisor: Supervisor) -> None:
        """Sleep until something is heard or something is due."""
        due = [self.ladder.due, self.events.due, self.scales.due]
        if self.cause is None and self.tree.status is None:
            due += [self.began + self.spec.timeout, supervisor.due]
        pause = min(60.0, max(0.0, min(due) - now))
        for fd, _ in self.poller.poll(pause * 1000):
            self.hear[fd]()

    def _read(self, output: Output) -> None:
        if output.fill():
            self.events.nudge(time.monotonic())
        elif output.ended:
            self.poller.unregister(output.source)
            os.close(output.source)

    def _obey(self, control: int) -> None:
        if b"a" in os.read(control, CHUNK):
            self.cancelled = True

    def _wake(self, wakeups: int) -> None:
        heard = os.read(wakeups, CHUNK)
        self.cancelled = self.cancelled or signal.SIGTERM in heard
        self.hung_up = self.hung_up or signal.SIGHUP in heard
        self.tree.reap()

    def _drain(self) -> None:
        """Take what still lies in the pipes; end of file is never waited for, since a survivor may hold them open."""
        deadline = time.monotonic() + LAST_DRAIN
        for output in self.outputs:
            while not output.ended and time.monotonic() < deadline and output.fill():
                self.events.nudge(0.0)
        self.events.flush(NEVER)

    def facts(self) -> dict[str, object]:
        """The exit record."""
        code = None if self.tree.status is None else os.waitstatus_to_exitcode(self.tree.status)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = self.started is not None
        return {
            "cause": self.cause or self._own_end(),
            "code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "error": self.error,
            "started": self.started,
            "ended": time.time(),
            "wall": time.monotonic() - self.began if ran else 0.0,
            "cpu": used.ru_utime + used.ru_stime,
            "memory": max(self.scales.most, used.ru_maxrss * (1024 if LINUX else 1)),
            "stdout": self.outputs[0].kept if self.outputs else 0,
            "stderr": self.outputs[1].kept if self.outputs else 0,
            "dropped": sum(output.dropped for output in self.outputs),
            "leftovers": self.leftovers,
            "survivors": 0 if self.tree.empty or not ran else len(self.tree.living()),
            "pid": self.tree.pid if ran else None,
            "fenced": self.spec.is_fenced if ran else None,
            "unfenced": self.spec.unfenced or None,
        }

    def _own_end(self) -> str:
        """Why an agent ended that nobody ended. One whose terminal is closed may be faster than we are."""
        if self.hung_up:
            return "terminal closed"
        return "output limit" if self._is_full() else "exited"

    def last_words(self) -> str:
        """How it ended, for whoever looks at the terminal."""
        if self.error:
            return "fleet: it was not started: " + "".join(c if c.isprintable() else "?" for c in self.error)
        code = None if self.tree.status is None else os.waitstatus_to_exitcode(self.tree.status)
        how = "" if code is None else f" with {code}" if code >= 0 else f", by signal {-code}"
        return f"fleet: it ended: {self.cause or self._own_end()}{how}"


class Ladder:
    """Steps that end a tree, each followed by a pause in which it may end by itself."""

    def __init__(self) -> None:
        self.due = NEVER
        self.spent = False
        self._steps: Iterable[tuple[Callable[[], None], float]] = ()

    def begin(self, steps: list[tuple[Callable[[], None], float]], now: float) -> None:
        self._steps, self.due = iter(steps), now

    def climb(self, now: float) -> None:
        """Take the next step, once the pause after the last one is over."""
        if now < self.due:
            return
        for act, pause in self._steps:
            act()
            self.due = now + pause
            return
        self.spent = True


class Scales:
    """The most memory that all processes of the agent had at a time, looked at now and then, and ever more seldom."""

    def __init__(self) -> None:
        self.most = 0
        self.due = 0.0 if LINUX else NEVER
        self._pause = FIRST_WEIGHING

    def weigh(self, now: float) -> None:
        if now < self.due:
            return
        self.most = max(self.most, weight())
        self.due = now + self._pause
        self._pause = min(LAST_WEIGHING, 2 * self._pause)


def weight() -> int:
    """Bytes that everything below us has in memory; what several share counts for each."""
    pages, waiting = 0, children(os.getpid())
    for pid in waiting:
        waiting += children(pid)
        pages += int((read_file(f"/proc/{pid}/statm").split() or [b"0", b"0"])[1])
    return pages * resource.getpagesize()


def children(pid: int) -> list[int]:
    """The children of a process, each of which belongs to the thread that made it."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in read_file(f"/proc/{pid}/task/{thread}/children").split()]


def read_file(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.read(fd, CHUNK)
        finally:
            os.close(fd)
    except OSError:
        return b""


class Events:
    """The way to tell the supervisor that there is something to look at. It may be deaf, dead or slow."""

    def __init__(self, fd: int) -> None:
        self.due = NEVER
        self._fd, self._last = fd, -NEVER

    def tell(self, what: bytes) -> None:
        try:
            os.write(self._fd, what)
        except BlockingIOError:
            pass  # so much lies there unread that one byte more would say nothing new

    def nudge(self, now: float) -> None:
        """Tell of new output soon: a chatty agent does not make a busy supervisor."""
        self.due = min(self.due, max(now, self._last + NUDGE_PAUSE))

    def flush(self, now: float) -> None:
        if self.due <= now:
            self.tell(b"o")
            self.due, self._last = NEVER, now


class Supervisor:
    """Whether anybody holds the supervisor's lock, looked at now and then."""

    def __init__(self, lock: bytes, patience: float, now: float) -> None:
        self._lock, self._patience, self._seen = lock, patience, now
        self._pause = max(0.01, min(LOOK_PAUSE, patience / 4))
        self.due = now + self._pause

    def missing(self, now: float) -> bool:
        """Whether there has been none for as long as we are to wait."""
        if now >= self.due:
            self.due = now + self._pause
            if held(self._lock):
                self._seen = now
        return now - self._seen >= self._patience


def held(lock: bytes) -> bool:
    try:
        fd = os.open(lock, os.O_RDONLY)
    except OSError as problem:
        return problem.errno not in (errno.ENOENT, errno.ENOTDIR)  # not being able to look is no proof of absence
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class Output:
    """One stream of the agent on its way to the disk: each line cut to a length, the whole cut to a size.

    What does not fit or finds the disk full is dropped and counted, and the next line starts as a line of its own.
    """

    def __init__(self, name: str, limit: int, line: int) -> None:
        self.source = -1
        self.kept = self.dropped = 0
        self.full = self.ended = False
        self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._limit, self._line, self._room = limit, line, line
        self._lost = b""

    def fill(self) -> bool:
        """Move what can be read at once; False when there is nothing."""
        try:
            chunk = os.read(self.source, CHUNK)
        except BlockingIOError:
            return False
        self.ended = not chunk
        if chunk:
            self.take(chunk)
        return bool(chunk)

    def take(self, chunk: bytes) -> None:
        content = self._after_loss(self._cut_lines(chunk))
        room = self._limit - self.kept
        self.full = self.full or len(content) > room
        written = self._write(content[:room])
        self.kept += written
        self.dropped += max(0, len(chunk) - written)

    def _cut_lines(self, chunk: bytes) -> bytes:
        if len(chunk) <= self._room:
            tail = len(chunk) - chunk.rfind(b"\n") - 1
            self._room = (self._room if tail == len(chunk) else self._line) - tail
            return chunk
        first, *others = chunk.split(b"\n")
        lines = [first[: self._room], *[other[: self._line] for other in others]]
        self._room = (self._line if others else self._room) - len(lines[-1])
        return b"\n".join(lines)

    def _after_loss(self, content: bytes) -> bytes:
        """After a write that failed, begin at the next end of a line, so that no two halves become one."""
        if not self._lost or not content:
            return content
        content = self._lost + content
        end = content.find(b"\n")
        self._lost = b"" if end >= 0 else content[-1:]
        return content[end:] if end >= 0 else b""

    def _write(self, content: bytes) -> int:
        done = 0
        try:
            while done < len(content):
                done += os.write(self._file, content[done:] if done else content)
        except OSError:
            self._lost = content[-1:]
        return done


class Tree:
    """The agent and everything that comes from it.

    We are its subreaper: what loses its parent becomes our child, so having no child left means that nothing is left.
    """

    def __init__(self, terminal: Terminal | None = None) -> None:
        self.pid = 0
        self.status: int | None = None
        self.empty = self.killed = False
        self._terminal = terminal

    def reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | (os.WUNTRACED if self._terminal else 0))
                if pid == 0:
                    return
                if pid == self.pid:
                    self._note(status)
        except ChildProcessError:
            self.empty = True
        if not LINUX:
            self._group(signal.SIGKILL)  # without a subreaper, the group is all that can still be reached

    def _note(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self.status = status
        elif self._terminal and not self.killed:
            self._terminal.go_on(self.pid)

    def living(self) -> list[int]:
        return [pid for pid, (state, _) in descendants().items() if state not in b"ZX"]

    def interrupt(self) -> None:
        self._group(signal.SIGINT)

    def terminate(self) -> None:
        if not LINUX:
            self._group(signal.SIGTERM)
        for pid, (_, born) in descendants().items():
            if self._terminal:
                send(pid, born, signal.SIGHUP)  # what shells end at, which pass over the other
            send(pid, born, signal.SIGTERM)
            send(pid, born, signal.SIGCONT)  # a stopped one hears nothing else

    def kill(self) -> None:
        """Stop all of it until nothing new appears, since what is stopped cannot fork; then kill it."""
        self.killed = True
        stopped: dict[int, bytes] = {}
        for _ in range(FREEZE_PASSES):
            found = {pid: born for pid, (_, born) in descendants().items()}
            new = {pid: born for pid, born in found.items() if stopped.get(pid) != born}
            for pid, born in new.items():
                send(pid, born, signal.SIGSTOP)
            stopped |= new
            if not new:
                break
        for pid, born in stopped.items():
            send(pid, born, signal.SIGKILL)
        if not LINUX:
            self._group(signal.SIGKILL)

    def destroy(self) -> None:
        """End all of it at once, for when the keeper itself fails."""
        for _ in range(KILL_PASSES):
            self.kill()
            self.reap()
            if self.empty:
                return
            time.sleep(KILL_PAUSE)

    def _group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass


def descendants() -> dict[int, tuple[bytes, bytes]]:
    """State and birth of every process below us, parents before children."""
    children: dict[int, list[int]] = {}
    facts: dict[int, tuple[bytes, bytes]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc") if LINUX else ())):
        state, parent, born = look(pid)
        children.setdefault(parent, []).append(pid)
        facts[pid] = state, born
    found: dict[int, tuple[bytes, bytes]] = {}
    waiting = [os.getpid()]
    for parent in waiting:
        for pid in children.get(parent, ()):
            found[pid] = facts[pid]
            waiting.append(pid)
    return found


def look(pid: int) -> tuple[bytes, int, bytes]:
    """State, parent and birth of a process; nothing much when it is gone."""
    fields = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (fields[0], int(fields[1]), fields[19]) if len(fields) > 19 else (b"X", -1, b"")


def send(pid: int, born: bytes, number: int) -> None:
    """Signal a process, unless its number has become somebody else's meanwhile."""
    handle = open_handle(pid)
    try:
        if look(pid)[2] != born:
            return
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        if handle is not None:
            os.close(handle)


def open_handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # older kernels and some sandboxes have none


def open_stdin() -> int:
    try:
        return os.open("stdin", os.O_RDONLY)
    except FileNotFoundError:
        return os.open(os.devnull, os.O_RDONLY)


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


def enclose(fence: FenceSpec, cwd: bytes) -> bytes:
    """Keep this process, and all that comes from it, from what is hidden: nobody else sees a difference. Where its
    directory stands from now on.

    It is done as the master of namespaces of our own. Then we enter one more, in which we are not: what was covered
    before cannot be uncovered there, not even by root.
    """
    try:
        if not LINUX:
            raise Unfenced("it takes namespaces, which only Linux has")
        enter(NEW_USERS | NEW_MOUNTS | (0 if fence["network"] else NEW_NETWORK))
        mount(b"none", b"/", FOLLOWS | ALL_BELOW)  # what others mount comes in; nothing of ours goes out
        there = [(os.path.normpath(path), os.path.realpath(path)) for path in fence["hidden"] if os.path.isdir(path)]
        shown = [found for path in fence["shown"] for found in [find_below(os.path.normpath(path), there)] if found]
        writable = [hold_open(os.path.realpath(path)) for path in filter(os.path.exists, fence["writable"])]
        protect(fence["guarded"])  # what was opened before stays as it was
        put_back(writable)
        cover(there, fence["label"])
        put_back(shown)
        protect(fence["read_only"])
        if is_below(cwd, fence["apart"]):
            cwd = set_apart(fence["apart"], fence["label"]) + cwd[len(fence["apart"]) :]
        if not fence["network"]:
            raise_loopback()
        enter(NEW_USERS)
        return cwd
    except OSError as problem:
        raise Unfenced(explain(problem)) from problem


def enter(namespaces: int) -> None:
    """Enter new namespaces in which all are who they were, as far as we may say so. Only one who stays outside may."""
    maps = identity()
    ours = os.getpid()
    heard, told = os.pipe()
    scribe = os.fork()
    if scribe == 0:
        os.close(told)
        write_maps(ours, maps if os.read(heard, 1) else {})
    os.close(heard)
    try:
        system("unshare", namespaces)
        os.write(told, b".")
    finally:
        os.close(told)
        code = os.waitstatus_to_exitcode(os.waitpid(scribe, 0)[1])
    if code:
        raise OSError(code, os.strerror(code), "uid_map")


def identity() -> dict[str, bytes]:
    """What maps every user to itself: for root all there are, for others themselves alone."""
    if os.geteuid() != 0:
        own = {"uid_map": os.geteuid(), "gid_map": os.getegid()}
        return {"setgroups": b"deny"} | {name: b"%d %d 1" % (number, number) for name, number in own.items()}
    return {name: b"\n".join(ranges(name)) for name in ("uid_map", "gid_map")}


def ranges(name: str) -> list[bytes]:
    rows = [line.split() for line in read_file(f"/proc/self/{name}").splitlines()]
    return [b"%s %s %s" % (first, first, many) for first, _, many in rows]


def write_maps(pid: int, maps: dict[str, bytes]) -> NoReturn:
    code = 1
    try:
        for name, content in maps.items():
            fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY)
            os.write(fd, content)
            os.close(fd)
        code = 0
    except OSError as problem:
        code = problem.errno or 1
    finally:
        os._exit(code)


def cover(hidden: list[tuple[bytes, bytes]], label: bytes) -> None:
    """Put an empty directory, of that name, over each that is hidden."""
    for _, real in hidden:
        mount(label, real, NO_SUID | NO_DEVICES, b"tmpfs", EMPTY)


def set_apart(directory: bytes, label: bytes) -> bytes:
    """Let a directory stand where nobody left anything above it, and say where; if no place is free, where it was."""
    for stage in STAGES:
        if os.path.isdir(stage) and not os.path.islink(stage) and not os.listdir(stage):
            mount(label, stage, NO_SUID | NO_DEVICES, b"tmpfs", EMPTY)
            target = stage + b"/" + os.path.basename(directory)
            os.mkdir(target)
            mount(directory, target, BIND | ALL_BELOW)
            protect([stage])
            return target
    return directory


def put_back(opened: list[tuple[bytes, int]]) -> None:
    """Let what was opened stand where it stood, over all that is there by now."""
    for target, fd in opened:
        if not os.path.exists(target):
            make_room(target, is_directory=os.path.isdir(b"/proc/self/fd/%d" % fd))
        mount(b"/proc/self/fd/%d" % fd, target, BIND | ALL_BELOW)
        os.close(fd)


def find_below(path: bytes, hidden: list[tuple[bytes, bytes]]) -> tuple[bytes, int] | None:
    """Where a path stands in what is hidden, and itself, opened; None when it is not there.

    Somebody's link that leads out of there is followed; one that leads back in could show anything, and is not.
    """
    for said, real in hidden:
        target = real + path[len(said) :] if is_below(path, said) else os.path.realpath(path)
        led = os.path.realpath(target)
        if target == real:
            raise Unfenced(ascii(os.fsdecode(path)) + " is to be hidden, and to be shown")
        if is_below(target, real) and (led == target or not is_below(led, real)) and os.path.exists(led):
            return target, hold_open(led)[1]
    return None


def hold_open(path: bytes) -> tuple[bytes, int]:
    return path, os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


def is_below(path: bytes, directory: bytes) -> bool:
    return bool(directory) and (path == directory or path.startswith(directory.rstrip(b"/") + b"/"))


def make_room(target: bytes, *, is_directory: bool) -> None:
    """Something to mount upon."""
    os.makedirs(target if is_directory else os.path.dirname(target), 0o700, exist_ok=True)
    if not is_directory:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o600))


def protect(paths: list[bytes]) -> None:
    """Let nobody write to files and directories; what is mounted below one is another matter, and what is not there
    needs no protection.
    """
    for path in map(os.path.realpath, filter(os.path.exists, paths)):
        if not os.path.ismount(path):
            mount(path, path, BIND | ALL_BELOW)
        mount(b"none", path, REMOUNT | BIND | READ_ONLY | os.statvfs(path).f_flag & AS_THEY_WERE)


def raise_loopback() -> None:
    fd = system("socket", 2, 1, 0)
    try:
        fcntl.ioctl(fd, SET_INTERFACE, LOOPBACK_UP)
    finally:
        os.close(fd)


def mount(source: bytes, target: bytes, flags: int, kind: bytes | None = None, options: bytes | None = None) -> None:
    system("mount", source, target, kind, ctypes.c_ulong(flags), options, about=target)


def system(name: str, *given: object, about: bytes = b"") -> int:
    """Ask the kernel for something that Python has no word for."""
    done = getattr(ctypes.CDLL(None, use_errno=True), name)(*given)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(about) or name)
    return int(done)


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


def explain(problem: BaseException, what: str | None = None) -> str:
    if isinstance(problem, OSError) and problem.errno is not None:
        name = errno.errorcode.get(problem.errno, str(problem.errno))
        text = f"{name}: {problem.strerror}: {what or problem.filename or ''}".rstrip(": ")
    else:
        text = f"{type(problem).__name__}: {problem}"
    return text.encode("ascii", "backslashreplace").decode()[:ERROR_LIMIT]


def reserve(draft: int) -> None:
    """Take room for the exit record before the agent can fill the disk."""
    try:
        write_all(draft, b" " * RESERVED)
        os.fsync(draft)
    except OSError as problem:
        raise NotStarted(explain(problem, "no room for the exit record")) from problem


def record(draft: int, facts: dict[str, object]) -> None:
    """Put the exit record in place, whole, in the room kept for it.

    The agent is gone by now, but while it ran it could put a record of its own where ours is expected.
    """
    if not is_at(DRAFT, draft):
        write_whole("exit.json", encode(facts))
        return
    os.lseek(draft, 0, os.SEEK_SET)
    write_all(draft, encode(facts))  # the blanks after it are good JSON too
    os.fsync(draft)
    os.rename(DRAFT, "exit.json")


def is_at(name: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.lstat(name), os.fstat(fd))
    except FileNotFoundError:
        return False


def write_whole(name: str, content: bytes) -> None:
    draft = f".{name}.{os.getpid()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(fd, content)
    finally:
        os.close(fd)
    os.rename(draft, name)


def write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def encode(facts: dict[str, object]) -> bytes:
    """The facts as JSON; numbers, ASCII text and null are all there is in them."""
    return ("{" + ", ".join(f'"{name}": {encode_value(value)}' for name, value in facts.items()) + "}\n").encode()


def encode_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\u{ord(c):04x}" for c in value) + '"'


def tidy() -> None:
    """Leave the record and the output, and nothing that only served the running."""
    try:
        for name in ("events", "control", "lock"):
            os.unlink(name)
        if os.stat("keeper.err").st_size == 0:
            os.unlink("keeper.err")
    except OSError:
        pass  # the record is written: what else happens to the directory is not our business


if __name__ == "__main__":
    main()

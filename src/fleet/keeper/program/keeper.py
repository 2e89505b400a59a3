"""One agent from its start to its end."""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import os
import resource
import select
import sys
import time

from fleet.keeper.program.kernel import CHUNK, LINUX, NEVER, signal
from fleet.keeper.program.ladder import Ladder
from fleet.keeper.program.output import Output
from fleet.keeper.program.record import NotStarted, encode, explain, write_whole
from fleet.keeper.program.spawn import open_stdin, spawn
from fleet.keeper.program.supervisor import Supervisor
from fleet.keeper.program.tree import KILL_PASSES, KILL_PAUSE, Scales, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.keeper.program.spec import Spec
    from fleet.keeper.program.supervisor import Events
    from fleet.keeper.program.terminal import Terminal

STDERR_LIMIT = 16 * 1024 * 1024
LEFTOVERS_PAUSE = 2.0
LAST_DRAIN = 1.0


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

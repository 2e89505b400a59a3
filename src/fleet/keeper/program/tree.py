"""The tree of processes that comes from an agent: who is in it, what it weighs, and how all of it is reached."""
# ruff: noqa: SIM105 - contextlib is one of those that cost

from __future__ import annotations

import os
import resource
import time

from fleet.keeper.program.kernel import LINUX, NEVER, read_file, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.keeper.program.terminal import Terminal

FREEZE_PASSES = 50
KILL_PAUSE, KILL_PASSES = 0.05, 40
FIRST_WEIGHING, LAST_WEIGHING = 0.25, 30.0


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

"""What can be seen of real processes from outside: who computes, writes, sleeps, or waits at a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleet.host import process
from fleet.host.vitals import Vitals, vitals
from standins.coders.scratch import until

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system lists no processes")
PARENT = "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]); print(child.pid, flush=True); child.wait()"
POLLING = {"x86_64": ("23", "270", "232", "281")}.get(os.uname().machine, ("72", "22"))
PTY = "import pty, sys; pty.spawn(sys.argv[1:])"


@contextmanager
def tree(*argv: str) -> Iterator[int]:
    """A process, as a keeper would be, with a child that does something; all of it is ended afterwards."""
    command = [sys.executable, "-c", PARENT, *argv]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        try:
            yield parent.pid
        finally:
            for pid in [*_below(parent.pid), parent.pid]:
                with suppress(ProcessLookupError):  # some end with what they started
                    os.kill(pid, 9)


def _below(pid: int) -> list[int]:
    return process.below(pid, process.children(process.table()))[1:][::-1]


def of(pid: int) -> Vitals:
    return vitals([pid])[pid]


def grows(pid: int, what: Callable[[Vitals], float], by: float) -> bool:
    before = what(of(pid))
    return until(lambda: what(of(pid)) - before >= by)


def test_who_computes_is_seen_by_its_processor_time() -> None:
    with tree(sys.executable, "-c", "while True: pass") as pid:
        assert grows(pid, lambda seen: seen.cpu, 0.1)
        assert of(pid).reader is None


def test_who_writes_is_seen_by_its_bytes() -> None:
    with tree("dd", "if=/dev/zero", "of=/dev/null", "bs=64k") as pid:
        assert grows(pid, lambda seen: seen.io or 0, 10_000_000)


def test_who_sleeps_is_seen_to_do_nothing() -> None:
    with tree("sleep", "1000") as pid:
        until(lambda: of(pid).processes == 1 and of(pid) == of(pid))  # it is no more the shell that starts it
        first, second = of(pid), of(pid)
        assert (first.cpu, first.io, first.reader) == (second.cpu, second.io, None)


def test_who_reads_a_terminal_is_found_and_named() -> None:
    with tree(sys.executable, "-c", PTY, "sh", "-c", "read answer") as pid:
        found = until(lambda: of(pid).reader)
        assert found is not None
        assert found[1] == "sh"


KEYS = """
import os, select, sys
poll, (ours, _) = select.epoll(), os.pipe()
for one in (0, os.eventfd(0), ours): poll.register(one, select.EPOLLIN)
"""  # as an event loop does that has nothing but keys to wait for: its other descriptors are for itself alone


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ((sys.executable, "-c", "import readline; input('? ')"), "python"),
        ((sys.executable, "-c", f"{KEYS}poll.poll()"), "python"),
    ],
)
def test_who_waits_for_keys_and_nothing_else_reads_a_terminal(program: tuple[str, ...], name: str) -> None:
    with tree(sys.executable, "-c", PTY, *program) as pid:
        found = until(lambda: of(pid).reader)
        assert found is not None
        assert found[1].startswith(name)


def _polls(pid: int) -> bool:
    """Whether some process with a terminal, below this one, waits for many things at once."""
    with_terminal = [one for one in _below(pid) if process.table().get(one, [b"0"] * 5)[4] != b"0"]
    return any(Path(f"/proc/{one}/syscall").read_text().split()[0] in POLLING for one in with_terminal)


@pytest.mark.parametrize(
    "program",
    [
        ("bash", "--norc", "-i"),  # at its own prompt
        (sys.executable, "-c", f"{KEYS}poll.poll(1000)"),  # until it does something else
        (
            sys.executable,
            "-c",
            f"{KEYS}import socket; s = socket.create_server(('', 0)); poll.register(s); poll.poll()",
        ),
        (sys.executable, "-c", f"{KEYS}import subprocess; subprocess.Popen(['sleep', '1000']); poll.poll()"),
        (sys.executable, "-c", f"{KEYS}poll.unregister(0); poll.poll()"),
        (sys.executable, "-c", "import select; select.select([0], [], [], 1000)"),
    ],
)
def test_who_waits_for_something_else_too_is_not_said_to_read_a_terminal(program: tuple[str, ...]) -> None:
    with tree(sys.executable, "-c", PTY, *program) as pid:
        until(lambda: _polls(pid))
        assert of(pid).reader is None


def test_who_reads_a_pipe_does_not_read_a_terminal() -> None:
    with tree("sh", "-c", "sleep 1000 | cat") as pid:
        until(lambda: of(pid).processes >= 3)
        assert of(pid).reader is None


def test_those_who_are_gone_are_left_out() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert vitals([gone.pid]) == {}

"""What process trees do, seen from outside: the time and the bytes they took, and who waits at a terminal."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fleet.host import process

PIECE = 4096  # bytes


class Call(Enum):
    """A system call in which a process can wait for keys."""

    READ = auto()
    SELECT = auto()
    EPOLL = auto()


GENERIC = {b"63": Call.READ, b"72": Call.SELECT, b"22": Call.EPOLL}
CALLS = {  # by its number, on each machine
    "x86_64": {b"0": Call.READ, b"23": Call.SELECT, b"270": Call.SELECT, b"232": Call.EPOLL, b"281": Call.EPOLL},
    "aarch64": GENERIC,
    "riscv64": GENERIC,
}
WAITS = (b"n_tty_read", b"wait_woken", b"tty_read", b"0", b"")  # where a process sleeps that may be reading a terminal
POLLS = (b"poll_schedule", b"do_select", b"do_epoll", b"ep_poll")
SHELLS = ("bash", "zsh", "fish", "ksh", "sh", "dash")  # at a prompt of their own these wait for nobody
FOREVER = 0xFFFFFFFF
TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
MACHINE = os.uname().machine


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the processes below one have used by now. What only the ended ones wrote is gone from the bytes."""

    processes: int
    cpu: float  # seconds
    io: int | None  # bytes read and written, from a disk or not; None: the system does not say
    reader: tuple[int, str] | None = None  # the process that reads a terminal, and its name


def vitals(roots: Iterable[int]) -> dict[int, Vitals]:
    """Of everything below each of these processes, and not of these themselves; in one pass over all processes.

    Without those that are gone; empty where the system does not list its processes as files.
    """
    found = process.table()
    children = process.children(found)
    return {root: _of(process.below(root, children)[1:], found) for root in roots if root in found}


def _of(tree: Sequence[int], found: Mapping[int, Sequence[bytes]]) -> Vitals:
    ticks = os.sysconf("SC_CLK_TCK")
    cpu = sum(int(field) for pid in tree for field in found[pid][11:15]) / ticks
    counts = [count for pid in tree if (count := _io(pid)) is not None]
    parents = {found[pid][1] for pid in tree}
    readers = (pid for pid in tree if found[pid][0] == b"S" and _reads_terminal(pid, found[pid], parents))
    reader = next(readers, None)
    named = None if reader is None else (reader, _name(reader))
    return Vitals(len(tree), cpu, sum(counts) if len(counts) == len(tree) else None, named)


def _io(pid: int) -> int | None:
    """The bytes that a process has read and written; None when nobody may know."""
    lines = _read(f"/proc/{pid}/io").split(b"\n", 2)
    return int(lines[0].split()[-1]) + int(lines[1].split()[-1]) if len(lines) == 3 else None


def _reads_terminal(pid: int, stat: Sequence[bytes], parents: Collection[bytes]) -> bool:
    """Whether a process sleeps until somebody types. Of many things to wait for, all must be its own but the keys."""
    where, in_front = _read(f"/proc/{pid}/wchan"), stat[4] != b"0" and stat[2] == stat[5]
    if where not in WAITS and not (in_front and where.startswith(POLLS)):
        return False
    call = _read(f"/proc/{pid}/syscall").split()
    if not call:  # not everybody may look: then by what it would read
        return where in WAITS and _is_terminal(pid, 0)
    kind, given = CALLS.get(MACHINE, {}).get(call[0]), [int(word, 16) for word in call[1:6]]
    match kind:
        case Call.READ:
            return _is_terminal(pid, given[0])
        case Call.SELECT:
            return in_front and _selects_keys(pid, given)
        case Call.EPOLL:
            return in_front and str(pid).encode() not in parents and _polls_keys(pid, given)
        case None:
            return False


def _selects_keys(pid: int, given: Sequence[int]) -> bool:
    """Whether a process waits for descriptor 0 alone, to be read, for as long as it takes."""
    most, reads, writes, _, timeout = given
    only = most == 1 and reads and not writes and not timeout
    return bool(only) and _is_terminal(pid, 0) and _name(pid) not in SHELLS


def _polls_keys(pid: int, given: Sequence[int]) -> bool:
    """Whether an event loop waits for a terminal, for as long as it takes, and beside that for itself alone."""
    told = _read(f"/proc/{pid}/fdinfo/{given[0]}")
    if given[3] & FOREVER != FOREVER or len(told) == PIECE:  # so many are not for keys alone
        return False
    watched = [int(line.split()[1]) for line in told.splitlines() if line.startswith(b"tfd:")]
    terminals = {fd for fd in watched if _is_terminal(pid, fd)}
    return bool(terminals) and all(fd in terminals or _is_its_own(pid, fd) for fd in watched)


def _is_its_own(pid: int, fd: int) -> bool:
    """Whether only the process itself can have something to say there: it holds both ends."""
    link = _link(pid, fd)
    held = [_link(pid, int(one)) for one in _listed(f"/proc/{pid}/fd")] if link.startswith("pipe:") else []
    return link == "anon_inode:[eventfd]" or held.count(link) > 1


def _is_terminal(pid: int, fd: int) -> bool:
    return _link(pid, fd).startswith(TERMINALS)


def _link(pid: int, fd: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _name(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").strip() or "a process"


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, PIECE)
    except OSError:
        return b""
    finally:
        os.close(fd)

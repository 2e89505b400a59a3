"""What process trees do, seen from outside: the time and the bytes they took, and who waits at a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.host import process

READ = {"x86_64": b"0", "aarch64": b"63", "riscv64": b"63"}  # the number of the system call
WAITS = (b"n_tty_read", b"wait_woken", b"tty_read", b"0", b"")  # where a process sleeps that may be reading a terminal
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
    readers = (pid for pid in tree if found[pid][0] == b"S" and _reads_terminal(pid))
    reader = next(readers, None)
    named = None if reader is None else (reader, _name(reader))
    return Vitals(len(tree), cpu, sum(counts) if len(counts) == len(tree) else None, named)


def _io(pid: int) -> int | None:
    """The bytes that a process has read and written; None when nobody may know."""
    lines = _read(f"/proc/{pid}/io").split(b"\n", 2)
    return int(lines[0].split()[-1]) + int(lines[1].split()[-1]) if len(lines) == 3 else None


def _reads_terminal(pid: int) -> bool:
    """Whether a process sleeps in a read of a terminal. Who waits for many things at once is not found out."""
    if _read(f"/proc/{pid}/wchan") not in WAITS:
        return False
    call = _read(f"/proc/{pid}/syscall").split()
    if not call:  # not everybody may look: then by what it would read
        return _is_terminal(pid, 0)
    return call[0] == READ.get(MACHINE) and _is_terminal(pid, int(call[1], 16))


def _is_terminal(pid: int, fd: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}").startswith(TERMINALS)
    except OSError:
        return False


def _name(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").strip() or "a process"


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
    finally:
        os.close(fd)

"""Facts about this machine."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from fleet.host import process

# A repository's own configuration may name programs for git to run; a question must not run them.
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C")


def memory_bytes() -> int | None:
    """How much memory this machine has; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def memory() -> tuple[int | None, int | None, float | None]:
    """Bytes of memory in all and free for programs, and for how many percent of the last ten seconds somebody waited
    for memory: of this machine, or of the control group that we are in, whichever has less. None where it is not told.
    """
    total, available = memory_bytes(), None
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit is not None and used is not None:
        cached = sum(int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if "inactive_file" in line)
        total = min(total or limit, limit)
        available = min(available or limit, limit - used + cached)
    return total, available, _pressure()


def _pressure() -> float | None:
    for line in _lines("/proc/pressure/memory"):
        found = dict(part.partition("=")[::2] for part in line.split()[1:])
        with suppress(KeyError, ValueError):
            return float(found["avg10"])
    return None


def _number(path: str) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text().splitlines()
    return []


def scoped(argv: Sequence[str], most: int) -> tuple[str, ...] | None:
    """The same program in a control group of its own that may use so many bytes, swap none; None where the host offers
    none. systemd makes the group, and it is gone with its last process.
    """
    if not _has_scopes():
        return None
    if program(argv[0]) is None:
        return tuple(argv)  # so that it is said to be missing
    return (*_scope(), "-p", f"MemoryMax={most}", "-p", "MemorySwapMax=0", "--", *argv)


@cache
def _has_scopes() -> bool:
    """Whether systemd makes groups for us: it may be there and not, as for a user without a session."""
    there = Path("/run/systemd/system").is_dir() and program("systemd-run") is not None
    return there and process.asks([*_scope(), "--", "true"]) == 0


def _scope() -> tuple[str, ...]:
    whose = () if os.geteuid() == 0 else ("--user",)
    return ("systemd-run", *whose, "--scope", "--quiet", "--collect")


def allow_files(wanted: int) -> None:
    """Raise the soft limit on open files towards what is wanted; over it, waiting sockets would become a queue."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def disk(path: Path) -> tuple[int, int]:
    """Bytes free and bytes in all on the disk that holds a path."""
    usage = shutil.disk_usage(path)
    return usage.free, usage.total


def program(name: str) -> str | None:
    return shutil.which(name)


def is_ignored_by_git(path: Path) -> bool | None:
    """Whether git would leave the file out of a commit; None outside a repository, or without git."""
    code = process.asks([*GIT, str(path.parent), "check-ignore", "--quiet", path.name])
    return {0: True, 1: False}.get(code) if code is not None else None


def is_tracked_by_git(path: Path) -> bool:
    return process.asks([*GIT, str(path.parent), "ls-files", "--error-unmatch", path.name]) == 0


def why_not_listening(host: str, port: int) -> str | None:
    """Why nothing can listen on an address now; None when something can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            return problem.strerror or str(problem)
    return None


def addresses(host: str, timeout: float = 2.0) -> list[str]:
    """What a host name resolves to; nothing when it does not in time."""
    found: list[str] = []

    def look() -> None:
        with suppress(OSError):
            found.extend(str(entry[4][0]) for entry in socket.getaddrinfo(host, None))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(timeout)
    return list(found)


def listens_publicly(port: int) -> bool | None:
    """Whether a TCP port is open on an address other machines can reach; None where /proc does not tell."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    if not tables[0].exists():
        return None
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    local = [row[1] for row in rows if len(row) > 3 and row[3] == "0A"]
    return any(int(at.rpartition(":")[2], 16) == port and not _is_loopback(at.partition(":")[0]) for at in local)


def _is_loopback(hexadecimal: str) -> bool:
    """/proc writes 127.0.0.1 as 0100007F, and ::1 as 24 zeros and 01000000."""
    if len(hexadecimal) == 8:
        return hexadecimal.endswith("7F")
    return hexadecimal == "0" * 24 + "01000000" or (
        hexadecimal.startswith("0" * 16 + "FFFF0000") and hexadecimal.endswith("7F")
    )


def spent() -> float:
    """Seconds of a core that this thread and the programs run by this process have taken so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime

"""Facts about this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def memory_bytes() -> int | None:
    """How much memory this machine has; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def program(name: str) -> str | None:
    return shutil.which(name)


def is_ignored_by_git(path: Path) -> bool | None:
    """Whether git would leave the file out of a commit; None outside a repository, or without git."""
    if not shutil.which("git"):
        return None
    argv = ["git", "-C", str(path.parent), "check-ignore", "--quiet", path.name]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
    return {0: True, 1: False}.get(done.returncode)


def is_tracked_by_git(path: Path) -> bool:
    if not shutil.which("git"):
        return False
    argv = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", path.name]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
    return done.returncode == 0


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

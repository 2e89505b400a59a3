"""Tries every way that is known out of the fence: each one that works is printed.

Run as: breaks_out.py <hidden directory> <a process outside>
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable

HIDDEN, OUTSIDE = sys.argv[1], int(sys.argv[2])
ABOVE, NAME = os.path.split(HIDDEN)
SECRET = f"{HIDDEN}/key"
LIBC = ctypes.CDLL(None, use_errno=True)
SEIZE, PIDFD_GETFD, OPEN_TREE, NEW_MOUNTS = 0x4206, 438, 428, 0x20000
IN_MASTERED = "unshare -Urm sh -c"


def shell(script: str) -> bool:
    """Whether a script gets at the secret."""
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    return b"secret" in done.stdout


def opens(path: str, how: int = os.O_RDONLY) -> bool:
    os.close(os.open(path, how))
    return True


def asks(name: str, *given: object) -> bool:
    return bool(getattr(LIBC, name)(*given) >= 0)


WAYS: dict[str, Callable[[], bool]] = {
    "by its name": lambda: opens(SECRET),
    "written": lambda: opens(f"{HIDDEN}/planted", os.O_WRONLY | os.O_CREAT),
    "umount": lambda: shell(f"umount -l {HIDDEN}; cat {SECRET}"),
    "umount as another root": lambda: shell(f"{IN_MASTERED} 'umount -l {HIDDEN}; cat {SECRET}'"),
    "moved away": lambda: shell(f"{IN_MASTERED} 'mount --move {HIDDEN} /mnt; cat {SECRET}'"),
    "from above": lambda: shell(f"{IN_MASTERED} 'mount --bind {ABOVE} /mnt; cat /mnt/{NAME}/key'"),
    "from the root": lambda: shell(f"{IN_MASTERED} 'mount --bind / /mnt; cat /mnt{SECRET}'"),
    "made writable": lambda: shell(
        f"{IN_MASTERED} 'mount -o remount,bind,rw {HIDDEN}; echo secret >{SECRET}; cat {SECRET}'"
    ),
    "a tree of its own": lambda: asks("syscall", OPEN_TREE, -100, ABOVE.encode(), 1),
    "another's root": lambda: opens(f"/proc/{OUTSIDE}/root{SECRET}"),
    "another's directory": lambda: opens(f"/proc/{OUTSIDE}/cwd"),
    "another's environment": lambda: opens(f"/proc/{OUTSIDE}/environ"),
    "another's memory": lambda: opens(f"/proc/{OUTSIDE}/mem", os.O_RDWR),
    "another's files": lambda: bool(os.readlink(f"/proc/{OUTSIDE}/fd/0")),
    "another's file": lambda: asks("syscall", PIDFD_GETFD, os.pidfd_open(OUTSIDE), 0, 0),
    "another's namespace": lambda: asks("setns", os.pidfd_open(OUTSIDE), NEW_MOUNTS),
    "nsenter": lambda: shell(f"nsenter -t {OUTSIDE} -U -m --preserve-credentials cat {SECRET}"),
    "ptrace": lambda: asks("ptrace", SEIZE, OUTSIDE, 0, 0),
}


def works(way: Callable[[], bool]) -> bool:
    try:
        return way()
    except OSError:
        return False


print("got out:", ", ".join(name for name, way in WAYS.items() if works(way)) or "nowhere")

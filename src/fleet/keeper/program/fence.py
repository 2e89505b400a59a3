"""The fence around an agent: namespaces in which what it may not see or change cannot be seen or changed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

from fleet.keeper.program.kernel import LINUX, read_file, system
from fleet.keeper.program.record import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from fleet.keeper.program.spec import FenceSpec

NEW_MOUNTS, NEW_USERS, NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND, ALL_BELOW, FOLLOWS = 1, 2, 4, 32, 4096, 16384, 1 << 19
AS_THEY_WERE = NO_SUID | NO_DEVICES | 8 | 1024 | 2048  # flags that have one number for those who ask and who set them
EMPTY = b"size=1m,nr_inodes=1k,mode=0700"
SET_INTERFACE, LOOPBACK_UP = 0x8914, b"lo".ljust(16, b"\0") + (0x49).to_bytes(2, sys.byteorder).ljust(24, b"\0")
STAGES = (b"/srv", b"/mnt", b"/media")  # only root puts something there, and often nobody does


class Unfenced(Exception):
    """The agent cannot be kept from what it is to be kept from; the message says why."""


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

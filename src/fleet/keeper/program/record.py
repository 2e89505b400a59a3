"""The record of how an agent ended: whole, written by hand, on a disk that may be full."""

from __future__ import annotations

import errno
import os

DRAFT = ".exit.json"
RESERVED = 4096
ERROR_LIMIT = 500


class NotStarted(Exception):
    """The agent never ran; the message says why."""


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

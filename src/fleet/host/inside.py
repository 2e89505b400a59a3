"""Files below a directory in which somebody else may have put links: none is ever followed on the way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


def write(root: Path, relative: str, content: bytes, mode: int) -> None:
    """Put a file there, whole and with this mode; a link in its place is replaced, one above it is an OSError."""
    path = PurePosixPath(relative)
    with _directory(root, path.parts[:-1]) as directory:
        draft = f".{path.name[:100]}.{os.urandom(4).hex()}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600, dir_fd=directory)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                os.fchmod(fd, mode)
            os.replace(draft, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise


@contextmanager
def _directory(root: Path, steps: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of a directory below the root, made where it is missing."""
    with ExitStack() as opened:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        for step in steps:
            with suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=fd)
            fd = _step(fd, step)
            opened.callback(os.close, fd)
        yield fd


def _step(fd: int, step: str) -> int:
    try:
        return os.open(step, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=fd)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OSError(errno.ENOTDIR, f"{step} is a link, or no directory", step) from None
        raise

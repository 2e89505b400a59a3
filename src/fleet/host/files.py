"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE = 0o600
SHARED = 0o644


def write(path: Path, content: bytes, mode: int = SHARED) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half, and never through a link.

    Missing directories are made. The content is not synced to disk: everything written this way can be made again.
    """
    with _draft(path, content, mode) as draft:
        os.replace(draft, path)


def create(path: Path, content: bytes, mode: int = SHARED) -> bool:
    """Write a file unless one is there; of two that try at once, one wins and both know which."""
    with _draft(path, content, mode) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _draft(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """The content in a whole file beside the path, gone afterwards."""
    draft = path.parent / f".{path.name[:100]}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        fd = os.open(draft, flags, mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(draft, flags, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> bytes | None:
    """The bytes of a regular file; None when nothing is there. A link, a directory or a device raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()


def private_dir(path: Path) -> Path:
    """A directory only its owner can enter."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def home() -> Path:
    """$FLEET_HOME, where fleet keeps what belongs to this machine."""
    return Path(os.environ.get("FLEET_HOME") or Path.home() / ".fleet").expanduser()


def cache() -> Path:
    """Where large things that can be fetched again are kept, outside every project."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fleet"

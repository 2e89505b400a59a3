"""Files that are whole or not there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr

from fleet.core import FleetError

PRIVATE = 0o600
SHARED = 0o644
OWN = ".subagent-fleet"
PROBE_BYTES = 64 * 1024  # what the smallest useful write takes


def write(path: Path, content: bytes, mode: int = SHARED, *, drafts: Path | None = None) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half, and never through a link.

    Missing directories are made. The content is not synced to disk: everything written this way can be made again. A
    process that is killed in between leaves a draft, beside the file or in the directory given for drafts.
    """
    with _draft(path, content, mode, drafts) as draft:
        try:
            os.replace(draft, path)
        except FileNotFoundError:
            _make_room(path.parent, mode)
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
def _draft(path: Path, content: bytes, mode: int, drafts: Path | None = None) -> Iterator[Path]:
    """The content in a whole file near the path, gone afterwards."""
    draft = (drafts or path.parent) / f".{path.name[:100]}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        fd = os.open(draft, flags, mode)
    except FileNotFoundError:
        _make_room(draft.parent, mode)
        fd = os.open(draft, flags, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _make_room(directory: Path, mode: int) -> None:
    if mode == PRIVATE:
        private_dir(directory)
    else:
        directory.mkdir(parents=True, exist_ok=True)


def read(path: Path, *, follow: bool = False, limit: int = 64 * 1024 * 1024) -> bytes | None:
    """The bytes of a regular file; None when nothing is there.

    A directory, a device, a pipe, a file over the limit and, unless it is followed, a link raise OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if facts.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit // 1024**2} MiB", str(path))
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(limit + 1)
    finally:
        os.close(fd)


def open_regular(path: Path) -> int | None:
    """A descriptor to read a file that an agent can reach; None unless it is a plain file with this one name.

    A link, a hard link, a pipe or a device in its place could lead to anything, or hold us up for ever.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if _is_plain(fd):
        return fd
    os.close(fd)
    return None


def pieces(path: Path, size: int = 1024 * 1024) -> Iterator[bytes]:
    """All of a file that an agent can reach, piece by piece; nothing unless it is a plain file."""
    fd = open_regular(path)
    if fd is None:
        return
    with open(fd, "rb", buffering=0) as source:
        while piece := source.read(size):
            yield piece


def read_end(path: Path, limit: int) -> bytes | None:
    """The last bytes of a file that an agent can reach; None unless it is a plain file."""
    return read_from(path, None, limit)


def read_from(path: Path, start: int | None, limit: int) -> bytes | None:
    """Some bytes of a file that an agent can reach, from an offset on or from its end; None unless it is plain."""
    fd = open_regular(path)
    if fd is None:
        return None
    try:
        return os.pread(fd, limit, max(0, os.fstat(fd).st_size - limit) if start is None else start)
    finally:
        os.close(fd)


def size(path: Path) -> int:
    """The bytes of a file; 0 when it is not there."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def walk(top: AnyStr) -> Iterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """As `os.walk`, from the top down, links not followed, but however deep it goes: before Python 3.12 that one calls
    itself for every directory, and agents may make as many as they like.
    """
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        folders: list[AnyStr] = []
        names: list[AnyStr] = []
        try:
            with os.scandir(directory) as found:
                for one in found:
                    (folders if _is_directory(one) else names).append(one.name)
        except OSError:
            continue
        yield directory, folders, names
        inner = (os.path.join(directory, name) for name in reversed(folders))
        waiting += [one for one in inner if not os.path.islink(one)]


def _is_directory(entry: os.DirEntry[AnyStr]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_plain(fd: int) -> bool:
    facts = os.fstat(fd)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def own_dir(project: Path) -> Path:
    """The project's .subagent-fleet, kept out of git; a link in its place is refused, since it could lead anywhere."""
    own = project / OWN
    if own.is_symlink() or (own.exists() and not own.is_dir()):
        raise FleetError(f"{own} is not a directory of ours", hint=f"remove it: rm {own}")
    own.mkdir(parents=True, exist_ok=True)
    if not (own / ".gitignore").exists():
        write(own / ".gitignore", b"*\n")
    return own


def private_dir(path: Path) -> Path:
    """A directory only its owner can enter, and so is every one above it that had to be made."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        private_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def put_aside(path: Path) -> None:
    """Move whatever stands at a path out of the way; nothing is lost, and nothing of it is used."""
    if os.path.lexists(path):
        os.rename(path, path.with_name(f".{path.name}.{os.urandom(4).hex()}"))


def fresh_dir(path: Path) -> Path:
    """An empty directory only its owner can enter, whatever stood in its place."""
    put_aside(path)
    return private_dir(path)


def why_not_writable(directory: Path) -> str | None:
    """Why nothing can be written below a directory, or below the nearest one above it that exists; None when something
    can. It is tried, with a file that has no name and is gone at once.
    """
    import tempfile  # most who use files have no need of it

    at = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=at) as draft:
            draft.write(bytes(PROBE_BYTES))
    except OSError as problem:
        return problem.strerror or str(problem)
    return None


def home() -> Path:
    """$FLEET_HOME, where fleet keeps what belongs to this machine."""
    return Path(os.environ.get("FLEET_HOME") or Path.home() / ".fleet").expanduser()


def cache() -> Path:
    """Where large things that can be fetched again are kept, outside every project."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fleet"

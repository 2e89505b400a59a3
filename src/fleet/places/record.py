"""What is known of a place, kept beside it, so that it is still known when the place is half made or half gone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from glob import escape
from pathlib import Path

import msgspec

from fleet.core import FleetError, Unavailable
from fleet.core.errors import is_passing
from fleet.core.frozen import dataclass
from fleet.core.work import PlaceKind
from fleet.host import files, locks, repository
from fleet.host.git import COMMIT
from fleet.places.base import Place

FOLDER = ".places"
PATIENCE = 600.0  # seconds; another process makes or removes the same place


@dataclass(frozen=True, slots=True)
class Record:
    """A place as it was asked for. Until it is made, git may have been cut off while it filled it."""

    kind: PlaceKind
    branch: str
    base: str
    repository: str
    own_branch: bool  # the branch was made with the place
    made: bool = False
    collected: str | None = None  # the last commit that came back from a clone
    attempt: str = ""  # for which it was made
    furnished: tuple[str, ...] = ()  # files that fleet put there, which must never get into git

    def place(self, path: Path) -> Place:
        return Place(path, self.branch, self.base, self.kind, Path(self.repository))


msgspec.json.Decoder(Record)  # known from here on: msgspec crashes when two threads need a type first at the same time


def read(path: Path) -> Record | None:
    """What is written down of the place at a path; None when nothing is, or what fleet would not write."""
    if path.name in ("", "..") or "\0" in path.name:
        return None
    try:
        content = files.read(_file(path))
        said = None if content is None else msgspec.convert(json.loads(content), Record)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError):
        return None
    return said if said is not None and _is_sound(said) else None


def _is_sound(said: Record) -> bool:
    """Whether it may be given to git. It stands where an agent can write."""
    commits = [said.base] if said.collected is None else [said.base, said.collected]
    words = said.branch, said.repository
    return (
        all(COMMIT.match(one) for one in commits)
        and not any("\0" in word for word in words)
        and os.path.isabs(said.repository)
    )


def write(path: Path, record: Record) -> None:
    files.write(_file(path), json.dumps(asdict(record)).encode(), files.PRIVATE)


def furnish(path: Path, names: Iterable[str]) -> None:
    """Note files that are going to be put into a place; where nothing is written down of a place, nothing is."""
    said = read(path)
    if said is not None and not set(names) <= set(said.furnished):
        with alone(path):
            said = read(path) or said
            write(path, replace(said, furnished=tuple(dict.fromkeys((*said.furnished, *names)))))


def furnished(path: Path) -> tuple[str, ...]:
    """The files that fleet put into a place, from its top."""
    said = read(path)
    return said.furnished if said is not None else ()


def forget(path: Path) -> None:
    """Leave nothing of a place, its lock neither; only whoever is alone with it may."""
    file = _file(path)
    for draft in file.parent.glob(f".{escape(file.name)}.*"):  # of one that was killed while it wrote
        draft.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    _lock(path).unlink(missing_ok=True)


def index(path: Path) -> Path | None:
    """How copies of a place's index are called, which are forgotten with it; None when nothing is written down."""
    file = _file(path)
    return file.with_name(f".{file.name}.index") if os.path.lexists(file) else None


def known(root: Path) -> list[Place]:
    """Every place under a root that is written down, whether it still stands or not."""
    found = []
    with suppress(OSError):
        for one in sorted((root / FOLDER).glob("*.json")):
            path = root / one.stem
            said = read(path)
            if said is not None:
                found.append(said.place(path))
    return found


def origin(top: Path) -> Path | None:
    """The repository that the place at this path was made from."""
    said = read(top)
    return Path(said.repository) if said is not None else None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else makes or removes the place at this path meanwhile."""
    lock = _taken(path)
    try:
        with repository.under(lock):
            yield
    finally:
        locks.release(lock)


@contextmanager
def alone_if_known(path: Path) -> Iterator[None]:
    """The same; where no place was ever made, there is nobody to keep out, and perhaps no way to."""
    known = os.path.lexists(path) or (path.parent / FOLDER).is_dir()
    with alone(path) if known else nullcontext():
        yield


def _taken(path: Path) -> int:
    """The lock of a place. One that was forgotten while we waited for it is not the one that others see."""
    while True:
        try:
            lock = locks.take(_lock(path), PATIENCE)
        except OSError as problem:
            if is_passing(problem):
                raise
            hint = "mend `worktree_root` in the project's fleet.yaml"
            raise FleetError(f"{path} cannot be a place: {problem.strerror}", hint=hint) from problem
        if lock is None:
            raise Unavailable(f"the place {path} is being made or removed by another process", hint="try again")
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(_lock(path))):
                return lock
        locks.release(lock)


def _lock(path: Path) -> Path:
    return _file(path).with_suffix(".lock")


def _file(path: Path) -> Path:
    if path.name in ("", ".", ".."):
        raise FleetError(f"{path} cannot be a place")
    return path.parent / FOLDER / f"{path.name}.json"

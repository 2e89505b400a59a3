"""What of the user's own project an agent in a place of its own may read, and not write to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fleet import places
from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.work import Attempt, PlaceKind
from fleet.host import files, git, repository

# Of a repository: what says which programs git runs and where its objects are, and what is fleet's own.
FOLDERS = ("info", "hooks", "objects/info", "refs/fleet")
SETTINGS = ("config", "config.worktree")
MODULES = "modules"  # the user's own submodules; those of a worktree stand beside it, and borrow their objects
STORES = ("objects", "refs")  # mounts of their own: nobody can move them aside, with what is guarded in them
WRITTEN = ("HOME", "TMPDIR", "XDG_")  # variables that name directories in which programs keep things


@dataclass(frozen=True, slots=True)
class Guard:
    """As the fence has it: what is guarded, of that what can be written to, and of that again what cannot."""

    guarded: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()


def guard(attempt: Attempt, environment: Mapping[str, str], given: Mapping[str, str]) -> Guard:
    """A clone needs nothing but to read. A worktree commits into the repository: its objects, its branches and what
    git notes of the worktree itself are open. An agent that works in place has all that stands there.
    """
    found = places.project(Path(attempt.repository)) if attempt.repository else None
    if found is None or attempt.place is PlaceKind.INPLACE:
        return Guard()
    trees = _trees(found, attempt, environment)
    own = (*_in(trees, [_place(attempt)]), *_in(trees, _named([*_kept(environment), *given.values()]), below=True))
    if attempt.place is PlaceKind.CLONE:
        return Guard((*trees, found.common), own)
    common = _prepared(found.common)
    branches = tuple(_branches(found, attempt))
    held = dict.fromkeys(above for one in branches for above in reversed(one.parents) if above.is_relative_to(common))
    stores = dict.fromkeys((common, *(common / name for name in STORES), *held))
    closed = tuple(common / name for name in (*SETTINGS, *FOLDERS, MODULES))
    read_only = (*closed, *_checked_out(found, attempt), *branches, *_others(common, attempt))
    return Guard(trees, (*stores, *own), read_only)


def check_guard(attempt: Attempt, environment: Mapping[str, str], own: Iterable[Path]) -> Guard:
    """A check of such an agent's work runs its code, and has a checkout of its own."""
    found = places.project(Path(attempt.repository)) if attempt.repository else None
    if found is None or attempt.place is PlaceKind.INPLACE:
        return Guard()
    trees = _trees(found, attempt, environment)
    kept = _in(trees, _named(_kept(environment)), below=True)
    return Guard((*trees, found.common), (*_in(trees, own), *kept))


def _trees(found: places.Project, attempt: Attempt, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The working trees of the user's that the task is about: the main one, and the one that it was added in. One in
    which they keep everything, such as their home, is left as it is.
    """
    there = git.find(Path(attempt.spec.cwd).resolve()) if attempt.spec else None
    tops = [*([] if found.is_bare else [found.top]), *([there.top] if there else [])]
    taken = {Path("/"), *_named(_kept(environment))}
    return tuple(top for top in dict.fromkeys(map(_real, tops)) if top not in taken)


def _owners(found: places.Project, attempt: Attempt) -> Iterator[Path]:
    """Where git keeps what it notes of those working trees."""
    there = git.find(Path(attempt.spec.cwd).resolve()) if attempt.spec else None
    yield from dict.fromkeys(_real(one) for one in (found.common, *([there.own] if there else [])))


def _checked_out(found: places.Project, attempt: Attempt) -> tuple[Path, ...]:
    """What says which branch they have checked out, and what of it is staged."""
    return tuple(own / name for own in _owners(found, attempt) for name in ("HEAD", "index"))


def _branches(found: places.Project, attempt: Attempt) -> Iterator[Path]:
    """The files of the branches that they have checked out, from which the next task begins: no agent moves them. One
    that stands among the packed refs alone gets a file of its own, with the same commit.
    """
    common = _real(found.common)
    for own in _owners(found, attempt):
        name = git.safe_ref(f"refs/heads/{repository.branch_of(own)}")
        commit = repository.ref(common, name) if name else None
        if name and commit:
            with suppress(OSError):
                (common / name).parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                files.create(common / name, f"{commit}\n".encode())
            yield common / name


def _others(common: Path, attempt: Attempt) -> Iterator[Path]:
    """What git notes of other worktrees, those of other agents among them: their index says what they did."""
    place = _place(attempt)
    here = git.find(place)
    mine = {_real(one) for one in (*([here.own] if here else []), *dict(repository.linked_below(common, place)))}
    with suppress(OSError):
        yield from (one for one in sorted((common / "worktrees").iterdir()) if _real(one) not in mine)


def _place(attempt: Attempt) -> Path:
    """The place that an attempt's directory is in."""
    cwd = Path(attempt.cwd)
    for one in (cwd, *cwd.parents):
        said = places.record.read(one)
        if said is not None and said.repository == attempt.repository:
            return one
    return cwd


def _kept(environment: Mapping[str, str]) -> list[str]:
    return [value for name, value in environment.items() if name.startswith(WRITTEN)]


def _named(values: Iterable[str]) -> list[Path]:
    """What variables name."""
    return [_real(value) for value in values if os.path.isabs(value) and "\0" not in value]


def _in(trees: Iterable[Path], paths: Iterable[Path], *, below: bool = False) -> Iterator[Path]:
    """Those of the paths that are in one of the trees: only these have to be put back."""
    for path in map(_real, paths):
        if any(path.is_relative_to(tree) and not (below and path == tree) for tree in trees):
            yield path


def _prepared(common: Path) -> Path:
    """The repository, with something to stand in the way of whoever would put it there."""
    with suppress(OSError, FleetError):
        repository.make_way(common, f"{FOLDERS[-1]}/attempts/x")
    for name in FOLDERS:
        with suppress(OSError):
            (common / name).mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.close(os.open(common / SETTINGS[1], os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, files.PRIVATE))
    return common


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))

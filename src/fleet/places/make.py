"""Making a place: a worktree or a clone with a branch of its own.

What is wanted is written down before git begins. So whoever finds a place that is written down and not made knows that
git was cut off, saves what somebody else put there since, and begins anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fleet.core import BadConfig, FleetError, NotFound, Unavailable
from fleet.core.text import clean
from fleet.core.work import PlaceKind
from fleet.host import files, git, repository
from fleet.places import clone, record, remove, worktree
from fleet.places.base import Place
from fleet.places.paths import Project, check_branch, must_be_understood
from fleet.places.record import Record

LEAST = 16 * 1024 * 1024  # bytes that must be free before anything is begun


def make(
    kind: PlaceKind,
    project: Project,
    branch: str,
    base: str | None,
    path: Path,
    tell: Callable[[str], None] = lambda line: None,
    *,
    attempt: str = "",
) -> Place:
    """A place at this path, on this branch: a new one from the base, or one that is there and checked out nowhere.

    Called again it finds the place that is there, and begins one anew that is half made; what had to be saved of that
    is told.
    """
    check_branch(branch)
    if kind is PlaceKind.INPLACE:
        raise BadConfig("a directory as it is has no branch of its own", hint="--place worktree")
    must_be_understood(project.common)
    with record.alone(path):
        said = record.read(path)
        if said is not None and said.made and _is_whole(project, path):
            return _same(said, kind, project, branch, path)
        _make_room(project, path, said, tell)
        wanted = replace(_wanted(kind, project, branch, base, said), attempt=attempt)
        record.write(path, wanted)
        try:
            _add(wanted, project, path)
        except FleetError:
            _undo(project, path, wanted)
            raise
        record.write(path, replace(wanted, made=True))
        return wanted.place(path)


def _is_whole(project: Project, path: Path) -> bool:
    """Whether a place that was made still is one. A worktree that lost its link to git gets it back."""
    if not (path / ".git").exists() and path.is_dir() and any(path.iterdir()):
        worktree.repair(project.common, path)
        if not (path / ".git").exists():
            raise FleetError(
                f"{path} has no .git any more, and what stands there may be somebody's work",
                hint=f"copy what you need, then: rm -r {path}",
            )
    return (path / ".git").exists()


def _same(said: Record, kind: PlaceKind, project: Project, branch: str, path: Path) -> Place:
    if (said.kind, said.branch, said.repository) != (kind, branch, str(project.top)):
        raise FleetError(
            f"{path} is a {said.kind} of {clean(said.repository)} on the branch {clean(said.branch)} already",
            hint="fleet clean --places",
        )
    return said.place(path)


def _make_room(project: Project, path: Path, said: Record | None, tell: Callable[[str], None]) -> None:
    """Put away what an earlier call left half made; what is not ours is never touched."""
    if said is not None and not said.made and (path.is_dir() or not os.path.lexists(path)):
        _put_away(said.place(path), tell)
        worktree.forget(project.common, path)
    elif os.path.lexists(path) and (not path.is_dir() or path.is_symlink() or any(path.iterdir())):
        raise FleetError(f"{path} is in the way, and fleet did not make it", hint=f"ls -la {path}")
    elif said is not None:
        worktree.forget(project.common, path)  # somebody removed its directory by hand
    files.private_dir(path.parent)
    if repository.room(path.parent) < LEAST:
        raise Unavailable(f"there is no room left on the disk for {path}", hint="fleet clean --places")


def _put_away(place: Place, tell: Callable[[str], None]) -> None:
    """Save what somebody put into a half made place, then remove that."""
    from fleet.places import salvage  # what nobody pays for who was never cut off

    saved = salvage.save_alone(place, place.branch or "", cap=salvage.CAP)
    if saved is not None:
        what = f"what stood in {clean(str(place.path))}, which was never finished"
        tell(f"{what}, is saved: fleet salvage show {saved.name}")
    if left := remove.clear(place, saved):
        raise left[0]


def _wanted(kind: PlaceKind, project: Project, branch: str, base: str | None, said: Record | None) -> Record:
    """What is to be made: where the branch begins, and whether it is new."""
    head = git.head(git.Repository(project.top, project.common, project.common)).commit
    tip = repository.ref(project.common, f"refs/heads/{branch}")
    start = commit(project, base) if base is not None else head or tip
    if start is None:
        raise FleetError(
            f"{clean(str(project.top))} has no commit yet, so there is nothing to begin from",
            hint="push one to it"
            if project.top == project.common
            else f"git -C {clean(str(project.top))} commit --allow-empty -m 'Begin'",
        )
    earlier = said is not None and said.branch == branch and said.own_branch
    if earlier and said is not None and tip in (None, said.base) and base is None:
        return Record(kind, branch, said.base, str(project.top), own_branch=True)
    if tip is not None and kind is PlaceKind.WORKTREE:
        must_be_free(project, branch)
    own = tip is None or (earlier and tip == start)
    return Record(kind, branch, start if own else _fork(project, start, tip or start), str(project.top), own_branch=own)


def commit(project: Project, name: str) -> str:
    """The commit that a name means in the main repository."""
    if name == "HEAD":
        head = git.head(git.Repository(project.top, project.common, project.common)).commit
        if head is not None:
            return head
    done = repository.ask(project.common, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.code:
        raise NotFound(f"there is no commit {clean(name)!r} in {clean(str(project.top))}", hint="git branch --all")
    return done.out.decode().strip()


def must_be_free(project: Project, branch: str, own: Path | None = None) -> None:
    """Refuse a branch that somebody works on, elsewhere than in its own place, and one that git cannot have."""
    linked = repository.linked(project.common)
    where = [at for _, at, name in linked if name == branch and at.exists() and at != own]
    if not project.is_bare and repository.branch_of(project.common) == branch:
        where.append(project.top)
    if where:
        raise FleetError(
            f"the branch {clean(branch)} is checked out in {clean(str(where[0]))}", hint="choose another branch"
        )
    for parent in PurePosixPath(branch).parents[:-1]:
        if repository.ref(project.common, f"refs/heads/{parent}") is not None:
            raise FleetError(
                f"there cannot be a branch {clean(branch)} beside {clean(str(parent))}", hint="choose another"
            )


def _fork(project: Project, start: str, tip: str) -> str:
    """Where a branch that is there left the commit it is compared with; its tip when they have nothing in common."""
    if start == tip:
        return tip
    done = repository.ask(project.common, "merge-base", start, tip)
    return done.out.decode().strip() if done.code == 0 else tip


def _add(wanted: Record, project: Project, path: Path) -> None:
    if wanted.kind is PlaceKind.WORKTREE:
        worktree.add(project, wanted, path)
    else:
        clone.add(project, wanted, path)


def _undo(project: Project, path: Path, wanted: Record) -> None:
    """Leave nothing of a place that could not be made; a branch that was there before stays."""
    repository.remove_tree(path)
    worktree.forget(project.common, path)
    if wanted.kind is PlaceKind.CLONE:
        clone.let_go(project, path)
    elif wanted.own_branch:
        repository.ask(project.common, "update-ref", "-d", f"refs/heads/{wanted.branch}", wanted.base)
    record.forget(path)

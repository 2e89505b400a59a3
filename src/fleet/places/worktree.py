"""A git worktree: it shares everything with the main repository but what is checked out."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import repository
from fleet.host.run import Ran
from fleet.places import submodules
from fleet.places.paths import Project
from fleet.places.record import Record

# git reads what it knows of all worktrees, and fails over one that another git is just writing down
HALF_MADE = re.compile(r"fatal: .*/worktrees/[^/]+/(commondir|gitdir|HEAD)\b")
TRIES, TRY_AGAIN = 20, 0.05
STALE = 20.0  # seconds; no git that lives takes so long to write a branch down


def add(project: Project, wanted: Record, path: Path) -> None:
    """Check the branch out at the path; no hook runs, and no upstream is set."""
    done = _add(project, path, wanted.branch, wanted.base)
    if done.code and _let_go(project, wanted.branch):
        done = _add(project, path, wanted.branch, wanted.base)
    if done.code:
        raise _explained(repository.refused(done, f"no worktree can be made at {path}"), wanted.branch)
    submodules.fill(project, path)


def add_empty(project: Project, path: Path, commit: str, what: str) -> None:
    """A worktree on no branch, with nothing checked out."""
    done = _add(project, path, None, commit, "--no-checkout")
    if done.code:
        raise repository.refused(done, what)


def _add(project: Project, path: Path, branch: str | None, commit: str, *options: str) -> Ran:
    """Ask git for a worktree, again when another git was in its way; the branch may have been made by then."""
    for _ in range(TRIES):
        where: tuple[str, ...] = ("--detach", str(path), commit)
        if branch and repository.ref(project.common, f"refs/heads/{branch}") is not None:
            where = (str(path), branch)
        elif branch:
            where = ("--no-track", "-b", branch, str(path), commit)
        done = repository.ask(project.common, "worktree", "add", "--quiet", *options, *where)
        if not done.code or not HALF_MADE.search(done.said):
            break
        time.sleep(TRY_AGAIN)
    return done


def _let_go(project: Project, branch: str) -> bool:
    """Remove the lock of a branch that is not there, which a git left that was killed long ago; whether there was."""
    name = f"refs/heads/{branch}"
    lock = project.common / f"{name}.lock"
    with suppress(OSError):
        if repository.ref(project.common, name) is None and repository.now() - lock.lstat().st_mtime > STALE:
            lock.unlink()
            return True
    return False


def _explained(problem: FleetError, branch: str) -> FleetError:
    """A branch `a` and a branch `a/b` cannot both be, which git says in words of its own."""
    if isinstance(problem, repository.Locked):
        return problem
    if "cannot lock ref" in problem.message or "exists; cannot create" in problem.message:
        return FleetError(
            f"there cannot be a branch {clean(branch)}: another one has its name as a part, or is a part of it",
            hint="git branch --all",
        )
    return problem


def repair(common: Path, path: Path) -> None:
    """Write anew what a worktree says of its repository, as far as that still knows it."""
    repository.ask(common, "worktree", "repair", str(path))


def forget(common: Path, path: Path) -> None:
    """Remove what the repository knows of the worktree at a path, and of those that were made inside it, whether its
    directory is there or not.
    """
    for own, where, _ in list(repository.linked(common)):
        if where == path or path.resolve() in (where.resolve(), *where.resolve().parents):
            repository.remove_tree(own)
    _sweep(common, path)


def _sweep(common: Path, path: Path) -> None:
    """An entry that git was killed over before it said where its worktree is."""
    with suppress(OSError):
        for own in (common / "worktrees").iterdir():
            if own.name.rstrip("0123456789") == path.name.rstrip("0123456789") and not (own / "gitdir").exists():
                repository.remove_tree(own)

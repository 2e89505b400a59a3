"""What a repository of the user's has: refs, linked worktrees, files; most of it read without git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError
from fleet.host import git
from fleet.host.git import COMMIT, Repository
from fleet.host.repository.remove import remove_tree
from fleet.host.repository.tell import QUIET, ask, environment, refused

PIECE = 1024 * 1024


def ref(common: Path, name: str) -> str | None:
    """The commit that a ref of a repository names, read from files; None when there is no such ref."""
    found = git._ref(Repository(common, common, common), name)
    return found if found and COMMIT.match(found) else None


def refs(common: Path, under: str) -> list[tuple[str, str]]:
    """Every ref under a prefix, with what it names."""
    done = ask(common, "for-each-ref", "--format=%(refname) %(objectname)", under)
    if done.code:
        raise refused(done, f"the branches of {common} cannot be read")
    lines = (line.rsplit(" ", 1) for line in done.out.decode(errors="surrogateescape").splitlines())
    return [(name, commit) for name, commit in lines]


def make_way(common: Path, ref: str) -> None:
    """Remove what stands where a ref of fleet's own goes: a link or a file for a directory, a directory for the ref."""
    steps = Path(ref).parts
    at = common / steps[0]
    if at.is_symlink() or steps[:2] != ("refs", "fleet"):
        return
    for number, step in enumerate(steps[1:], 2):
        at /= step
        is_last, is_directory = number == len(steps), at.is_dir() and not at.is_symlink()
        if os.path.lexists(at) and is_directory == is_last:
            remove_tree(at)


def linked(common: Path) -> Iterator[tuple[Path, Path, str]]:
    """Each linked worktree: its entry in the repository, where it stands, and its branch ("" when detached)."""
    with suppress(OSError):
        for own in sorted((common / "worktrees").iterdir()):
            marker = git._line(own / "gitdir")
            if marker:
                where = Path(marker) if os.path.isabs(marker) else (own / marker)
                yield own, where.parent, branch_of(own)


def linked_below(common: Path, top: Path) -> list[tuple[Path, Path]]:
    """The linked worktrees below a directory: their entries in the repository, and where they stand."""
    at = top.resolve()
    return [(own, where) for own, where, _ in linked(common) if at in where.resolve().parents]


def branch_of(own: Path) -> str:
    line = git._line(own / "HEAD") or ""
    return line.removeprefix("ref: refs/heads/").strip() if line.startswith("ref: refs/heads/") else ""


def tree_of(common: Path, commit: str) -> str | None:
    """The tree of a commit in a repository of the user's; None when it is not there."""
    done = ask(common, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
    return done.out.decode().strip() or None


def blob(common: Path, name: str) -> Iterator[bytes]:
    """The bytes of a file that a repository keeps, piece by piece."""
    argv = ["git", *QUIET, f"--git-dir={common}", "cat-file", "blob", name]
    with subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(PIECE):
            yield piece
    if process.returncode:
        raise FleetError(f"{name} cannot be read from {common}", hint=f"git --git-dir={common} fsck")

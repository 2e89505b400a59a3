"""Files of a directory that must never get into git: which git has already, and how it is told to leave the others out.

Worktrees have no list of their own: git reads `info/exclude` of the repository that they are linked to. So a line there
counts in every worktree of that repository, and in a clone for the clone alone. A line is added once and stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import armour, git, locks
from fleet.host.run import Ran, run

SECONDS = 60.0
PATIENCE = 30.0
LARGEST = 4 * 1024 * 1024
MARK = "# fleet writes these, and they must not get into git"
SPECIAL = re.compile(r"([\\*?\[]|\s\Z)")


def tracked(place: Path, paths: Sequence[str]) -> set[str]:
    """Those of the paths that git has in the place."""
    done = _ask(place, ["--literal-pathspecs", "ls-files", "-z", "--", *paths])
    if done.code != 0:
        raise _cannot(place, done)
    return set(done.out.decode(errors="surrogateescape").split("\0")) & set(paths)


def keep_out(repository: git.Repository, place: Path, paths: Sequence[str]) -> None:
    """See to it that `git add` leaves the paths out; FleetError when it cannot be."""
    wanted = [path for path in paths if path not in _ignored(place, paths)]
    if not wanted:
        return
    below = os.path.relpath(os.path.realpath(place), os.path.realpath(repository.top))
    _exclude(repository.common / "info" / "exclude", [_pattern(os.path.normpath(f"{below}/{path}")) for path in wanted])
    stubborn = sorted(set(wanted) - _ignored(place, wanted))
    if stubborn:
        raise FleetError(
            f"{clean(stubborn[0])} would get into git: a .gitignore of the project takes it in again, by a line with !",
            hint="take that line out of .gitignore",
        )


def _ignored(place: Path, paths: Sequence[str]) -> set[str]:
    asked = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
    done = _ask(place, ["check-ignore", "-z", "--stdin"], asked)
    if done.code not in (0, 1):
        raise _cannot(place, done)
    return set(done.out.decode(errors="surrogateescape").split("\0"))


def _exclude(file: Path, patterns: Sequence[str]) -> None:
    """Add lines to the end of the list, once each; what stands there is never changed."""
    if file.is_symlink():
        raise FleetError(f"{file} is a link, and is not written through", hint=f"put a file there: rm {file}")
    lock = locks.take(file, PATIENCE)
    if lock is None:
        raise FleetError(f"somebody else holds {file}", hint="try again in a moment")
    try:
        before = os.pread(lock, LARGEST, 0)
        known = before.decode(errors="surrogateescape").splitlines()
        fresh = [pattern for pattern in patterns if pattern not in known]
        text = "\n".join([MARK, *fresh, ""]).encode(errors="surrogateescape")
        if fresh:
            start = b"" if not before or before.endswith(b"\n") else b"\n"
            os.pwrite(lock, start + text, os.fstat(lock).st_size)
    finally:
        locks.release(lock)


def _pattern(path: str) -> str:
    """A path as a line that means this one file."""
    return "/" + SPECIAL.sub(r"\\\1", path)


def _ask(place: Path, args: Sequence[str], stdin: bytes = b"") -> Ran:
    env = armour.SURE | {"PATH": os.environ.get("PATH", os.defpath)}
    argv = ["git", *armour.NOTHING_RUNS, "-c", "core.excludesFile=/dev/null", *args]
    return run(argv, cwd=place, env=env, timeout=SECONDS, stdin=stdin)


def _cannot(place: Path, done: Ran) -> FleetError:
    return FleetError(
        f"git cannot say what it would commit in {place}: {clean(done.said)}", hint=f"git -C {place} status"
    )

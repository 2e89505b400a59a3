"""Git, told to do something in a repository of the user's, without hooks; and what its refusals mean."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.core.text import clean
from fleet.host import git
from fleet.host.run import Ran, run

SECONDS = 600.0
QUIET = (
    "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false", "-c", "core.quotePath=false",
    "-c", "core.alternateRefsCommand=true", "-c", "log.showSignature=false",
)  # fmt: skip
# Nothing is ever asked of another machine, nor of a helper or program that the config names for it.
NOBODY = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
FROM_FILES = {"GIT_ALLOW_PROTOCOL": "file"}
FETCH = {"clone", "fetch", "submodule"}
# Variables of git's that say how it is reached and set up; every other one would lead it to another repository.
KEPT = re.compile(r"GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH|SSH.*|LFS.*|TERMINAL_PROMPT|AUTHOR.*|COMMITTER.*)\Z")
LOCKED = re.compile(r"Unable to create '([^']+\.lock)': File exists")
FULL = ("No space left on device", "Disk quota exceeded")
_locks: ContextVar[tuple[int, ...]] = ContextVar("locks", default=())


@contextmanager
def under(lock: int) -> Iterator[None]:
    """Every git that is started meanwhile holds this lock too: killed, we leave nobody who works on unseen."""
    before = _locks.set((*_locks.get(), lock))
    try:
        yield
    finally:
        _locks.reset(before)


def held() -> tuple[int, ...]:
    """The locks that a git is to hold which is started now."""
    return _locks.get()


def environment() -> dict[str, str]:
    """The user's own environment, without what would lead git somewhere else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or KEPT.match(name)}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"} | NOBODY


def ask(common: Path, *args: str, stdin: bytes = b"", cwd: Path | None = None) -> Ran:
    """Run git on a repository of the user's, without hooks."""
    argv = ["git", *QUIET, f"--git-dir={common}", *args]
    env = environment() | (FROM_FILES if FETCH.intersection(args) else {})
    return run(
        argv, cwd=cwd or common, env=env, timeout=SECONDS, stdin=stdin, keep=held(),
        doubt=partial(git.waits_in, common),
    )  # fmt: skip


def do(common: Path, *args: str, stdin: bytes = b"", what: str) -> str:
    """What git prints; a refusal is an error that says what was wanted."""
    done = ask(common, *args, stdin=stdin)
    if done.code:
        raise refused(done, what)
    return done.out.decode(errors="surrogateescape").strip()


def refused(done: Ran, what: str) -> FleetError:
    said = done.waits or " ".join(done.said.split())
    if any(words in said for words in FULL):
        return Unavailable(f"{what}: there is no room left on the disk", hint="fleet clean --places")
    if held := LOCKED.search(said):
        return Locked(what, Path(held[1]))
    return FleetError(f"{what}: {said or f'git ended with code {done.code}'}", hint="git status")


class Locked(Unavailable):
    """Another git has what we want, or was killed over it."""

    def __init__(self, what: str, lock: Path) -> None:
        self.lock = lock
        super().__init__(
            f"{what}: {clean(str(lock))} is there: another git works in this repository, or was killed",
            hint=f"if no git runs there: rm {shlex.quote(clean(str(lock)))}",
        )


def now() -> float:
    return time.time()

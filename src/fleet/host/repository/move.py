"""Move a branch of the user's, with the files of the working tree that has it checked out: both move, or neither.

The ref's lock is taken first, then `read-tree` brings the files, then the ref is moved. `read-tree` changes nothing
when a file that it would touch has changes of the user's; what git would overwrite all the same is refused before.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.host import git
from fleet.host.git import EMPTY_TREE
from fleet.host.repository.refs import branch_of, linked, ref
from fleet.host.repository.tell import QUIET, environment, held, refused
from fleet.host.run import Ran, run

ZEROS = "0" * 40
# What read-tree says before it has touched a file.
NOTHING_CHANGED = ("not uptodate", "would be overwritten", "would be removed", "index.lock", "Cannot merge", "unmerged")
MAX_NAMED_PATHS = 5
GIT_SECONDS = 600.0
SURE = ("-c", "submodule.recurse=false", "-c", "core.fsync=committed,loose-object")
# What git keeps in a working tree's own directory while a merge, a rebase or something of the kind is under way.
UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a sequence of picks",
}
REBASED_BRANCH = ("rebase-merge/head-name", "rebase-apply/head-name")


class InTheWay(FleetError):
    """Something in a working tree keeps a branch from moving; nothing was changed."""


class Moved(FleetError):
    """The branch is not where it was; nothing was changed."""


class CutOff(FleetError):
    """Files had begun to follow when something failed: the branch did not move, and `finish_move` goes on with it."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """One working tree of a repository, and where git keeps its index and its HEAD."""

    top: Path
    own: Path


def working_trees(common: Path) -> list[WorkingTree]:
    """Every working tree of a repository: the main one, unless it is bare, and the linked ones that are there."""
    main = [WorkingTree(common.parent, common)] if common.name == ".git" else []
    return main + [WorkingTree(top, own) for own, top, _ in linked(common) if top.is_dir()]


def checked_out(common: Path, branch: str) -> list[WorkingTree]:
    """The working trees that have a branch checked out."""
    return [one for one in working_trees(common) if branch_of(one.own) == branch]


def move_branch(common: Path, branch: str, old: str | None, new: str, *, why: str, more: Sequence[str] = ()) -> None:
    """Move a branch from one commit to another, if it is still there, with the files of whoever has it checked out.

    `more` are further lines for `git update-ref --stdin`, which hold or fail together with it.
    """
    at = check_move(common, branch, old, new)
    transaction = _Transaction(common, at, why)
    try:
        transaction.prepare([f"update refs/heads/{branch} {new} {old or ZEROS}", *more], branch)
        if at is not None:
            _bring_files(at, old or EMPTY_TREE, new)
        transaction.commit()
    finally:
        transaction.close()


def check_move(common: Path, branch: str, old: str | None, new: str) -> WorkingTree | None:
    """The working tree whose files have to follow, if there is one; InTheWay or Moved when the branch cannot move."""
    found = ref(common, f"refs/heads/{branch}")
    if found != old:
        raise Moved(
            f"{branch} is at {(found or 'nothing')[:12]} by now, not at {(old or 'nothing')[:12]}", hint="run it again"
        )
    _must_not_be_rebased(common, branch)
    trees = checked_out(common, branch)
    if len(trees) > 1:
        where = " and ".join(clean(sayable(str(one.top))) for one in trees)
        raise InTheWay(f"{branch} is checked out twice: {where}", hint="git worktree list")
    at = trees[0] if trees else None
    if at is not None:
        _must_be_free(at, old or EMPTY_TREE, new)
    return at


def _must_not_be_rebased(common: Path, branch: str) -> None:
    for one in working_trees(common):
        for name in REBASED_BRANCH:
            if git.text(one.own / name).strip() == os.fsencode(f"refs/heads/{branch}"):
                where = clean(sayable(str(one.top)))
                raise InTheWay(f"{branch} is being rebased in {where}", hint=f"cd {where} && git status")


def _must_be_free(at: WorkingTree, old: str, new: str) -> None:
    """Refuse what git would not: something under way, and files that it ignores or does not know in the way."""
    where = clean(sayable(str(at.top)))
    for name, what in UNDER_WAY.items():
        if os.path.lexists(at.own / name):
            raise InTheWay(f"{what} is under way in {where}", hint=f"cd {where} && git status")
    if ask_in(at, "ls-files", "-u", "-z").out:
        raise InTheWay(f"{where} has files that are not merged", hint=f"cd {where} && git status")
    names = ("diff", "--name-only", "--no-renames", "--ignore-submodules=all", "-z")
    changed = {*_paths(at, *names, old)}.intersection(_paths(at, *names, new))  # what is as it will be is in no way
    touched = set(_paths(at, "diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new))
    _refuse(at, sorted(touched.intersection(changed)), "changes that are not committed")
    added = _paths(at, "diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=AT", old, new)
    known = set(_paths(at, "ls-files", "-z"))
    _refuse(at, [path for path in added if _is_in_the_way(at.top, path, known)], "files that git does not know")


def _is_in_the_way(top: Path, path: str, known: set[str]) -> bool:
    """Whether something stands at a path, or where one of its directories goes, that git has not in its index."""
    steps = path.split("/")
    for count in range(1, len(steps)):
        above = "/".join(steps[:count])
        at = top / above
        if os.path.lexists(at) and (at.is_symlink() or not at.is_dir()) and above not in known:
            return True
    at = top / path
    if not os.path.lexists(at) or path in known:
        return False
    is_directory = at.is_dir() and not at.is_symlink()
    return not (is_directory and any(one.startswith(f"{path}/") for one in known))


def _refuse(at: WorkingTree, paths: Sequence[str], what: str) -> None:
    if not paths:
        return
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    named = ", ".join(clean(sayable(one)) for one in paths[:MAX_NAMED_PATHS])
    raise InTheWay(
        f"{clean(sayable(str(at.top)))} has {what}, where files would change: {named}{more}",
        hint="commit or move them away; or land on another branch: --onto fleet/landed",
    )


def _bring_files(at: WorkingTree, old: str, new: str) -> None:
    done = ask_in(at, "read-tree", "-m", "-u", old, new)
    if done.code and not any(words in done.said for words in NOTHING_CHANGED):
        problem = refused(done, f"the files of {clean(sayable(str(at.top)))} cannot follow")
        raise CutOff(problem.message, hint="mend that; the next fleet merge goes on with it")
    if done.code:
        raise InTheWay(
            str(refused(done, f"the files of {clean(sayable(str(at.top)))} cannot follow")), hint="git status"
        )


def _paths(at: WorkingTree, *args: str) -> list[str]:
    done = ask_in(at, *args)
    if done.code:
        raise refused(done, f"{clean(sayable(str(at.top)))} cannot be read")
    return [os.fsdecode(one) for one in done.out.split(b"\0") if one]


def ask_in(at: WorkingTree, *args: str, stdin: bytes = b"") -> Ran:
    """Run git in a working tree of the user's, without hooks, and with no variable that names another index."""
    env = environment()
    if args[0] in ("read-tree", "update-index"):
        env.pop("GIT_OPTIONAL_LOCKS", None)
    argv = ["git", *QUIET, *SURE, f"--git-dir={at.own}", f"--work-tree={at.top}", *args]
    return run(argv, cwd=at.top, env=env, timeout=GIT_SECONDS, stdin=stdin, keep=held())


class _Transaction:
    """One `git update-ref --stdin`: after `prepare` it holds the locks, and it gives them back when its input ends."""

    def __init__(self, common: Path, at: WorkingTree | None, why: str) -> None:
        where = (f"--git-dir={at.own}", f"--work-tree={at.top}") if at else (f"--git-dir={common}",)
        argv = ["git", *QUIET, *SURE, *where, "update-ref", "-m", why, "--stdin"]
        self._process = subprocess.Popen(
            argv, cwd=at.top if at else common, env=environment(), text=True, start_new_session=True, pass_fds=held(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def prepare(self, lines: Sequence[str], branch: str) -> None:
        try:
            ready = self._say(["start", *lines, "prepare"], answers=2)
        except BrokenPipeError:
            ready = False
        if not ready:
            said = " ".join(self._end().split())
            if "is at " in said or "but expected" in said or f"refs/heads/{branch}': reference already exists" in said:
                raise Moved(f"{branch} has moved meanwhile: {clean(said, 500)}", hint="run it again")
            raise FleetError(f"{branch} cannot be moved: {clean(said, 500)}", hint="git status")

    def commit(self) -> None:
        if not self._say(["commit"], answers=1):
            raise CutOff(
                f"the branch cannot be moved: {clean(self._end(), 500)}", hint="the next fleet merge goes on with it"
            )

    def close(self) -> None:
        """Give the locks back; what was not committed is nothing."""
        self._end()

    def _say(self, lines: Sequence[str], answers: int) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines))
        self._process.stdin.flush()
        said = [self._process.stdout.readline() for _ in range(answers)]
        return all(one.endswith(": ok\n") for one in said)

    def _end(self) -> str:
        if self._process.stdin is None or self._process.stdin.closed:
            return ""
        try:
            _, said = self._process.communicate(timeout=GIT_SECONDS)
        except (BrokenPipeError, ValueError):
            said = ""
        return said or ""

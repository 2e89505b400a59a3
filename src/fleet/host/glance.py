"""A quick look at many working trees at once, none of which can run anything of its own.

As in `git`, questions are asked of a bare repository of ours. Here one serves all trees that share their objects, and
each tree's index is read where it stands: nothing is copied, and git is told to write nothing.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.core import ToolMissing
from fleet.core.frozen import dataclass
from fleet.host import armour, git
from fleet.host.git import PREFIX, Repository

TOGETHER = max(2, os.cpu_count() or 2)
STATUS = (
    "-c", "core.bare=false", "status", "-z", "--porcelain=v1", "--untracked-files=normal", "--no-renames",
    "--ignore-submodules=all",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Glance:
    """How many commits a tree is ahead of its base, and how many paths differ from the last one; None is unknown."""

    ahead: int | None = None
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    of: int
    is_status: bool
    args: tuple[str, ...]
    cwd: Path
    env: dict[str, str]


def glance(trees: Sequence[tuple[Repository, str | None]]) -> list[Glance]:
    """Look at each tree with its base."""
    heads = [git.head(found).commit for found, _ in trees]  # once: it is what git is asked about, too
    with TemporaryDirectory(prefix=PREFIX) as made:
        questions = list(_questions(Path(made), trees, heads))
        answers = {(one.of, one.is_status): answer for one, answer in _asked(questions)}
    return [
        Glance(_ahead(base, heads[number], answers.get((number, False))), _changed(answers.get((number, True))))
        for number, (_, base) in enumerate(trees)
    ]


def _ahead(base: str | None, head: str | None, answer: bytes | None) -> int | None:
    if base is not None and head == base:
        return 0
    return int(answer) if answer is not None and answer.strip().isdigit() else None


def _changed(answer: bytes | None) -> int | None:
    return None if answer is None else sum(1 for entry in answer.split(b"\0") if entry)


def _questions(
    made: Path, trees: Sequence[tuple[Repository, str | None]], heads: Sequence[str | None]
) -> Iterator[_Question]:
    shared: dict[Path, Path] = {}
    for number, ((found, base), head) in enumerate(zip(trees, heads, strict=True)):
        if found.common not in shared:
            shared[found.common] = _mirror(made / str(len(shared)), found.common)
        common = shared[found.common]
        own = common / "worktrees" / str(number)
        own.mkdir()
        (own / "HEAD").write_text(f"{head or 'ref: refs/heads/none'}\n")
        env = armour.environment(common) | {"GIT_DIR": str(own)}
        if head and base and head != base:
            yield _Question(number, False, ("rev-list", "--count", f"{base}..{head}", "--"), common, env)
        index = found.own / "index"
        if _is_plain(index):
            env = env | {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(found.top)}
            yield _Question(number, True, STATUS, found.top, env)


def _mirror(at: Path, common: Path) -> Path:
    armour.borrow(at, common / "objects")
    (at / "worktrees").mkdir()
    with suppress(OSError):
        git.copy_exclude(common, at)
    return at


def _is_plain(index: Path) -> bool:
    """Whether there is an index that can be read without waiting for anybody."""
    try:
        facts = index.lstat()
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size <= git.LARGEST_INDEX


def _asked(questions: Iterable[_Question]) -> Iterator[tuple[_Question, bytes | None]]:
    """What git answers, a few at a time; None when it could not, or not in time."""
    running: deque[tuple[_Question, subprocess.Popen[bytes]]] = deque()
    for question in questions:
        if len(running) >= TOGETHER:
            yield _answer(*running.popleft())
        running.append((question, _started(question)))
    while running:
        yield _answer(*running.popleft())


def _started(question: _Question) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            armour.command(*question.args), cwd=question.cwd, env=question.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as problem:
        raise ToolMissing("git is not installed") from problem


def _answer(question: _Question, process: subprocess.Popen[bytes]) -> tuple[_Question, bytes | None]:
    try:
        out, _ = process.communicate(timeout=git.SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return question, None
    return question, out if process.returncode == 0 else None

"""A quick look at many working trees at once, none of which can run anything of its own.

As in `git`, questions are asked of a bare repository of ours. Here one serves all trees that share their objects, and
each tree's index is read where it stands: git is told to write nothing. Only a large index is copied, once: git reads
every file again that was written in the same second as the index, until it may note in that what it found.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from tempfile import mkstemp

from fleet.core import ToolMissing
from fleet.core.frozen import dataclass
from fleet.host import armour, files, git
from fleet.host.git import PREFIX, Repository
from fleet.host.index import LARGEST
from fleet.host.leaving import temporary_directory
from fleet.host.run import PATIENCE, is_greedy

TOGETHER = max(2, os.cpu_count() or 2)
LARGE = 64 * 1024  # bytes of an index: some seven hundred files
STATUS = (
    "-c", "core.bare=false", "status", "-z", "--porcelain=v1", "--untracked-files=normal", "--no-renames",
    "--ignore-submodules=dirty",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tree:
    """A working tree, what its commits are counted from, and how copies of its index may be called, if any are kept."""

    repository: Repository
    base: str | None
    kept: Path | None = None


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


def glance(trees: Sequence[Tree]) -> list[Glance]:
    """Look at each tree with its base."""
    heads = [git.head(tree.repository).commit for tree in trees]  # once: it is what git is asked about, too
    with temporary_directory(PREFIX) as made:
        questions = list(_questions(made, trees, heads))
        answers = {(one.of, one.is_status): answer for one, answer in _asked(questions)}
    return [
        Glance(_ahead(tree.base, heads[number], answers.get((number, False))), _changed(answers.get((number, True))))
        for number, tree in enumerate(trees)
    ]


def _ahead(base: str | None, head: str | None, answer: bytes | None) -> int | None:
    if base is not None and head == base:
        return 0
    return int(answer) if answer is not None and answer.strip().isdigit() else None


def _changed(answer: bytes | None) -> int | None:
    return None if answer is None else sum(1 for entry in answer.split(b"\0") if entry)


def _questions(made: Path, trees: Sequence[Tree], heads: Sequence[str | None]) -> Iterator[_Question]:
    shared: dict[Path, Path] = {}
    alone = () if len(trees) < TOGETHER else ("-c", "core.preloadIndex=false")  # the others have the processors
    for number, (tree, head) in enumerate(zip(trees, heads, strict=True)):
        found, base = tree.repository, tree.base
        if found.common not in shared:
            shared[found.common] = _mirror(made / str(len(shared)), found.common)
        common = shared[found.common]
        own = common / "worktrees" / (head or "none")
        if not own.exists():
            own.mkdir()
            (own / "HEAD").write_text(f"{head or 'ref: refs/heads/none'}\n")
        env = armour.environment(common) | {"GIT_DIR": str(own)}
        if head and base and head != base:
            yield _Question(number, False, ("rev-list", "--count", f"{base}..{head}", "--"), common, env)
        index = _index(found.own / "index", tree.kept)
        if index is not None:
            env = env | index | {"GIT_WORK_TREE": str(found.top)}
            yield _Question(number, True, (*alone, *STATUS), found.top, env)


def _mirror(at: Path, common: Path) -> Path:
    armour.borrow(at, common / "objects")
    (at / "worktrees").mkdir()
    with suppress(OSError):
        git.copy_exclude(common, at)
    return at


def _index(index: Path, kept: Path | None) -> dict[str, str] | None:
    """What git is told of an index; None without one that can be read without waiting for anybody."""
    facts = _plain(index)
    if facts is None:
        return None
    if kept is not None and facts.st_size >= LARGE:
        with suppress(OSError):
            return {"GIT_INDEX_FILE": str(_copy(index, facts, kept)), "GIT_OPTIONAL_LOCKS": "1"}
    return {"GIT_INDEX_FILE": str(index)}


def _copy(index: Path, facts: os.stat_result, kept: Path) -> Path:
    """A copy of an index as it stands, in which git may note what it finds; the copy of an earlier one is removed.

    It has the time of the original: files written in the second in which that was are compared byte by byte at first.
    """
    wanted = kept.with_name(f"{kept.name}.{facts.st_ino:x}.{facts.st_mtime_ns:x}.{facts.st_size:x}")
    if _plain(wanted) is None:
        forget(kept)
        fd, draft = mkstemp(prefix=f"{kept.name}.", dir=kept.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(files.read(index, limit=LARGEST) or b"")
        os.utime(draft, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        os.replace(draft, wanted)
    return wanted


def forget(kept: Path) -> None:
    """Remove every copy of an index that was called so."""
    for one in kept.parent.glob(f"{escape(kept.name)}.*"):
        one.unlink(missing_ok=True)


def _plain(path: Path) -> os.stat_result | None:
    """The facts of a file that can be read as an index."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST else None


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
    until, doubtful = time.monotonic() + git.SECONDS, True
    while time.monotonic() < until:
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            if is_greedy(process) or (doubtful and git.waits_for(question.cwd)):
                break
            doubtful = False
        else:
            return question, out if process.returncode == 0 else None
    process.kill()
    process.communicate()
    return question, None

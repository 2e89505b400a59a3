"""Finish a move of a branch that was cut off: its files may be new, or half written, while the ref is still old."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.host import files
from fleet.host.git import EMPTY_TREE
from fleet.host.repository.move import WorkingTree, ask_in, checked_out, move_branch
from fleet.host.repository.refs import ref
from fleet.host.repository.tell import refused

GONE, LINK, SUBMODULE, RUNNABLE = "000000", "120000", "160000", "100755"
PLAIN_MODE, RUNNABLE_MODE = 0o644, 0o755
ZEROS = "0" * 40
LANDED_REFS = "refs/fleet/landed"
WORKING_TREE_LOCKS = ("index.lock", "HEAD.lock")
CLOCK_TOLERANCE_S = 2.0  # file systems may be late
OWNER_RUNS = 0o100


@dataclass(frozen=True, slots=True)
class Version:
    """One path, as a commit has it."""

    path: str
    mode: str
    name: str

    @property
    def index_line(self) -> bytes:
        entry = f"0 {ZEROS}" if self.mode == GONE else f"{self.mode} {self.name} 0"
        return f"{entry}\t".encode() + os.fsencode(self.path) + b"\0"


@dataclass(frozen=True, slots=True)
class Difference:
    """One path in which two commits differ."""

    old: Version
    new: Version


def finish_move(
    common: Path,
    branch: str,
    old: str | None,
    new: str,
    *,
    since: float,
    why: str,
    aside: Path,
    more: Sequence[str] = (),
) -> bool:
    """Carry on with a move whose processes are dead; whether the branch is at the new commit now.

    A move that had changed no file yet is left undone. A file that git had half written is put aside, and written anew.
    """
    found, trees = ref(common, f"refs/heads/{branch}"), checked_out(common, branch)
    if found not in (old, new):
        return False
    _remove_locks(common, branch, new, trees, since)
    if found == new or len(trees) != 1:
        return found == new
    at = trees[0]
    left = [one for one in _differences(at, old or EMPTY_TREE, new) if not _is_there(at, one.old)]
    arrived = [one for one in left if _is_there(at, one.new)]
    broken = [one for one in left if one not in arrived and _is_broken(at, one)]
    if not arrived and not broken:
        return False
    for one in broken:
        _restore(at, one.old, aside / one.old.path)
    lines = b"".join(one.new.index_line for one in arrived)
    done = ask_in(at, "update-index", "-z", "--index-info", stdin=lines)
    if done.code:
        raise refused(done, f"the files of {at.top} cannot follow")
    ask_in(at, "update-index", "-q", "--refresh")
    move_branch(common, branch, old, new, why=why, more=more)
    return True


def _remove_locks(common: Path, branch: str, new: str, trees: Sequence[WorkingTree], since: float) -> None:
    """Remove the locks that a killed git has left over this very move, which began at some moment."""
    for lock in (common / LANDED_REFS).glob("*.lock"):  # nobody else writes there while we may finish a move
        lock.unlink()
    locks = [common / f"refs/heads/{branch}.lock", *(one.own / name for one in trees for name in WORKING_TREE_LOCKS)]
    for lock in locks:
        with suppress(OSError):
            is_of_then = lock.stat().st_mtime >= since - CLOCK_TOLERANCE_S
            if is_of_then and lock.read_text(errors="replace").strip() in ("", new):
                lock.unlink()


def _differences(at: WorkingTree, old: str, new: str) -> Iterator[Difference]:
    done = ask_in(at, "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", old, new)
    if done.code:
        raise refused(done, f"{at.top} cannot be read")
    words = done.out.split(b"\0")
    for facts, name in zip(words[::2], words[1::2], strict=False):
        old_mode, new_mode, old_name, new_name, _ = facts.decode().removeprefix(":").split(" ")
        path = os.fsdecode(name)
        yield Difference(Version(path, old_mode, old_name), Version(path, new_mode, new_name))


def _is_there(at: WorkingTree, one: Version) -> bool:
    """Whether a path on the disk is as a commit has it."""
    path = at.top / one.path
    try:
        mode = path.lstat().st_mode
    except OSError:
        return one.mode == GONE
    if one.mode == SUBMODULE:
        return stat.S_ISDIR(mode)
    if one.mode == LINK:
        return stat.S_ISLNK(mode) and _blob_name(os.fsencode(os.readlink(path))) == one.name
    if one.mode == GONE or not stat.S_ISREG(mode) or bool(mode & OWNER_RUNS) != (one.mode == RUNNABLE):
        return False
    return ask_in(at, "hash-object", f"--path={one.path}", "--", one.path).out.decode().strip() == one.name


def _is_broken(at: WorkingTree, one: Difference) -> bool:
    """Whether git was killed between removing a file and having written all of it."""
    path = at.top / one.new.path
    if one.new.mode in (GONE, LINK, SUBMODULE):
        return False
    if not os.path.lexists(path):
        return True
    if not path.is_file() or path.is_symlink():
        return False
    whole, written = _content(at, one.new), path.read_bytes()
    return len(written) < len(whole) and whole.startswith(written)


def _content(at: WorkingTree, one: Version) -> bytes:
    """What stands in a file of a commit when it is checked out."""
    return ask_in(at, "cat-file", "--filters", f"--path={one.path}", one.name).out


def _restore(at: WorkingTree, old: Version, aside: Path) -> None:
    """Put a half-written file aside, and what the old commit has there back."""
    path = at.top / old.path
    if os.path.lexists(path):
        files.private_dir(aside.parent)
        shutil.move(path, aside)  # the home may be on another disk
    if old.mode == GONE:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if old.mode == LINK:
        path.symlink_to(os.fsdecode(_content(at, old)))
        return
    path.write_bytes(_content(at, old))
    path.chmod(RUNNABLE_MODE if old.mode == RUNNABLE else PLAIN_MODE)


def _blob_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

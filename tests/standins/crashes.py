"""Whoever begins or ends an agent is killed in the middle of it: at a call of git's or tmux's, or at any moment."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from standins.coders.scratch import Ran, Record
from standins.yard import Yard

KILLED = -9
WHEN = ("before", "after", "orphan")
PROMPT = (
    "write a.txt committed\ncommit first\nwrite a.txt changed\nwrite s.txt staged\nstage s.txt\nwrite n.txt new\ndaemon"
)
LEFT = {"a.txt": b"changed\n", "s.txt": b"staged\n", "n.txt": b"new\n"}  # in a place, and nowhere else

COMMITTED = {"a.txt": "all of a\n", "b.txt": "all of b\n", "c.txt": "all of c\n"}
# A filter of git's that kills the git that writes a file, every git that this one was started by, and who started that.
CUT = """#!/bin/sh
at=$PPID
while [ "$(cat /proc/$at/comm)" = git ]; do all="$at $all"; at=$(cut -d' ' -f4 /proc/$at/stat); done
kill -9 $at $all
"""


@dataclass(frozen=True)
class Crash:
    """Killed at the n-th call of a program: before it, after it, or while it goes on."""

    program: str
    at: int
    when: str


def begun(yard: Yard, branch: str, crash: Crash) -> Ran:
    """A create that is killed, and what it left put right. How it went."""
    done = yard.fleet("create", branch, "-p", PROMPT, env=yard.crashing(crash.program, crash.at, crash.when))
    judge(yard, branch, wrote=settle(yard, branch))
    return done


def cut_short(yard: Yard, branch: str, kind: str = "worktree") -> Path:
    """A create that is killed with the git that fills its place: of three files there is one. Where that place is."""
    for name, text in COMMITTED.items():
        (yard.project / name).write_text(text)
    (yard.project / ".gitattributes").write_text("b.txt filter=cut\n")
    (yard.project / "fleet.yaml").write_text(f"workspace: {{place: {kind}}}\n")
    yard.git("add", "--all")
    yard.git("commit", "-qm", "Three files")
    cut = yard.root / "cut"
    cut.write_text(CUT)
    cut.chmod(0o755)
    yard.git("config", "filter.cut.smudge", str(cut))
    assert yard.fleet("create", branch).code == KILLED
    yard.git("config", "--unset", "filter.cut.smudge")
    (place,) = yard.home.glob(f"places/*/{branch}-*")
    assert [(place / name).exists() for name in COMMITTED] == [True, False, False]
    return place


def ended(yard: Yard, branch: str, crash: Crash) -> Ran:
    """A kill that is killed, of an agent whose place holds something, and what it left put right. How it went."""
    yard.create(branch, PROMPT)
    done = yard.fleet("kill", "--force", branch, env=yard.crashing(crash.program, crash.at, crash.when))
    settle(yard, branch)
    judge(yard, branch, wrote=True)
    return done


def restored(yard: Yard, branch: str, crash: Crash) -> Ran:
    """A restore that is killed, and what it left put right: then all of it is there, or nothing. How it went."""
    yard.create(branch, PROMPT)
    (row,) = yard.kill(branch)
    back = yard.root / f"back-{branch}"
    words = ("salvage", "restore", row["saved"], "--to", back, "--branch", f"back-{branch}")
    done = yard.fleet(*words, env=yard.crashing(crash.program, crash.at, crash.when))
    yard.mended()
    assert not list(yard.root.glob(".restoring-*"))
    if not back.exists():
        yard.ok(*words)
    assert {path: (back / path).read_bytes() for path in LEFT} == LEFT
    assert yard.git("status", "--porcelain", cwd=back).split() == ["M", "a.txt", "A", "s.txt", "??", "n.txt"]
    yard.git("worktree", "remove", "--force", str(back))
    assert len(yard.git("worktree", "list").splitlines()) == 1
    for name in {f"back-{branch}"} & yard.branches():
        yard.git("branch", "-qD", name)
    judge(yard, branch, wrote=True)
    return done


def at_a_moment(yard: Yard, words: Sequence[str], after: float) -> float:
    """Kill whoever runs this command after some seconds, if it still runs; how long it ran."""
    running, began = yard.start(*words), time.monotonic()
    try:
        with suppress(subprocess.TimeoutExpired):
            running.wait(after)
    finally:
        running.kill()
        running.communicate()
    return time.monotonic() - began


def settle(yard: Yard, branch: str) -> bool:
    """Repair; then nothing is there, or a whole agent that can be ended. Whether that one had done its work."""
    yard.mended()
    row = yard.rows().get(branch)
    if row is None:
        return False
    assert row["state"] in ("starting", "waiting", "working", "ended"), row
    took = bool(yard.took(row["attempt"]))
    if took and row["state"] != "ended":
        yard.rested(row["attempt"])
    yard.kill(branch)
    return took and row["state"] != "ended"


def judge(yard: Yard, branch: str, *, wrote: bool) -> None:
    """Nothing is left, and what the agent wrote is on its branch and in its salvage; that is put away then."""
    assert not yard.leftovers()
    found = [name for name, commit in yard.salvage().items() if _branch(yard, commit) == branch]
    if wrote:
        assert yard.git("show", f"{branch}:a.txt") == "committed"
        assert any(all(_saved(yard, name, path) == what for path, what in LEFT.items()) for name in found), found
    if branch in yard.branches():
        assert yard.git("rev-parse", branch) != yard.git("rev-parse", "main"), "a branch without a commit is left"
        yard.git("branch", "-qD", branch)
    for name in found:
        yard.git("update-ref", "-d", f"refs/fleet/salvage/{name}")


def _branch(yard: Yard, commit: str) -> str:
    said: Record = json.loads(yard.git("log", "-1", "--format=%b", commit))
    return str(said["branch"])


def _saved(yard: Yard, name: str, path: str) -> bytes | None:
    for folder in ("files", "staged"):  # what is as the index has it is only there
        with suppress(subprocess.CalledProcessError):
            return yard.saved(name, path, folder)
    return None

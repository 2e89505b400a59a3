"""`fleet merge` is killed at random moments, with every git that it started: a landing is whole or it never was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

from standins.coders.scratch import Scratch, scratch
from standins.witness.scene import LARGE, SEED

FILES = 60  # that one result adds, so that there is something to be cut off
KILLS = 60 if LARGE else 8


def test_a_landing_that_is_killed_is_whole_or_never_was(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with scratch(tmp_path) as home:
        project, task = make_result(home)
        before = git(project, "rev-parse", "main")
        (project / "README").write_text("mine\n")
        whole_s = measure(home, project, task)
        for number in range(KILLS):
            kill_one(home, project, ("merge", task), chance.uniform(0.1, 1.1) * whole_s)
            tip = git(project, "rev-parse", "main")
            done = home.fleet("merge", task, cwd=project)
            assert done.code == 0, f"seed {SEED}, kill {number}: {done.err}{done.out}"
            assert git(project, "status", "--porcelain") == "M README", f"seed {SEED}, kill {number}"
            landed = git(project, "rev-list", "--first-parent", "--count", f"{before}..main")
            assert (landed, tip in (before, git(project, "rev-parse", "main"))) == ("1", True)
            assert not list((project / ".git").rglob("*.lock"))
            kill_one(home, project, ("merge", "--undo"), chance.uniform(0.1, 1.1) * whole_s)
            again = home.fleet("merge", "--undo", cwd=project)  # it was taken back already, or is now
            assert git(project, "rev-parse", "main") == before, f"seed {SEED}, kill {number}: {again.err}"
            assert git(project, "status", "--porcelain") == "M README", f"seed {SEED}, kill {number}"


def make_result(home: Scratch) -> tuple[Path, str]:
    project = home.place("project", git=True)
    (project / "fleet.yaml").write_text("project: {name: p}\nworkspace: {place: worktree}\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "fleet.yaml")
    script = f"for n in $(seq {FILES}); do seq 3000 >big$n; done"
    home.settle("coder=writes", coders={"writes": {"argv": ["/bin/sh", "-c", script]}})
    task = home.add("write files", cwd=project)
    home.drain()
    return project, task


def measure(home: Scratch, project: Path, task: str) -> float:
    """How long a landing takes here and now, so that kills fall into it."""
    began = os.times().elapsed
    home.ok("merge", task, cwd=project)
    took = os.times().elapsed - began
    home.ok("merge", "--undo", cwd=project)
    return took


def kill_one(home: Scratch, project: Path, words: tuple[str, ...], after_s: float) -> None:
    process = subprocess.Popen(
        [home.python, "-m", "fleet", *words], cwd=project, env=home.env, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        for pid in [*children_of(process.pid), process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def children_of(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def git(project: Path, *words: str) -> str:
    who = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
    return subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, text=True).stdout.strip()

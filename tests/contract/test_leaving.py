"""A supervisor leaves without unwinding: what it made under the system's temporary directory goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 25
# Threads look at a repository without a pause, and the process leaves in the middle of that: each time a little later.
LOOKS_AND_LEAVES = """
import sys, threading
from pathlib import Path
from fleet.host import git, leaving

repository = git.find(Path(sys.argv[1]))
tip = git.head(repository).commit
begun = threading.Barrier(7)

def look():
    begun.wait()
    while True:
        with git.mirror(repository) as mirror:
            if mirror.tree(tip) is None or mirror.dirty(tip) is None:
                print("an answer was believed that a killed git gave", flush=True)

for _ in range(6):
    threading.Thread(target=look, daemon=True).start()
begun.wait()
threading.Event().wait(float(sys.argv[2]))
leaving.leave(3)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    identity = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=made, check=True)
    return made


def test_whoever_leaves_while_others_look_leaves_no_directory_behind(repository: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for number in range(ROUNDS):
        argv = [sys.executable, "-c", LOOKS_AND_LEAVES, str(repository), f"{number * 0.007:.3f}"]
        env = os.environ | {"TMPDIR": str(scratch)}
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (3, "", "")
        assert list(scratch.iterdir()) == [], f"in round {number}"

"""An agent that moves other branches and tags of the user's repository: it is told, and set back by what is told."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch

WHO = ("-c", "user.name=n", "-c", "user.email=e@example.invalid")
WORKS = f"cat >/dev/null; echo x >work.txt; git add work.txt; git {' '.join(WHO)} commit -qm work"
MEDDLES = f"""{WORKS}
git branch -f kept HEAD && git branch -D released && git tag -d v1 && git branch extra && git pack-refs --all
"""
WAITS = f'{WORKS}; mkfifo "$FLEET_ARTIFACT_DIR/gate"; cat "$FLEET_ARTIFACT_DIR/gate"'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def git(at: Path, *args: str) -> str:
    return subprocess.run(["git", *WHO, *args], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


def refs(at: Path) -> list[str]:
    return [line for line in git(at, "for-each-ref", "refs/heads", "refs/tags").splitlines() if "/fleet/" not in line]


def test_what_an_agent_moved_is_in_its_receipt_and_shown_with_the_command_that_sets_it_back(home: Scratch) -> None:
    project = home.place("p", git=True)
    for name in ("kept", "released"):
        git(project, "branch", name)
    git(project, "tag", "v1")
    was, before = git(project, "rev-parse", "main"), refs(project)
    home.settle("coder=meddles", coders={"meddles": {"argv": ["/bin/sh", "-c", MEDDLES]}})
    task = home.add("work", "--place", "worktree", "--check", "test -f work.txt", cwd=project)

    home.drain()

    receipt = home.receipt(task)
    head = receipt["result"]["head"]
    assert (receipt["verdict"], receipt["result"]["moved"]) == (
        "verified",
        [
            {"ref": "refs/heads/extra", "old": None, "new": head},
            {"ref": "refs/heads/kept", "old": was, "new": head},
            {"ref": "refs/heads/released", "old": was, "new": None},
            {"ref": "refs/tags/v1", "old": was, "new": None},
        ],
    )
    said = [one["text"] for one in home.shown(task)["comments"] if one["author"] == "fleet"]
    assert said[1].startswith(f"refs/heads/kept was at {was[:12]}, is at {head[:12]}: while {task}.1 ran, by its agent")
    assert said[1] in " ".join(home.ok("show", task).out.split())
    assert refs(project) != before
    for one in said:
        subprocess.run(shlex.split(one.rpartition("to set it back: ")[2]), check=True)
    assert refs(project) == before


def test_branches_of_other_attempts_are_theirs_and_what_a_person_did_meanwhile_is_a_fact(home: Scratch) -> None:
    project = home.place("p", git=True)
    coders = {"waits": {"argv": ["/bin/sh", "-c", WAITS]}, "works": {"argv": ["/bin/sh", "-c", WORKS]}}
    home.settle("coder=works", "max_concurrent=4", coders=coders)
    waits = home.add("wait", "--place", "worktree", "--coder", "waits", cwd=project)
    run = home.run("--drain")
    run.hear("agent started", task=waits)
    kinds = ("worktree", "clone", "worktree", "clone")
    others = [home.add("work", "--place", kind, cwd=project) for kind in kinds]
    for one in others:
        run.hear("settled", task=one)
    was = git(project, "rev-parse", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "a person's")
    home.open_gate(waits)
    assert run.wait() == 0

    now = git(project, "rev-parse", "main")
    assert home.receipt(waits)["result"]["moved"] == [{"ref": "refs/heads/main", "old": was, "new": now}]
    assert [home.receipt(one)["result"]["moved"] for one in others] == [[], None, [], None]
    assert run.all("ref moved") == [run.hear("ref moved", attempt=f"{waits}.1", ref="refs/heads/main")]

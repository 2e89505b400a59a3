"""An agent is kept from the queue, the ledger, the receipts and the files of other tasks; what it tries is recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import parts
from standins.coders.scratch import Record, Scratch, scratch

TRIED = subprocess.run(["unshare", "-Um", "--map-current-user", "true"], capture_output=True, text=True, check=False)
fences = pytest.mark.skipif(TRIED.returncode != 0, reason=f"no namespaces here: {TRIED.stderr.strip()}")
FLEET = f"{sys.executable} -m fleet"
TRIES = f"""
cat >/dev/null
try() {{ name=$1; shift; if sh -c "$*" >/dev/null 2>>said; then echo "$name" >>worked; fi; }}
cd "$WHERE"
try ledger 'echo x >>"$H/fleet.db"'
try settings 'cat "$H/runtime.toml"'
try planted 'echo x >"$H/planted"'
try own-task 'echo x >>"$FLEET_TASK_DIR/task.json"'
try own-receipt 'echo {{}} >"$FLEET_TASK_DIR/attempts/1/receipt.json"'
try own-output 'cat "$FLEET_TASK_DIR/attempts/1/stdout"'
try other-task 'echo x >"$H/tasks/t1/artifacts/planted"'
try other-files 'ls "$H/tasks/t1"'
try looking '{FLEET} tasks'
try abort '{FLEET} abort t1'
try config '{FLEET} config set max_concurrent=9'
try notes 'echo mine >"$FLEET_ARTIFACT_DIR/notes"'
echo x >work.txt
"""

# What a worktree's agent needs, and then what it has no business with: only the first line is to work.
TREADS = """
cat >/dev/null
notes=$FLEET_ARTIFACT_DIR
try() { name=$1; shift; if sh -c "$*" >>"$notes/said" 2>&1; then echo "$name" >>"$notes/worked"; fi; }
G=$(git rev-parse --git-common-dir); export G
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
echo x >work.txt
try stash 'git add -A && git stash && git stash pop'
try commit 'git commit -qm work && git status'
try branch 'git branch other && git switch -q other && git switch -q - && git branch -D other'
try fetch 'git fetch -q "$P" main'
try inner 'git worktree add -q --detach i && git -C i commit -q --allow-empty -m x && git worktree remove i'
try pack 'git pack-refs --all && git repack -qadn'
try tree 'echo "checks: [\"true\"]" >"$P/fleet.yaml"'
try new 'echo x >"$P/new"'
try config 'git config core.pager evil'
try config-file 'echo >>"$G/config"'
try worktree-config 'echo >>"$P/.git/config.worktree"'
try attributes 'echo "* filter=x" >>"$P/.git/info/attributes"'
try hook 'echo x >"$P/.git/hooks/x"'
try alternates 'echo / >"$P/.git/objects/info/alternates"'
try ref 'git update-ref refs/fleet/attempts/t1.1 HEAD'
try main 'git update-ref refs/heads/main HEAD || git branch -f main HEAD || git push -q . +HEAD:main'
try main-file 'git rev-parse HEAD >"$P/.git/refs/heads/main" || rm "$P/.git/refs/heads/main"'
try main-moved 'mv "$P/.git/refs/heads" "$P/.git/refs/h2"'
try head 'echo ref: refs/heads/other >"$P/.git/HEAD" || rm "$P/.git/HEAD"'
try index 'echo x >"$P/.git/index"'
try others 'echo x >"$P/.git/worktrees/elsewhere/index" || rm -r "$P/.git/worktrees/elsewhere"'
try ref-file 'echo x >"$P/.git/refs/fleet/x"'
try moved 'mv "$P/.git/refs" "$P/.git/refs2" || mv "$P/.git/objects" "$P/.git/o2" || mv "$P/.git" "$P/.git2"'
try unmounted 'umount "$P/.git/config" || umount "$P"'
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def git(at: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


def refused(home: Scratch, task: str) -> list[str]:
    lines = (home.home / "tasks" / task / "events.jsonl").read_text().splitlines()
    events: list[Record] = [json.loads(line) for line in lines]
    return [one["text"] for one in events if one["kind"] == "refused_command"]


def tries(home: Scratch, place: Path, script: str = TRIES, **env: str) -> dict[str, object]:
    given = {f"env.{name}": value for name, value in {"H": str(home.home), "WHERE": str(place), **env}.items()}
    return {"argv": ["/bin/sh", "-c", script], **given}


@fences
def test_an_agent_gets_at_nothing_but_its_own(home: Scratch) -> None:
    place = home.place("p")
    project = home.place("r", git=True)
    treads = tries(home, place, TREADS, P=str(project))
    home.settle("coder=tries", "max_concurrent=1", coders={"tries": tries(home, place), "treads": treads})
    other = home.add("wait", cwd=home.place("q"))
    home.ok("block", other, "later")
    task = home.add("try it all", cwd=place)
    apart = {kind: home.add(kind, "--place", kind, "--coder", "treads", cwd=project) for kind in ("worktree", "clone")}

    began = git(project, "rev-parse", "main")
    git(project, "pack-refs", "--all")
    git(project, "worktree", "add", "--quiet", "--detach", str(home.root / "elsewhere"))
    said = home.drain()

    assert (git(project, "rev-parse", "main"), git(project, "status", "--short")) == (began, "")
    assert (place / "worked").read_text().split() == ["notes"]
    assert home.artifact(task, "notes").read_text() == "mine\n"
    assert home.task(task)["state"] == "done"
    assert home.task(other)["state"] == "blocked"
    assert not home.artifact(other, "planted").exists()
    assert not (home.home / "planted").exists()
    assert refused(home, task) == ["fleet abort t1", "fleet config set max_concurrent=9"]
    assert "fleet abort t1" in home.ok("task", task, "log").out
    words = (place / "said").read_text()
    assert "an agent cannot change the queue" in words
    assert "from where the queue cannot be seen" in words
    assert not [one for one in said if one["event"] == "agent not fenced"]
    worked = {kind: home.artifact(one, "worked").read_text().split() for kind, one in apart.items()}
    assert worked["worktree"] == ["stash", "commit", "branch", "fetch", "inner", "pack"], said
    assert worked["clone"] == [*worked["worktree"], "config", "config-file", "ref", "main"], "what it has of its own"
    assert sorted(one.name for one in project.iterdir()) == [".git", "README"]
    assert [home.task(one)["state"] for one in apart.values()] == ["done", "done"]
    assert all("work.txt" in home.ok("diff", f"fleet/{one}", cwd=project).out for one in apart.values())


def test_without_a_fence_it_is_refused_and_recorded_all_the_same(home: Scratch) -> None:
    place = home.place("p")
    script = (
        f"cat >/dev/null; {FLEET} abort t1; echo $? >work.txt; FLEET_HOME=$H/../own {FLEET} add 'my own queue' >added"
    )
    home.settle("coder=tries", "fence=off", coders={"tries": tries(home, place, script)})
    task = home.add("abort yourself", cwd=place)

    home.drain()

    assert (place / "work.txt").read_text() == "1\n"
    assert (place / "added").read_text(), "a home that it names itself is its own affair"
    assert refused(home, task) == ["fleet abort t1"]
    assert home.task(task)["state"] == "done"


def test_a_fence_that_is_required_and_cannot_be_starts_nothing(home: Scratch) -> None:
    """The home cannot be hidden from a task that works in it."""
    home.settle("coder=ok", "fence=require", "limits.attempts=1", coders={"ok": {}})
    task = home.add("work in the home", cwd=home.home)

    home.drain()

    row = home.task(task)
    assert row["state"] == "failed"
    assert "is to be hidden, and to be shown" in row["cause"]


def test_an_agent_without_a_fence_is_said(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}})
    task = home.add("work in the home", cwd=home.home)

    said = home.drain()

    (warning,) = [one for one in said if one["event"] == "agent not fenced"]
    assert (warning["task"], warning["level"]) == (task, "warning")
    assert "is to be hidden, and to be shown" in warning["text"]


@fences
@pytest.mark.bd
def test_an_agent_cannot_close_its_task_with_bd(home: Scratch) -> None:
    place, project = home.place("p"), home.place("project")
    bd = parts.find("bd").bin
    home.env["PATH"] = f"{bd}:{home.env['PATH']}"
    home.ok("init", "--home-only", "--tracker", "beads")
    script = (
        "cat >/dev/null; bd close $FLEET_TASK_ID 2>said; echo $? >work.txt; bd show $FLEET_TASK_ID 2>>said; "
        f"BEADS_DIR=$H/.beads {bd}/bd close $FLEET_TASK_ID || echo out >>work.txt; "
        f"cd {project}; mkdir .beads; bd list >>{place}/said 2>&1; true"
    )
    home.settle("coder=tries", "limits.attempts=1", coders={"tries": tries(home, place, script)})
    task = home.add("close yourself", "--check", "false", cwd=place)

    home.drain()

    assert home.task(task)["state"] == "refused", "its own word did not close it"
    assert refused(home, task) == [f"bd close {task}"]
    words = (place / "said").read_text()
    assert "A task is closed by fleet alone" in words
    assert "from where the queue cannot be seen" in words
    assert words.count("inside an attempt") == 2, "what the project has of its own is not our business"
    assert (place / "work.txt").read_text().split() == ["1", "out"]

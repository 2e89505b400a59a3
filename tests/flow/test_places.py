"""Tasks are worked on in places of their own; what they hold is shown, saved, brought back and cleaned up."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from standins.coders.scratch import Scratch, scratch, until
from standins.window import columns, terminal
from standins.yard import yard

FLEET_YAML = """\
project: {name: places}
nodes: {only: {endpoint: "http://127.0.0.1:9"}}
models: {m: {node: only, ollama_model: "demo:7b", litellm_alias: x}}
agents: {a: {model: m, description: does things}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        made.settle("coder=ok", "backoff=0.1s", coders={"ok": {}, "fails": {}})
        yield made


def git(cwd: Path, *args: str) -> str:
    identity = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
    return subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(home: Scratch) -> Path:
    """A project with a fleet.yaml and a directory inside."""
    repo = home.place("project", git=True)
    (repo / "fleet.yaml").write_text(FLEET_YAML)
    (repo / "inside").mkdir()
    (repo / "inside/file").write_text("here\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "second")
    return repo


def test_a_task_of_a_project_is_worked_on_beside_it_and_brought_back_whole(home: Scratch, project: Path) -> None:
    """One story, because each part of it needs what the one before has left."""
    before = git(project, "rev-parse", "HEAD")
    done = home.add("one", cwd=project / "inside")
    failed = home.add("two", "--coder", "fails", "--attempts", "2", cwd=project)
    cloned = home.add("three", "--place", "clone", cwd=project)
    here = home.add("four", "--place", "inplace", "--coder", "fails", "--attempts", "1", cwd=project)
    home.drain()

    # where each worked
    shown = home.shown(done)
    place = Path(shown["row"]["cwd"])
    assert shown["row"]["branch"] == f"fleet/{done}"
    assert place.name == "inside"
    assert place.is_relative_to(home.home / "places")
    assert shown["history"][0]["repository"] == str(project)
    text = home.ok("show", done).out
    assert f"place:     worktree of {project}\nbranch:    fleet/{done}\n" in text
    assert f"cwd:       {place}\n" in text
    assert git(project, "show", f"fleet/{done}:inside/work.txt") == f"{done}.1"
    assert home.receipt(done)["result"]["commits"][0]["subject"] == f"work of {done}.1"
    assert git(project, "show", f"fleet/{cloned}:work.txt") == f"{cloned}.1", "what a clone committed came back"
    assert (project / "work.txt").read_text() == f"{here}.1\n"
    assert git(project, "rev-parse", "main") == before
    tried = home.shown(failed)["history"]
    assert len({one["cwd"] for one in tried}) == 1
    unfinished = Path(tried[0]["cwd"])
    assert (unfinished / "work.txt").read_text() == f"{failed}.1\n{failed}.2\n", "a retry goes on in the same place"

    # what each has
    assert f"+{failed}.2\n" in home.ok("diff", failed, cwd=project / "inside").out
    assert f"+{done}.1\n" in home.ok("diff", f"fleet/{done}", cwd=unfinished).out
    assert "work.txt | 1 +" in home.ok("diff", f"{cloned}.1", "--stat").out
    told = home.ok("diff", done, "--json", cwd=project).json()
    assert told["files"] == [{"path": "inside/work.txt", "added": 1, "removed": 0}]
    assert (told["branch"], told["repositories"], told["place_is_there"]) == (f"fleet/{done}", [], True)
    assert f"+{done}.1\n" in told["patch"]
    unknown = home.fleet("diff", "nothing", cwd=project)
    assert (unknown.code, unknown.err.splitlines()[-1]) == (3, "  next: fleet tasks --all")

    # nothing is offered that somebody may come back to
    seen = home.ok("clean", "--places", "--json", cwd=project).json()
    assert (seen["removed"], seen["removable"]) == ([], [])
    assert {one["task"]: one["why"] for one in seen["kept"]} == {
        done: "its last attempt ended less than a day ago",
        failed: "its task waits for you",
        cloned: "its last attempt ended less than a day ago",
    }
    assert all(one["size"] > 0 for one in seen["kept"])
    (project / "work.txt").unlink()
    git(project, "merge", "-q", f"fleet/{done}")
    offered = home.ok("clean", "--places", cwd=project / "inside")
    assert "its branch is merged" in offered.out
    assert offered.err == "remove them with: fleet clean --places --yes\n"
    assert place.exists()
    (unfinished / "precious").write_text("precious")
    cleaned = home.ok("clean", "--places", "--yes", cwd=project).out
    assert f"removed {place.parent}; nothing to save\n" in cleaned
    assert not place.exists()
    assert unfinished.exists()
    assert git(project, "worktree", "list", "--porcelain").count("worktree ") == 2


def test_what_is_saved_is_listed_shown_restored_and_dropped(home: Scratch, project: Path) -> None:
    task = home.add("one", "--coder", "fails", "--attempts", "1", cwd=project)
    home.drain()
    place = Path(home.task(task)["cwd"])
    (place / "precious").write_text("precious")
    git(project, "checkout", "-q", "-b", "elsewhere")
    git(place, "-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "empty")
    git(project, "merge", "-q", f"fleet/{task}")
    assert home.ok("clean", "--places", cwd=project).err == "every place is still needed\n", "it may be tried again"
    home.ok("abort", task)
    home.ok("clean", "--places", "--yes", cwd=project)
    assert not place.exists()

    (listed,) = home.ok("salvage", "list", "--json", cwd=project / "inside").json()
    assert (listed["name"], listed["task"], listed["branch"]) == (task, task, f"fleet/{task}")
    assert f"fleet/{task}" in home.ok("salvage", "list", cwd=project).out
    assert "file     precious  8 B" in home.ok("salvage", "show", task, cwd=project).out
    back = home.root / "back"
    home.ok("salvage", "restore", task, "--to", back, "--branch", "again", cwd=project)
    assert ((back / "precious").read_text(), (back / "work.txt").read_text()) == ("precious", f"{task}.1\n")
    assert git(back, "status", "--porcelain").splitlines() == ["?? precious", "?? work.txt"]
    again = home.fleet("salvage", "restore", task, "--to", back, cwd=project)
    assert (again.code, "not written over" in again.err) == (1, True)
    refused = home.fleet("salvage", "drop", task, cwd=project)
    assert (refused.code, "2 files, 0 commits" in refused.err) == (2, True)
    assert refused.err.endswith(f"next: fleet salvage drop {task} --yes\n")
    dropped = home.ok("salvage", "drop", f"fleet/{task}", "--yes", cwd=back)
    assert dropped.out.startswith(f"Dropped {task} (")
    assert home.ok("salvage", "list", "--json", cwd=project).json() == []
    assert home.ok("salvage", "list", cwd=project).err == "nothing was saved here\n"


@pytest.mark.long
def test_what_is_shown_fits_the_terminal_and_is_whole_when_piped(home: Scratch, project: Path) -> None:
    title, words = "Write a very long story about the harbour " * 3, "写 a word " * 40
    done = home.add(title, cwd=project)
    home.drain()
    waits = home.add(title, "--description", words, "--check", "true " * 40, cwd=project)
    git(project, "checkout", "-q", "-b", "elsewhere")
    git(project, "merge", "-q", f"fleet/{done}")
    commands = (("show", done), ("show", waits), ("ready",), ("clean", "--places", "--yes"))
    piped = [home.ok(*one, cwd=project).out for one in commands[:3]] + [home.ok("clean", "--places", cwd=project).out]
    cwd = home.task(done)["cwd"]
    assert [cwd in piped[0], words.strip() in piped[1], f"[{project}]" in piped[2], cwd in piped[3]] == [True] * 4
    for width in (40, 80):
        for one in commands if width == 80 else commands[:3]:
            lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal(home, *one, width=width, cwd=project)).splitlines()
            assert max(map(columns, lines)) <= width, (one, width)
        text = re.sub(r"\s", "", terminal(home, "show", waits, width=width))
        assert re.sub(r"\s", "", words) in text, "nothing of it is cut"


def test_where_there_can_be_no_place_a_task_is_told_why(home: Scratch) -> None:
    plain = home.place("plain")
    (plain / "fleet.yaml").write_text(FLEET_YAML)
    unborn, still_unborn = (home.place(name, git=True, commit=False) for name in ("unborn", "still unborn"))
    for repository in (unborn, still_unborn):
        (repository / "fleet.yaml").write_text(FLEET_YAML)
    as_it_is = home.add("one", cwd=plain)
    new = home.add("two", cwd=unborn)  # its agent makes the first commit, so nobody else may depend on there being none
    asked = home.add("three", "--place", "worktree", "--attempts", "1", cwd=plain)
    asked_too = home.add("four", "--place", "clone", "--attempts", "1", cwd=still_unborn)
    home.drain()
    rows = home.tasks()
    assert [rows[name]["state"] for name in (as_it_is, new)] == ["done", "done"]
    assert (rows[as_it_is]["cwd"], rows[new]["cwd"]) == (str(plain), str(unborn))
    assert "is in no git repository" in rows[asked]["cause"]
    assert "has no commit yet" in rows[asked_too]["cause"]
    later = home.add("five", cwd=plain)
    kept = home.ok("prompt", later, "in a word", "--json", cwd=home.root).json()
    assert [one["cause"] for one in kept] == ["it is told when it begins"], "its id says where, also outside"
    nobody = home.fleet("prompt", "t99", "in a word", cwd=home.root)
    assert (nobody.code, "is not in a git repository" in nobody.err) == (3, True)
    outside = home.fleet("salvage", "show", "x", cwd=home.root)
    assert (outside.code, "is in no git repository" in outside.err) == (3, True)


@pytest.mark.tmux
@pytest.mark.long
def test_the_place_of_an_agent_is_compared_saved_and_restored_by_the_names_that_people_use(tmp_path: Path) -> None:
    with yard(tmp_path) as made:
        (made.project / "fleet.yaml").write_text(FLEET_YAML + "workspace: {branch_prefix: agents/, env_file: .env.x}\n")
        first = made.create("fix/auth", "write q 1")
        until((Path(first["path"]) / "q").exists)
        assert "+1" in made.ok("diff", "fix/auth").out
        (one,) = made.ok("clean", "--places", "--json").json()["kept"]
        assert (one["branch"], one["why"]) == ("agents/fix/auth", "its agent has not been ended")
        made.kill("fix/auth")
        assert made.ok("clean", "--places").err == "every place is still needed\n"
        gone = made.fleet("diff", "fix/auth")
        assert (gone.code, "is gone" in gone.err) == (3, True), "its branch held nothing, and went with it"
        for name in (first["task"], first["attempt"], "agents/fix/auth", "fix/auth"):
            assert "file     q" in made.ok("salvage", "show", name).out
        assert "file     q" in made.ok("salvage", "show", first["task"], cwd=made.root).out
        (saved,) = made.ok("salvage", "list", "--json", cwd=made.root).json()
        assert (saved["task"], saved["repository"]) == (first["task"], str(made.project))
        assert made.ok("logs", first["task"], "--json", cwd=made.root).json()["lines"]
        made.ok("salvage", "restore", "fix/auth", "--to", "../again")
        assert (made.project.parent / "again/q").read_text().strip() == "1"
        made.git("worktree", "remove", "--force", "../again")
        made.ok("salvage", "drop", "fix/auth", "--yes")
        assert not made.salvage()


@pytest.mark.tmux
def test_what_is_restored_stands_beside_the_checkout_and_not_in_it(tmp_path: Path) -> None:
    with yard(tmp_path) as made:
        inside = made.project / "inside"
        inside.mkdir()
        first = made.create("work", "write q 1")
        made.kill("work")
        back = made.project.parent / f"project-{first['attempt']}"
        assert made.ok("salvage", "restore", "work", cwd=inside).out == f"Restored {first['attempt']} in {back}\n"
        assert (back / "q").read_text() == "1\n"
        assert made.git("status", "--porcelain", "--ignored") == ""
        again = made.fleet("salvage", "restore", "work")
        assert (again.code, f"{back} is there already" in again.err) == (1, True)
        made.git("worktree", "remove", "--force", str(back))


@pytest.mark.tmux
def test_the_agent_of_a_clone_that_cannot_be_collected_is_ended_all_the_same(tmp_path: Path) -> None:
    with yard(tmp_path) as made:
        (made.project / "fleet.yaml").write_text(FLEET_YAML + "workspace: {place: clone}\n")
        gone, moved = made.create("gone", "write z 1"), made.create("moved", "write f 1\ncommit mine")
        until((Path(gone["path"]) / "z").exists)
        rmtree(Path(gone["path"]) / ".git")
        until(lambda: made.git("log", "--format=%s", "-1", "moved", cwd=Path(moved["path"])) == "mine")
        theirs = made.git("commit-tree", "-m", "theirs", "HEAD^{tree}")
        made.git("update-ref", "refs/heads/moved", theirs)
        assert {one["branch"]: one["ended"] for one in made.kill("*")} == {"gone": True, "moved": True}
        assert made.git("rev-parse", "moved") == theirs
        assert "file     z" in made.ok("salvage", "show", "gone").out
        assert "  mine" in made.ok("salvage", "show", "moved").out


def test_a_task_in_a_repository_that_fleet_cannot_read_is_not_started(home: Scratch) -> None:
    repo = home.place("newer")
    git(repo, "init", "-q", "-b", "main", "--object-format=sha256")
    git(repo, "commit", "-q", "--allow-empty", "-m", "first")
    apart = [home.add(kind, "--place", kind, cwd=repo) for kind in ("worktree", "clone")]
    here = home.add("here", "--place", "inplace", "--check", "test -f work.txt", cwd=repo)

    home.drain()

    why = "has the object format sha256, and fleet reads repositories with sha1 objects and refs in files alone"
    for task in apart:
        (tried,) = home.shown(task)["history"]
        assert (tried["ending"], tried["verdict"], tried["started"]) == ("not started", "failed", None)
        assert why in tried["cause"]
    assert git(repo, "branch", "--format=%(refname:short)") == "main"
    (done,) = home.shown(here)["history"]
    assert (done["verdict"], done["proof"], why in done["reason"]) == ("accepted", "unverified", True)

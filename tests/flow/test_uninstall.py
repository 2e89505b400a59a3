"""Leaving: what runs is ended, what fleet made goes, and what is nowhere else stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.app.uninstall import Branch, judge_branch
from standins.coders.scratch import Record, until
from standins.yard import Yard, yard

pytestmark = pytest.mark.tmux
FLEET_YAML = "project: {name: leaving}\nlimits: {attempts: 1}\n"


@pytest.mark.parametrize(
    ("branch", "everything", "goes", "why"),
    [
        (Branch(True, 0), False, True, "other branches have all of it"),
        (Branch(True, 2), False, False, "2 commits that no other branch has"),
        (Branch(True, 1), True, True, "1 commit that no other branch has"),
        (Branch(False, 0), False, False, "it may have been there before fleet was"),
        (Branch(False, 3), True, False, "it may have been there before fleet was"),
        (Branch(True, 0, "/mine"), True, False, "it is checked out in /mine"),
    ],
)
def test_which_branches_go(branch: Branch, everything: bool, goes: bool, why: str) -> None:
    assert judge_branch(branch, everything=everything) == (goes, why)


def listed(found: list[Record], kind: str) -> dict[str, str]:
    return {item["name"]: item["why"] for item in found if item["kind"] == kind}


def everything_in(*tops: Path) -> dict[str, bytes]:
    """The bytes of every file below, but for git's own and for what a tracker or a log writes."""
    found = (path for top in tops for path in top.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): path.read_bytes() for path in found if ".git" not in path.parts}


def set_up(made: Yard) -> dict[str, str]:
    """A home with results merged and not, something saved, agents at work, and a user's own things beside all of it."""
    (made.project / "fleet.yaml").write_text(FLEET_YAML)
    made.git("add", "fleet.yaml")
    made.git("commit", "-qm", "fleet.yaml")
    made.settle("coder=ok", coders={"ok": {}, "waits": {}})
    ids = {name: made.add(name, cwd=made.project) for name in ("merged", "unmerged", "mine")}
    made.drain()
    made.git("merge", "-q", "--no-edit", f"fleet/{ids['merged']}")
    ids["gone"] = made.create("gone", "write g 1", "--agent", "claude")["task"]
    made.kill("gone")
    places = Path(made.task(ids["merged"])["cwd"]).parent
    made.git("worktree", "add", "-q", str(places / "my-own"), "-b", "my-own")
    (places / "my-own" / "note").write_text("mine\n")
    made.git("worktree", "add", "-q", "--force", str(made.root / "elsewhere"), f"fleet/{ids['mine']}")
    (made.project / "README").write_text("not committed\n")
    cache = Path(made.env["HOME"]) / ".cache" / "fleet"
    (cache / "litellm-1-x").mkdir(parents=True)
    (cache / "parts").mkdir()
    ids["live"] = made.add("live", "--coder", "waits", cwd=made.project)
    return ids


def test_what_runs_is_ended_and_what_is_nowhere_else_stays(tmp_path: Path) -> None:
    with yard(tmp_path) as made:
        ids = set_up(made)
        talking = made.create("fix", "write q 1", "--agent", "claude")
        supervisor = made.run()
        until(made.artifact(ids["live"], "gate").exists)
        before, branches, saved = everything_in(made.project, made.root / "elsewhere"), made.branches(), made.salvage()

        plan = made.ok("uninstall", "--dry-run", "--json").json()
        assert made.branches() == branches
        assert len(made.agents()) > 0, "a dry run ends nothing"
        assert set(listed(plan["goes"], "agent")) == {f"{ids['live']}.1", talking["attempt"]}
        assert listed(plan["stays"], "branch") == {
            f"fleet/{ids['unmerged']}": "1 commit that no other branch has",
            f"fleet/{ids['mine']}": f"it is checked out in {made.root / 'elsewhere'}",
        }
        assert set(listed(plan["goes"], "branch")) == {f"fleet/{ids['merged']}", f"fleet/{ids['live']}", "fix"}
        assert set(listed(plan["stays"], "salvage")) == set(saved)
        assert "my-own" not in str(plan), "what fleet did not make is none of its business"
        assert "nobody can be asked here" in made.fleet("uninstall").err

        done = made.ok("uninstall", "--yes")
        assert supervisor.wait() == 0
        assert (made.agents(), made.sessions()) == ([], [])
        assert made.branches() == {"main", "my-own", f"fleet/{ids['unmerged']}", f"fleet/{ids['mine']}"}
        assert everything_in(made.project, made.root / "elsewhere") == before
        assert saved.items() <= made.salvage().items()
        assert made.saved(ids["live"], "witness.txt") == f"{ids['live']}.1\n".encode(), "of the one that was at work"
        names = [one["name"] for one in made.ok("salvage", "list", "--json").json() if one["branch"] == "fix"]
        assert [made.saved(name, "q") for name in names] == [b"1\n"], (made.salvage(), done.out, done.err)
        places = Path(made.task(ids["merged"])["cwd"]).parent
        assert [path.name for path in places.iterdir()] == ["my-own"]
        assert (places / "my-own" / "note").read_text() == "mine\n"
        assert sorted(os.listdir(Path(made.env["HOME"]) / ".cache" / "fleet")) == ["parts"]
        left = made.git("for-each-ref", "--format=%(refname)", "refs/fleet/attempts")
        assert left.splitlines() == [] or all(ids["merged"] not in name for name in left.splitlines())
        assert made.task(ids["unmerged"])["state"] == "done", "the home, with tasks in it, is still there"
        assert "stays  home" in done.out
        again = made.ok("uninstall", "--dry-run", "--json").json()
        assert again["goes"] == [], "nothing is left to do"

        last = made.ok("uninstall", "--yes", "--everything")
        assert f"removed branch fleet/{ids['unmerged']} in {made.project}" in last.out
        assert made.branches() == {"main", "my-own", f"fleet/{ids['mine']}"}
        assert made.salvage() == {}
        assert everything_in(made.project, made.root / "elsewhere") == before
        assert (places / "my-own" / "note").read_text() == "mine\n"
        assert [path.name for path in made.home.iterdir()] == ["places"], "kept for the worktree that is not ours"
        assert "kept, with what fleet did not write there: places" in last.out
        for own in (made.root / "elsewhere", places / "my-own"):
            made.git("worktree", "remove", "--force", str(own))


def test_a_home_that_was_never_used_goes_whole_and_files_that_were_edited_stay(tmp_path: Path) -> None:
    with yard(tmp_path) as made:
        made.ok("init", "--models")
        made.ok("generate")
        agent = next((made.project / ".claude/agents").iterdir())
        agent.write_text("edited\n")
        (made.home / "a note of mine").write_text("mine\n")
        plan = made.ok("uninstall", "--dry-run", "--json").json()
        assert listed(plan["stays"], "file") == {f".claude/agents/{agent.name}": "it was edited since fleet wrote it"}
        made.ok("uninstall", "--yes")
        assert [path.name for path in made.home.iterdir()] == ["a note of mine"]
        assert agent.read_text() == "edited\n"
        assert (made.project / "fleet.yaml").is_file()
        assert not (made.project / "litellm_config.yaml").exists()
        agent.unlink()
        made.ok("uninstall", "--yes")
        assert not (made.project / ".subagent-fleet").exists()
        (made.home / "a note of mine").unlink()
        made.ok("uninstall", "--yes")
        assert not made.home.exists()

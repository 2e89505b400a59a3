"""Proven work comes to its branch: each result on top of the others, or put aside with its reason."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from standins.coders.scratch import Ran, Record, Scratch, scratch
from standins.yard import yard as opened

DOES_AS_ITS_TASK_SAYS = 'sed -n "s/^.*RUN: //p" | tail -1 | sh'
COMMIT = "git add -A; git -c user.name=n -c user.email=n@example.invalid commit -qm work"
FLEET_YAML = """\
project: {name: plan}
workspace: {place: worktree}
checks: [{run: "sh check.sh"}]
"""
# The second result of the pair breaks only on top of the first: both are right alone.
CHECK = "test ! -e pair1 || test ! -e pair2 || { echo 'FAILED pair: 1 and 2 do not go together'; exit 1; }\n"


class Plan:
    """A project with a check, and tasks whose descriptions say what their agents do."""

    def __init__(self, home: Scratch) -> None:
        self.home = home
        self.project = home.place("plan", git=True)
        (self.project / "fleet.yaml").write_text(FLEET_YAML)
        (self.project / "check.sh").write_text(CHECK)
        self.git("add", "-A")
        self.git("commit", "-qm", "check")
        home.settle("coder=does", "backoff=0s", coders={"does": {"argv": ["/bin/sh", "-c", DOES_AS_ITS_TASK_SAYS]}})

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
        return subprocess.run(
            ["git", *who, *words], cwd=self.project, check=True, capture_output=True, text=True
        ).stdout.strip()

    def add(self, title: str, work: str, *options: str, commit: bool = True) -> str:
        line = f"RUN: {work}; {COMMIT}" if commit else f"RUN: {work}"
        return self.home.add(title, "-d", line, *options, cwd=self.project)

    def merge(self, *words: str) -> Ran:
        return self.home.fleet("merge", *words, cwd=self.project)

    def reports(self, *words: str) -> list[Record]:
        ran = self.merge("--json", *words)
        assert ran.out, ran.err
        found: list[Record] = ran.json()
        return found

    def files(self) -> set[str]:
        return set(self.git("ls-tree", "-r", "--name-only", "main").split())


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    with scratch(tmp_path) as home:
        yield Plan(home)


def landed(reports: list[Record]) -> list[Any]:
    return [one["task"] for report in reports for one in report["landed"]]


def aside(reports: list[Record]) -> dict[str, Any]:
    return {one["task"]: one["reason"] for report in reports for one in report["aside"]}


def test_one_command_lands_what_is_proven_and_names_the_rest_and_one_takes_it_back(plan: Plan) -> None:
    committed = plan.add("write a", "echo a >a")
    left = plan.add("write b", "echo b >b", commit=False)
    one = plan.add("first of a pair", "echo 1 >pair1")
    two = plan.add("second of a pair", "echo 2 >pair2")
    conflicting = plan.add("another a", "echo other >a")
    red = plan.add("red", "echo red >red", "--check", "false", "--attempts", "1")
    plan.home.drain()
    (plan.project / "mine").write_text("mine\n")
    before = plan.git("rev-parse", "main")

    waits = f"proven, not landed: {committed}, {left}, {one}, {two}, {conflicting} (fleet merge --proven)"
    assert waits in plan.home.ok("tasks", cwd=plan.project).out
    assert plan.home.shown(left)["landed"] == f"not yet: fleet merge {left}"
    tried = plan.reports("--proven", "--dry-run")
    assert plan.git("rev-parse", "main") == before
    ran = plan.merge("--proven")
    assert ran.code == 1
    assert landed(tried) == [committed, left, one]
    assert plan.files() >= {"a", "b", "pair1"}
    assert not plan.files() & {"pair2", "red"}
    assert f"landed {committed}, {left}, {one} on main" in ran.out
    assert f'{two} is not landed: check "sh check.sh" fails with it on main' in ran.out
    assert "1 and 2 do not go together" in ran.out
    assert f"{conflicting} is not landed: it conflicts with main in a" in ran.out
    assert plan.git("status", "--porcelain") == "?? mine"
    assert plan.git("log", "--first-parent", "--format=%s", f"{before}..main").splitlines() == [
        f"Land {name} on main: {title}"
        for name, title in ((one, "first of a pair"), (left, "write b"), (committed, "write a"))
    ]
    assert f"Fleet-Attempt: {committed}.1" in plan.git("log", "--format=%b", "--first-parent", "main")

    assert plan.home.shown(left)["landed"].startswith("on main as ")
    assert f"not landed: {two}, {conflicting} (" in plan.home.ok("tasks", "--all", cwd=plan.project).out
    refused = plan.merge(red)
    assert refused.code == 1
    assert "it was refused" in refused.out
    assert "--anyway REASON" in refused.out
    again = plan.reports("--proven")
    assert (landed(again), set(aside(again))) == ([], {two, conflicting}), "the order of two commands changes nothing"
    assert aside(again)[two].startswith("tried before: ")
    assert landed(plan.reports(red, "--anyway", "a person looked")) == [red]
    assert "Fleet-Anyway: a person looked" in plan.git("log", "-1", "--format=%b", "main")
    assert plan.home.task(red)["state"] == "done"
    assert plan.merge(committed).out == f"on main already: {committed}\n"

    assert plan.merge("--undo").code == 0
    assert "red" not in plan.files()
    assert plan.merge("--undo").code == 0
    assert plan.git("rev-parse", "main") == before
    nothing = plan.merge("--undo")
    assert (nothing.code, "fleet has landed nothing on main" in nothing.err) == (3, True)
    assert landed(plan.reports(committed, left)) == [committed, left]
    plan.git("reset", "-q", "--hard", before)
    assert plan.home.shown(left)["landed"] == f"not yet: fleet merge {left}"
    assert set(landed(plan.reports("--proven"))) >= {committed, left}, "what a person wound back is not on main"


def test_a_checkout_with_changes_in_the_way_is_left_as_it_is(plan: Plan) -> None:
    task = plan.add("change the readme", "echo theirs >README")
    plan.home.drain()
    (plan.project / "README").write_text("mine\n")
    before = plan.git("rev-parse", "main")
    ran = plan.merge(task)
    assert ran.code == 1
    assert "nothing was landed on main" in ran.out
    assert "changes that are not committed, where files would change: README" in ran.out
    assert "--onto fleet/landed" in ran.out
    assert plan.merge(task, "--dry-run").out == ran.out
    assert (plan.git("rev-parse", "main"), (plan.project / "README").read_text()) == (before, "mine\n")
    assert plan.merge(task, "--onto", "fleet/landed").code == 0
    assert plan.git("show", "fleet/landed:README") == "theirs"
    assert (plan.git("rev-parse", "main"), (plan.project / "README").read_text()) == (before, "mine\n")


def test_a_branch_whose_own_check_is_red_holds_everything(plan: Plan) -> None:
    task = plan.add("write a", "echo a >a")
    plan.home.drain()
    for name in ("pair1", "pair2"):
        (plan.project / name).write_text("by hand\n")
    plan.git("add", "-A")
    plan.git("commit", "-qm", "breaks main")
    ran = plan.merge(task)
    assert ran.code == 1
    assert 'main is red without any of them: check "sh check.sh"' in ran.out
    assert "a" not in plan.files()
    assert landed(plan.reports(task, "--anyway", "it is no worse")) == [task]


@pytest.mark.parametrize("strategy", ["squash", "rebase"])
def test_every_strategy_brings_the_same_tree(plan: Plan, strategy: str) -> None:
    first = plan.add("write a", f"echo 1 >a; {COMMIT}; echo 2 >a")
    plan.home.drain()
    (plan.project / "meanwhile").write_text("mine\n")
    plan.git("add", "-A")
    plan.git("commit", "-qm", "meanwhile")
    assert landed(plan.reports(first, "--strategy", strategy)) == [first]
    assert plan.git("show", "main:a") == "2"
    assert plan.git("rev-list", "--merges", "main") == ""
    assert len(plan.git("log", "--format=%h", "main").split()) == (4 if strategy == "squash" else 5)


def test_one_result_that_can_go_nowhere_stops_no_other(plan: Plan) -> None:
    plan.git("branch", "old-release")
    lost, good = plan.add("for a release", "echo 1 >one", "--onto", "old-release"), plan.add("for main", "echo 2 >two")
    plan.home.drain()
    plan.git("branch", "-D", "old-release")
    reports = plan.reports("--proven")
    assert landed(reports) == [good]
    assert aside(reports) == {lost: "the branch old-release, for which it is meant, is gone"}
    for name in ("refs/heads/main", ""):
        assert plan.merge(lost, "--onto", name).code == 2
    assert "the new branch landed" in plan.merge(lost, "--onto", "landed").out
    assert plan.home.fleet("merge", "--proven", cwd=plan.home.root).code == 3
    assert set(plan.git("branch", "--format=%(refname:short)").split()) >= {"main", "landed"}


def test_wrong_calls_say_what_to_do_and_move_nothing(plan: Plan) -> None:
    task = plan.add("write a", "echo a >a")
    before = plan.git("rev-parse", "main")
    for words, code, said in (
        ((), 2, "what is to be landed?"),
        (("--proven", task), 2, "name nothing beside it"),
        (("t99",), 3, "there is no task, attempt or branch 't99'"),
        ((task,), 1, f"nobody has worked on {task} yet"),
        ((task, "--anyway", " "), 2, "wants a reason"),
        (("--undo", task), 2, "no other argument"),
        ((task, f"{task}.1"), 1, f"nobody has worked on {task} yet"),
        (("--batch", "none"), 3, "no batch is called none"),
        ((task, "--onto", ""), 2, "--onto wants the name of a branch"),
        (("--proven", "--onto", "a..b"), 0, "nothing to land"),
    ):
        ran = plan.merge(*words)
        assert (ran.code, said in ran.err + ran.out) == (code, True), f"{words}: {ran.err}{ran.out}"
    assert plan.git("rev-parse", "main") == before


def test_work_that_stands_on_others_lands_after_them_and_main_is_green_at_every_step(plan: Plan) -> None:
    """A diamond: two stand on the first, and the last one on both."""
    have = "sh check.sh && for f in {}; do test -f $f || exit 1; done"
    top = plan.add("top", "echo t >top", "--check", have.format("top"))
    left = plan.add("left", "echo l >left", "--after", top, "--check", have.format("top left"))
    right = plan.add("right", "echo r >right", "--after", top, "--check", have.format("top right"))
    last = plan.add("last", "cat left right >last", "--after", left, "--after", right, "--check", have.format("last"))
    plan.home.drain()
    before = plan.git("rev-parse", "main")

    alone = plan.merge(last)
    assert (alone.code, plan.git("rev-parse", "main")) == (1, before)
    assert f"{last} is not landed: it stands on {left}, {right}, which are not landed" in alone.out
    assert landed(plan.reports(top, "--strategy", "squash")) == [top]
    later = plan.add("later", "echo x >later", "--after", top, "--check", have.format("top later"))
    plan.home.drain()
    shown = plan.home.shown(later)
    assert [one["within"] for one in shown["history"][-1]["stands_on"]] == ["main", ""]
    assert landed(plan.reports("--proven")) == [left, right, last, later]
    assert plan.files() >= {"top", "left", "right", "last", "later"}
    for commit in plan.git("rev-list", "--first-parent", f"{before}..main").split():
        names = set(plan.git("ls-tree", "-r", "--name-only", commit).split())
        assert names >= ({"left", "right"} if "last" in names else set()) | {"top"}


@pytest.mark.tmux
def test_an_agent_at_its_prompt_is_merged_and_counts_as_done_when_it_is_ended(tmp_path: Path) -> None:
    with opened(tmp_path / "a yard") as yard:
        yard.create("week-winner", "write a.txt one\ncommit a\nwrite b.txt left")
        yard.create("week-loser", "write c.txt x\ncommit c")
        landed = yard.ok("merge", "week-winner", "--json").json()
        assert [one["note"] for one in landed[0]["landed"]] == ["named by a person; unverified"]
        assert (yard.project / "b.txt").read_text() == "left\n"
        proofs = {one["branch"]: yard.task(one["task"]) for one in yard.kill("week-*")}
        assert proofs["week-winner"]["state"] == "done"
        assert proofs["week-winner"]["cause"].startswith("landed on main")
        assert proofs["week-loser"]["state"] == "cancelled"

"""Bases made of results, with the real git: what merges, what does not, and what is never touched or run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fleet.core.work import StandsOn
from fleet.results import NoBase, build_base

WHO = "git -c user.name=n -c user.email=n@example.invalid"
START = f"""\
git init -q -b main
printf 'one\\ntwo\\nthree\\nfour\\nfive\\n' >text
printf 'first\\n' >changes.md
mkdir deep; printf 'first\\n' >deep/changes.md
git add -A
{WHO} commit -qm first
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    run(path, START)
    return path


def run(path: Path, command: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["/bin/sh", "-ec", command], cwd=path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def result(path: Path, name: str, command: str, start: str = "main") -> StandsOn:
    """A task's result: a commit on a branch of its own."""
    run(
        path, f"git checkout -q -b {name} {start}; {command}; git add -A; {WHO} commit -qm {name}; git checkout -q main"
    )
    return StandsOn(name, run(path, f"git rev-parse {name}"), f"{name}.1", name)


def tip(path: Path) -> StandsOn:
    return StandsOn("main", run(path, "git rev-parse main"))


def shown(path: Path, commit: str, file: str) -> str:
    return run(path, f"git show {commit}:{file}")


def test_one_result_that_has_the_tip_is_the_base_itself_and_what_the_tip_has_is_left_out(repo: Path) -> None:
    t1 = result(repo, "t1", "echo 1 >t1")
    assert build_base(repo / ".git", tip(repo), [t1], "t2").commit == t1.commit
    assert build_base(repo / ".git", tip(repo), [], "t2").commit == tip(repo).commit
    run(repo, f"git merge -q t1; echo more >more; git add -A; {WHO} commit -qm more")
    base = build_base(repo / ".git", tip(repo), [t1], "t2")
    assert (base.commit, base.stands_on[0].within) == (tip(repo).commit, "main")


def test_many_results_make_one_commit_that_names_them_whenever_it_is_made(repo: Path) -> None:
    before = run(repo, "git status --porcelain; cat .git/HEAD; git stash list; find .git -name index | xargs cksum")
    results = [result(repo, f"t{n}", f"echo {n} >t{n}") for n in range(1, 13)]
    chained = result(repo, "t13", "echo 13 >t13", "t3")
    base = build_base(repo / ".git", tip(repo), [*results, chained], "t20")
    assert base == build_base(repo / ".git", tip(repo), [*results, chained], "t20")
    names = run(repo, f"git ls-tree --name-only {base.commit}").split()
    assert {f"t{n}" for n in range(1, 14)} <= set(names)
    parents = run(repo, f"git show -s --format=%P {base.commit}").split()
    assert len(parents) == 12, "t3 is in t13, and main in each of them"
    assert [one.within for one in base.stands_on if one.name == "t3"] == ["t13"]
    after = run(repo, "git status --porcelain; cat .git/HEAD; git stash list")
    assert before.startswith(after)


def test_a_result_that_was_squashed_into_the_branch_is_there_already(repo: Path) -> None:
    t1, t2 = result(repo, "t1", "echo 1 >t1"), result(repo, "t2", "echo 2 >t2")
    run(repo, f"git merge -q --squash t1; {WHO} commit -qm squashed")
    base = build_base(repo / ".git", tip(repo), [t1, t2], "t3")
    assert [one.within for one in base.stands_on] == ["main", "", ""]
    assert len(run(repo, f"git show -s --format=%P {base.commit}").split()) == 2


def test_a_conflict_names_both_sides_and_the_files(repo: Path) -> None:
    t1 = result(repo, "t1", "sed -i s/two/2/ text")
    t2 = result(repo, "t2", "echo 2 >t2")
    t3 = result(repo, "t3", "sed -i s/two/zwei/ text")
    with pytest.raises(NoBase) as raised:
        build_base(repo / ".git", tip(repo), [t1, t2, t3], "t4")
    assert raised.value.message == f"t1 ({t1.commit[:7]}) and t3 ({t3.commit[:7]}) do not merge: both change text"
    assert raised.value.hint == "bring them into main by hand (git merge t1, git merge t3), then: fleet retry t4"
    with pytest.raises(NoBase, match=r"is not in .* any more"):
        build_base(repo / ".git", tip(repo), [StandsOn("t9", "d" * 40, "t9.1")], "t4")


def test_renames_and_disjoint_lines_merge(repo: Path) -> None:
    t1 = result(repo, "t1", "git mv text renamed; chmod +x changes.md")
    t2 = result(repo, "t2", "sed -i s/five/5/ text; echo more >>changes.md")
    base = build_base(repo / ".git", tip(repo), [t1, t2], "t3")
    assert "5" in shown(repo, base.commit, "renamed")
    assert run(repo, f"git ls-tree {base.commit} changes.md").startswith("100755")


def test_attributes_of_the_branch_count_and_nothing_of_the_checkout_or_the_settings_does(repo: Path) -> None:
    (repo / ".gitattributes").write_text("/changes.md merge=union\ntext merge=evil\n")
    (repo / "deep/.gitattributes").write_text("*.md merge=union\n")
    run(repo, f"git add -A; {WHO} commit -qm attributes")
    run(repo, "git config merge.evil.driver 'touch ../evil; false'; git config merge.default evil")
    one = result(repo, "t1", "echo 1 >>changes.md; echo 1 >>deep/changes.md; sed -i s/one/1/ text")
    two = result(repo, "t2", "echo 2 >>changes.md; echo 2 >>deep/changes.md; sed -i s/five/5/ text")
    (repo / ".gitattributes").write_text("* merge=binary\n")
    base = build_base(repo / ".git", tip(repo), [one, two], "t3")
    assert shown(repo, base.commit, "changes.md").split() == ["first", "1", "2"]
    assert shown(repo, base.commit, "deep/changes.md").split() == ["first", "1", "2"]
    assert shown(repo, base.commit, "text").split() == ["1", "two", "three", "four", "5"]
    assert not (repo.parent / "evil").exists()

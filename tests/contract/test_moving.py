"""Branches of real repositories are merged and moved; whatever a person has in a working tree stays as it is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.core import FleetError
from fleet.host.repository.finish import finish_move
from fleet.host.repository.move import InTheWay, Moved, move_branch


@pytest.fixture(autouse=True)
def _somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text("[user]\n\tname = Somebody\n\temail = some@body\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


class Project:
    """A repository with one commit on main and the next one beside it."""

    def __init__(self, top: Path) -> None:
        self.top, self.common = top, top / ".git"
        top.mkdir()
        self.git("init", "-q")
        (top / ".gitignore").write_text("*.env\n")
        self.old = self.commit({"changed": "1\n", "other": "1\n", "gone": "1\n"}, "one")
        (top / "gone").unlink()
        self.new = self.commit({"changed": "2\n", "added": "2\n", "deep/down": "2\n", "own.env": "theirs\n"}, "two")
        self.git("reset", "-q", "--hard", self.old)

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.top, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text(text)

    def commit(self, files: dict[str, str], message: str) -> str:
        self.write(files)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def seen(self) -> dict[str, str]:
        files = {one for one in self.top.rglob("*") if one.is_file() and ".git" not in one.relative_to(self.top).parts}
        texts = {str(one.relative_to(self.top)): one.read_text() for one in files}
        return texts | {"STATUS": self.git("status", "--porcelain"), "TIP": self.git("rev-parse", "main")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_a_branch_that_is_checked_out_takes_its_files_along(project: Project) -> None:
    move_branch(project.common, "main", project.old, project.new, why="fleet: landed")
    assert project.git("status", "--porcelain") == ""
    assert (project.git("rev-parse", "main"), project.git("rev-parse", "HEAD")) == (project.new, project.new)
    assert "fleet: landed" in project.git("reflog", "-1")


@pytest.mark.parametrize("kept", ["dirty", "staged", "untracked", "deleted"])
def test_what_a_person_has_in_other_files_stays(project: Project, kept: str) -> None:
    project.write({"mine" if kept == "untracked" else "other": "mine\n"})
    if kept == "staged":
        project.git("add", "other")
    if kept == "deleted":
        (project.top / "other").unlink()
    before = project.git("status", "--porcelain")
    move_branch(project.common, "main", project.old, project.new, why="landed")
    assert project.git("status", "--porcelain") == before
    assert (project.top / "added").read_text() == "2\n"


def make_dirty(project: Project) -> None:
    project.write({"changed": "mine\n"})


def make_staged(project: Project) -> None:
    project.write({"changed": "mine\n"})
    project.git("add", "changed")


def make_edited_where_deleted(project: Project) -> None:
    project.write({"gone": "mine\n"})


def make_untracked(project: Project) -> None:
    project.write({"added": "mine\n"})


def make_ignored(project: Project) -> None:
    project.write({"own.env": "mine\n"})


def make_file_for_directory(project: Project) -> None:
    project.write({"deep": "mine\n"})


def make_link_for_directory(project: Project) -> None:
    (project.top / "deep").symlink_to(project.top.parent)


def make_merge(project: Project) -> None:
    project.git("checkout", "-q", "-b", "side")
    project.commit({"other": "side\n"}, "side")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-commit", "--no-ff", "side")


def make_second_checkout(project: Project) -> None:
    project.git("worktree", "add", "-q", "-f", "../second", "main")


def make_rebase(project: Project) -> None:
    (project.common / "rebase-merge").mkdir()
    (project.common / "rebase-merge/head-name").write_text("refs/heads/main\n")


def make_index_lock(project: Project) -> None:
    (project.common / "index.lock").touch()


def make_ref_lock(project: Project) -> None:
    (project.common / "refs/heads/main.lock").touch()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_dirty, "changed"),
        (make_staged, "changed"),
        (make_edited_where_deleted, "gone"),
        (make_untracked, "added"),
        (make_ignored, "own.env"),
        (make_file_for_directory, "deep/down"),
        (make_link_for_directory, "deep/down"),
        (make_merge, "a merge is under way"),
        (make_second_checkout, "checked out twice"),
        (make_rebase, "being rebased"),
        (make_index_lock, "index.lock"),
        (make_ref_lock, "main.lock"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_moves(
    project: Project, make: Callable[[Project], None], words: str
) -> None:
    make(project)
    before = project.seen()
    with pytest.raises(FleetError, match=words):
        move_branch(project.common, "main", project.old, project.new, why="landed")
    assert project.seen() == before


def test_a_branch_that_is_elsewhere_by_now_is_left_there(project: Project) -> None:
    elsewhere = project.commit({"other": "later\n"}, "later")
    with pytest.raises(Moved, match=elsewhere[:12]):
        move_branch(project.common, "main", project.old, project.new, why="landed")
    assert project.git("rev-parse", "main") == elsewhere


def test_a_branch_that_nobody_has_checked_out_moves_alone(project: Project) -> None:
    before = project.seen()
    move_branch(project.common, "landed", None, project.new, why="landed", more=[f"create refs/fleet/x {project.new}"])
    assert project.git("rev-parse", "landed", "refs/fleet/x").split() == [project.new, project.new]
    assert project.seen() == before
    with pytest.raises(Moved):
        move_branch(project.common, "landed", None, project.old, why="landed")


def test_no_variable_of_another_git_leads_elsewhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", str(project.top.parent / "other-index"))
    move_branch(project.common, "main", project.old, project.new, why="landed")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert project.git("status", "--porcelain") == ""


def test_an_unborn_branch_gets_its_first_files(tmp_path: Path, project: Project) -> None:
    top = tmp_path / "unborn"
    subprocess.run(["git", "init", "-q", top], check=True)
    subprocess.run(["git", "fetch", "-q", project.top, project.new], cwd=top, check=True)
    (top / "added").write_text("mine\n")
    with pytest.raises(InTheWay, match="added"):
        move_branch(top / ".git", "main", None, project.new, why="landed")
    (top / "added").unlink()
    move_branch(top / ".git", "main", None, project.new, why="landed")
    assert subprocess.run(["git", "status", "--porcelain"], cwd=top, capture_output=True, check=True).stdout == b""


def finish(project: Project) -> bool:
    aside = project.top.parent / "aside"
    return finish_move(project.common, "main", project.old, project.new, since=0.0, why="finished", aside=aside)


def cut_off_before(project: Project) -> None:
    (project.common / "refs/heads/main.lock").write_text(project.new)


def cut_off_after_the_files(project: Project) -> None:
    project.git("read-tree", "-m", "-u", project.old, project.new)


def cut_off_while_a_file_was_rewritten(project: Project) -> None:
    cut_off_before(project)
    project.write({"added": "2\n"})
    (project.top / "changed").unlink()


def cut_off_in_a_file_that_grows(project: Project) -> None:
    """Half of the new content is there, and the old one had begun otherwise."""
    cut_off_before(project)
    project.write({"added": "2\n", "changed": ""})


def cut_off_among_the_files(project: Project) -> None:
    cut_off_before(project)
    (project.common / "index.lock").touch()
    (project.common / "HEAD.lock").touch()
    project.write({"changed": "2\n", "deep/down": "", "own.env": "thei"})
    (project.top / "gone").unlink()


@pytest.mark.parametrize(
    ("cut_off", "moved"),
    [
        (cut_off_before, False),
        (cut_off_after_the_files, True),
        (cut_off_among_the_files, True),
        (cut_off_while_a_file_was_rewritten, True),
        (cut_off_in_a_file_that_grows, True),
    ],
)
def test_a_move_that_was_cut_off_is_finished_or_never_was(
    project: Project, cut_off: Callable[[Project], None], moved: bool
) -> None:
    project.write({"other": "mine\n", "unknown": "mine\n"})
    cut_off(project)
    assert finish(project) is moved
    assert project.git("rev-parse", "main") == (project.new if moved else project.old)
    assert project.git("status", "--porcelain") == "M other\n?? unknown"
    assert finish(project) is moved
    assert not list(project.common.rglob("*.lock"))


def test_what_a_person_changed_since_a_move_was_cut_off_is_never_taken_for_half_written(project: Project) -> None:
    cut_off_among_the_files(project)
    project.write({"added": "mine, and longer\n"})
    with pytest.raises(InTheWay, match="added"):
        finish(project)
    assert (project.top / "added").read_text() == "mine, and longer\n"
    assert project.git("rev-parse", "main") == project.old


def test_a_file_that_only_grows_is_not_taken_for_half_written(project: Project) -> None:
    new = side_commit(project, {"other": "1\n2\n"})
    before = project.seen()
    aside = project.top.parent / "aside"
    assert finish_move(project.common, "main", project.old, new, since=0.0, why="finished", aside=aside) is False
    assert project.seen() == before
    assert not aside.exists()


def side_commit(project: Project, files: dict[str, str]) -> str:
    project.git("checkout", "-q", "--detach", project.old)
    made = project.commit(files, "side")
    project.git("checkout", "-q", "main")
    return made

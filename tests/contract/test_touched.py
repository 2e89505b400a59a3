"""What an agent has touched so far, in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.evidence.touched import touched
from fleet.host import git as repositories

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid")


def git(at: Path, *args: str) -> str:
    return subprocess.run([*GIT, *args], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


def test_what_is_committed_and_what_is_not_are_both_seen(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("kept", "edited", "gone", "committed"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    began = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "dirty before").write_text("x")
    (tmp_path / "committed").write_text("changed")
    git(tmp_path, "commit", "-qam", "second")
    (tmp_path / "edited").write_text("changed")
    (tmp_path / "gone").unlink()
    (tmp_path / "new dir").mkdir()
    (tmp_path / "new dir/é\n").write_text("x")
    (tmp_path / "ignored").write_text("x")
    (tmp_path / "link").symlink_to("/etc")
    found = repositories.find(tmp_path)
    assert found is not None
    changes = {change.path: change for change in touched(found, began, {"dirty before"}) or ()}
    assert {path: change.change for path, change in changes.items()} == {
        "committed": ChangeKind.MODIFIED,
        "edited": ChangeKind.MODIFIED,
        "gone": ChangeKind.DELETED,
        "new dir/é\n": ChangeKind.ADDED,
        "link": ChangeKind.ADDED,
    }
    assert changes["link"] == Change("link", change=ChangeKind.ADDED, entry=EntryKind.SYMLINK, target="/etc")
    assert touched(found, "0" * 40, ()) is None, "unknown is not nothing"


def test_nothing_that_the_agent_planted_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    git(tmp_path, "config", "filter.x.clean", f"touch {tmp_path}/ran")
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    (tmp_path / "a").write_text("b")
    found = repositories.find(tmp_path)
    assert found is not None
    assert touched(found, repositories.head(found).commit, ()) is not None
    assert not (tmp_path / "ran").exists()

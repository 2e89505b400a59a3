"""Branches and tags as they are read from files, beside what git itself says of the same repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fleet.host import refs

WHO = ("-c", "user.name=n", "-c", "user.email=e@example.invalid")


def git(at: Path, *args: str) -> str:
    return subprocess.run(["git", *WHO, *args], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path


def by_git(repo: Path) -> dict[str, str]:
    lines = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/", "refs/tags/").splitlines()
    return {name: commit for name, _, commit in (line.partition(" ") for line in lines)}


def test_they_are_what_git_says_loose_packed_and_both(repo: Path) -> None:
    git(repo, "branch", "a/b/c")
    git(repo, "tag", "light")
    git(repo, "tag", "-a", "heavy", "-m", "of its own")
    assert refs.read(repo / ".git") == by_git(repo)
    git(repo, "pack-refs", "--all")
    assert refs.read(repo / ".git") == by_git(repo)
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "branch", "-D", "a/b/c")
    git(repo, "branch", "d")
    assert refs.read(repo / ".git") == by_git(repo)
    assert set(by_git(repo)) == {"refs/heads/main", "refs/heads/d", "refs/tags/light", "refs/tags/heavy"}


def test_what_names_no_object_is_none_and_nothing_is_waited_for(repo: Path) -> None:
    git(repo, "pack-refs", "--all")
    heads = repo / ".git/refs/heads"
    os.mkfifo(heads / "main")
    os.mkfifo(heads / "pipe")
    (heads / "half.lock").write_text("x")
    (heads / "other").write_text("ref: refs/heads/main\n")
    (heads / "long").write_bytes(b"a" * 100_000)
    assert refs.read(repo / ".git") == {}


def test_of_too_many_nothing_is_said_and_tables_are_not_read(repo: Path) -> None:
    packed = repo / ".git/packed-refs"
    packed.write_text("".join(f"{'a' * 40} refs/tags/v{n}\n" for n in range(refs.MOST)))
    assert refs.read(repo / ".git") is None
    packed.unlink()
    assert refs.are_files(repo / ".git")
    (repo / ".git/reftable").mkdir()
    assert not refs.are_files(repo / ".git")

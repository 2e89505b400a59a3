"""The copy of an index: what is as git noted it is not read again, and what is not is never taken for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.host import git, index

SECOND = 10**9
EARLY = 4_000_000_000 * SECOND + SECOND // 10  # in the second in which the index is said to be written
LONG_AGO = 1_000_000_000 * SECOND
WRITTEN = EARLY + SECOND // 2
PATHS = ("a.txt", "sub/a link", "sub/" + "c" * 200)
WHO = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")


def run_git(at: Path, *words: str) -> bytes:
    return subprocess.run(["git", *WHO, *words], cwd=at, check=True, capture_output=True).stdout


def write(at: Path, path: str, text: str, when: int = EARLY) -> None:
    (at / path).parent.mkdir(exist_ok=True)
    (at / path).write_text(text)
    os.utime(at / path, ns=(when, when))


def write_again(at: Path, path: str, when: int = EARLY) -> None:
    """The clock of some systems stands still for some milliseconds."""
    before = (at / path).stat().st_ctime_ns
    while (at / path).stat().st_ctime_ns == before:
        write(at, path, "two\n", when)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-q")
    for path in PATHS:
        write(tmp_path, path, "one\n")
    run_git(tmp_path, "add", "-A")
    return tmp_path


def settled(tree: Path, written: int = WRITTEN) -> list[str] | None:
    """The files that are certain."""
    looked = index.look((tree / ".git/index").read_bytes(), written, tree, is_whole=False)
    if looked is None:
        return None
    found = looked[0]
    assert found[-20:] == sha1(found[:-20]).digest()
    (tree / ".git/index").write_bytes(found)
    said = run_git(tree, "ls-files", "--debug").decode().split("\n")
    changed = [line.split()[1] for line in said if line.startswith("  ctime:")]
    return [path for path, when in zip(PATHS, changed, strict=True) if not when.startswith("0:")]


def test_what_is_as_noted_is_certain(tree: Path) -> None:
    assert settled(tree) == list(PATHS)
    assert run_git(tree, "ls-files", "-m") == b""


def test_what_is_marked_in_two_more_bytes_is_read_too(tree: Path) -> None:
    run_git(tree, "update-index", "--skip-worktree", PATHS[2])  # a later version of the index
    write_again(tree, PATHS[2])
    assert settled(tree) == list(PATHS[:2])


@pytest.mark.parametrize(
    "when", [EARLY, EARLY + 1, EARLY - SECOND], ids=["the same time", "a moment later", "an earlier time"]
)
def test_what_was_written_again_in_that_second_is_in_doubt(tree: Path, when: int) -> None:
    write_again(tree, PATHS[0], when)
    assert settled(tree) == list(PATHS[1:])
    assert run_git(tree, "ls-files", "-m") == f"{PATHS[0]}\n".encode()


def test_what_has_an_old_time_and_was_changed_in_that_second_is_in_doubt(tree: Path) -> None:
    for path in PATHS:
        write(tree, path, "one\n", LONG_AGO)
    run_git(tree, "add", "-A")
    written = ((tree / PATHS[0]).stat().st_ctime_ns // SECOND + 1) * SECOND - 1
    write_again(tree, PATHS[0], LONG_AGO)
    found = settled(tree, written)
    assert found is not None
    assert PATHS[0] not in found


def test_what_was_written_just_before_the_index_is_in_doubt_and_what_is_gone_is_gone(tree: Path) -> None:
    assert settled(tree, EARLY + SECOND // 1000) == []
    assert run_git(tree, "ls-files", "-m") == b""
    (tree / PATHS[0]).unlink()
    (tree / PATHS[1]).unlink()
    (tree / PATHS[1]).symlink_to("../" + PATHS[2])
    settled(tree)
    assert run_git(tree, "ls-files", "-m").decode().splitlines() == list(PATHS[:2])


def test_what_was_written_in_an_earlier_second_is_not_looked_at(tree: Path) -> None:
    write(tree, PATHS[0], "two\n")
    assert settled(tree, WRITTEN + SECOND) == list(PATHS)


def differing(tree: Path, since: float | None = None) -> list[str]:
    copied = tree / ".git/copied"
    index.copy(tree / ".git/index", copied)
    found = index.differing(copied, tree, since)
    assert found is not None
    return [os.fsdecode(one.path) for one in found]


@pytest.mark.parametrize(
    "touch",
    [
        lambda tree: write_again(tree, PATHS[0]),  # of the same size, and with the same time of writing
        lambda tree: (tree / PATHS[0]).unlink(),
        lambda tree: (tree / PATHS[0]).chmod(0o755),
    ],
    ids=["written", "gone", "mode"],
)
def test_what_differs_is_told_whenever_the_index_was_written(tree: Path, touch: Callable[[Path], None]) -> None:
    os.utime(tree / ".git/index", ns=(EARLY + 10 * SECOND,) * 2)
    assert differing(tree) == []
    touch(tree)
    assert differing(tree) == [PATHS[0]]


def test_what_was_touched_since_a_moment_differs_whatever_is_noted(tree: Path) -> None:
    os.utime(tree / ".git/index", ns=(EARLY + 10 * SECOND,) * 2)
    touched = max((tree / path).lstat().st_ctime for path in PATHS)
    assert differing(tree, touched + 1) == []
    assert differing(tree, touched - 3600) == list(PATHS)


def test_repositories_and_what_is_hidden_or_not_merged_are_told(tree: Path) -> None:
    run_git(tree, "init", "-q", "inner")
    run_git(tree / "inner", "commit", "-q", "--allow-empty", "-m", "one")
    run_git(tree, "add", "inner")
    run_git(tree, "update-index", "--assume-unchanged", PATHS[0])
    write_again(tree, PATHS[0])
    blob = run_git(tree, "hash-object", "-w", PATHS[2]).decode().strip()
    info = "".join(f"100644 {blob} {stage}\tb.txt\0" for stage in (1, 3))
    subprocess.run(["git", "update-index", "-z", "--index-info"], cwd=tree, input=info.encode(), check=True)
    found = index.look((tree / ".git/index").read_bytes(), EARLY + 10 * SECOND, tree, is_whole=True)
    assert found is not None
    assert [(os.fsdecode(one.path), one.stage, one.is_hidden, one.mode) for one in found[1]] == [
        (PATHS[0], 0, True, 0o100644), ("b.txt", 1, False, 0o100644), ("b.txt", 3, False, 0o100644),
        ("inner", 0, False, 0o160000),
    ]  # fmt: skip


def test_an_index_that_is_not_known_is_left_alone(tree: Path) -> None:
    at = tree / ".git/index"
    run_git(tree, "update-index", "--index-version", "4")
    assert settled(tree) is None
    run_git(tree, "update-index", "--index-version", "2")
    assert settled(tree) is not None
    run_git(tree, "update-index", "--split-index")
    assert settled(tree) is None
    run_git(tree, "update-index", "--no-split-index")
    assert settled(tree) is not None
    whole = at.read_bytes()
    for odd in (b"", b"DIRC", whole[:-1], whole + b"x", b"X" + whole[1:]):
        assert index.look(odd, WRITTEN, tree, is_whole=True) is None


def test_an_index_with_longer_names_is_left_alone(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--object-format=sha256")
    write(tmp_path, "a.txt", "one\n")
    run_git(tmp_path, "add", "-A")
    assert index.look((tmp_path / ".git/index").read_bytes(), WRITTEN, tmp_path, is_whole=True) is None


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=6), cut=st.integers(0, 40))
def test_no_index_that_an_agent_wrote_is_too_much(tree: Path, edits: list[tuple[int, int]], cut: int) -> None:
    body = bytearray((tree / ".git/index").read_bytes()[:-20])
    for at, value in edits:
        body[at % len(body)] = value
    del body[len(body) - cut :]
    found = index.look(bytes(body) + sha1(body).digest(), WRITTEN, tree, is_whole=True)
    assert found is None or len(found[0]) <= len(body) + 20


def test_a_look_finds_what_changed_in_the_moment_of_the_index(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    run_git(tmp_path, "add", "-A")
    run_git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "a.txt").write_text("two\n")
    found = git.find(tmp_path)
    assert found is not None
    with git.mirror(found) as ours:
        assert ours.dirty(git.head(found).commit) == ["a.txt"]

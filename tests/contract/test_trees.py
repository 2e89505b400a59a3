"""The tree of what stands in a place, and a clean checkout of it: with the real git, and every trap known to us."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha1
from pathlib import Path, PurePosixPath

import pytest

from fleet import places
from fleet.core import FleetError
from fleet.core.proof import Change, ChangeKind, CheckSpec, Demands, EntryKind, Scope
from fleet.core.work import Attempt, PlaceKind, Verdict
from fleet.evidence import checkout
from fleet.evidence.outcome import Began, outcome
from fleet.evidence.snapshot import walk
from fleet.evidence.touched import touched
from fleet.evidence.tree import LARGEST, NotTaken, Stand, look_into
from fleet.host import git, glance, repository
from fleet.supervisor.trees import found_as_made, found_by, left_by

NEW = Attempt("t1.1", "t1", 1, "c", "m", "/", "me", 1.0)
WHO = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgSign=false")
EVERYTHING = Demands(scope=Scope(deletions=100, protected=("**",)))


def run(at: Path, *args: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", *WHO, "-c", "protocol.file.allow=always", *args]
    return subprocess.run(argv, cwd=at, env=env, capture_output=True, check=True, text=True).stdout.strip()


def commit(at: Path, message: str = "work") -> str:
    run(at, "add", "-A")
    run(at, "commit", "-qm", message)
    return run(at, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    run(path, "init", "-q", "-b", "main")
    (path / "one.txt").write_text("1\n")
    (path / "sub").mkdir()
    (path / "sub/two.txt").write_text("".join(f"{n}\n" for n in range(30)))
    commit(path, "first")
    return path


def take(at: Path) -> Stand:
    found = git.find(at)
    assert found is not None
    with look_into(found) as trees:
        return trees.take()


def listed(at: Path, tree: str) -> dict[str, str]:
    lines = run(at, "ls-tree", "-r", "-z", tree).split("\0")
    return {path: facts.split(" ")[0] for facts, _, path in (line.partition("\t") for line in lines if line)}


def changes(at: Path, before: Stand, after: Stand) -> dict[str, Change]:
    found = git.find(at)
    assert found is not None
    with look_into(found) as trees:
        return {one.path: one for one in trees.changes(before.tree, after.tree)}


# ---- what is in a tree


def test_a_tree_has_what_is_committed_what_is_not_and_what_is_new_but_nothing_that_is_ignored(repo: Path) -> None:
    before = take(repo)
    assert (before.is_committed, before.tree) == (True, run(repo, "rev-parse", "HEAD^{tree}"))
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "noise.log").write_text("x")
    (repo / "one.txt").write_text("1\n2\n")
    (repo / "sub/new").mkdir()
    (repo / "sub/new/é \t\n.txt").write_text("x\n")
    (repo / "staged").write_text("s\n")
    run(repo, "add", "staged")
    (repo / "staged").write_text("later\n")
    after = take(repo)
    assert not after.is_committed
    assert set(listed(repo, after.tree)) == {
        ".gitignore", "one.txt", "sub/two.txt", "sub/new/é \t\n.txt", "staged",
    }  # fmt: skip
    assert run(repo, "cat-file", "blob", f"{after.tree}:staged") == "later"
    assert take(repo) == after
    assert run(repo, "status", "--porcelain", "one.txt") == "M one.txt", "the index of the user is not touched"


def test_every_kind_of_change_is_told_for_what_it_is(repo: Path, tmp_path: Path) -> None:
    (repo / "gone").write_text("g\n")
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "bytes").write_bytes(b"\0\1")
    (repo / "link").symlink_to("one.txt")
    inner = tmp_path / "inner"
    inner.mkdir()
    run(inner, "init", "-q", "-b", "main")
    (inner / "f").write_text("f")
    commit(inner)
    run(repo, "submodule", "--quiet", "add", str(inner), "module")
    commit(repo)
    before = take(repo)
    (repo / "gone").unlink()
    (repo / "run.sh").chmod(0o755)
    (repo / "bytes").write_bytes(b"\0\2")
    (repo / "link").unlink()
    (repo / "link").symlink_to("/etc/passwd")
    (repo / "sub/two.txt").rename(repo / "sub/moved.txt")
    (repo / "one.txt").write_text("1\n2\n")
    (repo / "module/f").write_text("more")
    bumped = commit(repo / "module")
    found = changes(repo, before, take(repo))
    assert found == {
        "gone": Change("gone", 0, 1, ChangeKind.DELETED, old_mode="100644"),
        "run.sh": Change("run.sh", 0, 0, old_mode="100644", mode="100755"),
        "bytes": Change("bytes", old_mode="100644", mode="100644"),
        "link": Change("link", 1, 1, entry=EntryKind.SYMLINK, old_mode="120000", mode="120000", target="/etc/passwd"),
        "sub/moved.txt": Change(
            "sub/moved.txt", 0, 0, ChangeKind.RENAMED, old_path="sub/two.txt", old_mode="100644", mode="100644"
        ),
        "one.txt": Change("one.txt", 1, 0, old_mode="100644", mode="100644"),
        "module": Change("module", 1, 1, entry=EntryKind.SUBMODULE, old_mode="160000", mode="160000"),
    }
    assert run(repo, "ls-tree", take(repo).tree, "module").split()[2] == bumped


def test_what_an_index_hides_is_in_the_tree_and_an_index_of_rubbish_is_made_anew(repo: Path) -> None:
    run(repo, "update-index", "--assume-unchanged", "one.txt")
    run(repo, "update-index", "--skip-worktree", "sub/two.txt")
    (repo / "one.txt").write_text("hidden\n")
    (repo / "sub/two.txt").write_text("hidden too\n")
    tree = take(repo).tree
    assert run(repo, "cat-file", "blob", f"{tree}:one.txt") == "hidden"
    assert run(repo, "cat-file", "blob", f"{tree}:sub/two.txt") == "hidden too"
    for rubbish in (b"", b"DIRC rubbish", b"\0" * 4096):
        (repo / ".git/index").write_bytes(rubbish)
        assert take(repo).tree == tree, rubbish


def test_a_merge_that_is_not_ended_is_taken_as_it_stands(repo: Path) -> None:
    run(repo, "checkout", "-q", "-b", "other")
    (repo / "one.txt").write_text("theirs\n")
    commit(repo)
    run(repo, "checkout", "-q", "main")
    (repo / "one.txt").write_text("ours\n")
    commit(repo)
    with pytest.raises(subprocess.CalledProcessError):
        run(repo, "merge", "-q", "other")
    assert run(repo, "cat-file", "blob", f"{take(repo).tree}:one.txt").startswith("<<<<<<<")


def test_pipes_and_paths_that_git_cannot_have_are_left_out_and_what_is_too_large_is_refused(repo: Path) -> None:
    (repo / "one.txt").unlink()
    os.mkfifo(repo / "one.txt")
    os.mkfifo(repo / "pipe")
    (repo / ".GIT").mkdir()
    (repo / ".GIT/config").write_text("[core]\n")
    (repo / "git~1").write_text("x")
    assert set(listed(repo, take(repo).tree)) == {"sub/two.txt", "git~1"}
    with (repo / "large").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(NotTaken, match=r"more than 1024 MB are not committed, .*large"):
        take(repo)


def test_a_directory_where_a_file_was_and_a_file_where_a_directory_was(repo: Path) -> None:
    (repo / "one.txt").unlink()
    (repo / "one.txt").mkdir()
    (repo / "one.txt/x").write_text("x")
    (repo / "sub/two.txt").unlink()
    (repo / "sub").rmdir()
    (repo / "sub").write_text("a file")
    assert set(listed(repo, take(repo).tree)) == {"one.txt/x", "sub"}


# ---- what is planted

PLANTED: dict[str, Callable[[Path, Path], None]] = {}


def planted(plant: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    PLANTED[plant.__name__] = plant
    return plant


@planted
def config(repo: Path, evil: Path) -> None:
    with (repo / ".git/config").open("a") as file:
        file.write(
            f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {evil.parent}\n\tattributesFile = {evil.parent}/attributes\n"
            f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n'
            f'[diff "evil"]\n\tcommand = {evil}\n\ttextconv = {evil}\n[diff]\n\texternal = {evil}\n'
            f'[submodule "x"]\n\tupdate = !{evil}\n[gpg]\n\tprogram = {evil}\n[commit]\n\tgpgSign = true\n'
        )
    (evil.parent / "attributes").write_text("* filter=evil diff=evil\n")
    (repo / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    (repo / ".gitattributes").write_text("* filter=evil diff=evil text eol=crlf\n")


@planted
def hooks(repo: Path, evil: Path) -> None:
    for name in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (repo / ".git/hooks" / name).parent.mkdir(exist_ok=True)
        (repo / ".git/hooks" / name).write_bytes(evil.read_bytes())
        (repo / ".git/hooks" / name).chmod(0o755)


@planted
def broken_config(repo: Path, evil: Path) -> None:
    (repo / ".git/config").write_text("[broken")


@planted
def newer_version(repo: Path, evil: Path) -> None:
    (repo / ".git/config").write_text("[core]\n\trepositoryformatversion = 99\n")


@planted
def replaced_objects(repo: Path, evil: Path) -> None:
    (repo / ".git/refs/replace").mkdir(parents=True)
    head = run(repo, "rev-parse", "HEAD")
    empty = run(repo, "commit-tree", "-m", "x", git.EMPTY_TREE)
    (repo / ".git/refs/replace" / head).write_text(f"{empty}\n")
    (repo / ".git/info/grafts").write_text(f"{head}\n")


@planted
def a_module_that_runs_something(repo: Path, evil: Path) -> None:
    text = f'[submodule "x"]\n\tpath = sub\n\turl = ext::{evil}\n\tupdate = !{evil}\n'
    (repo / ".gitmodules").write_text(text)


@planted
def a_lock(repo: Path, evil: Path) -> None:
    for name in ("index.lock", "HEAD.lock", "packed-refs.lock", "shallow.lock"):
        (repo / ".git" / name).touch()


@planted
def a_graph_of_rubbish(repo: Path, evil: Path) -> None:
    (repo / ".git/objects/info/commit-graph").write_bytes(b"CGPH rubbish")
    (repo / ".git/objects/pack/multi-pack-index").write_bytes(b"MIDX rubbish")


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_never_runs_and_the_work_is_delivered(name: str, repo: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil" / "run.sh"
    evil.parent.mkdir()
    evil.write_text(f"#!/bin/sh\necho ran >>'{tmp_path}/ran'\ncat\n")
    evil.chmod(0o755)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    (repo / "one.txt").write_text("work\n")
    (repo / "new.txt").write_text("new\n")
    PLANTED[name](repo, evil)
    result = left_by(attempt, {}, {})
    assert result.problem is None
    assert result.landing is not None
    assert result.tree is not None
    at = tmp_path / "checkouts" / "t1.1-1"
    checkout.check_out(repo / ".git", result.tree, at)
    assert ((at / "one.txt").read_bytes(), (at / "new.txt").read_bytes()) == (b"work\n", b"new\n")
    assert {"one.txt", "new.txt"} <= {one.path for one in result.changes}
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert (repo / ".git/refs/fleet/attempts/t1.1").read_text().strip() == result.landing


@pytest.mark.parametrize("kind", ["file", "link", "directory", "nothing"])
def test_a_worktree_whose_git_was_replaced_still_delivers_its_work(kind: str, repo: Path, tmp_path: Path) -> None:
    at, attempt = place(repo, tmp_path, PlaceKind.WORKTREE)
    (at / "one.txt").write_text("work\n")
    (at / ".git").unlink()
    other = tmp_path / "other"
    other.mkdir()
    run(other, "init", "-q")
    match kind:
        case "file":
            (at / ".git").write_text(f"gitdir: {other}/.git\n")
        case "link":
            (at / ".git").symlink_to(other / ".git")
        case "directory":
            run(at, "init", "-q")
    result = left_by(attempt, {}, {})
    assert result.problem is None, result.problem
    assert [one.path for one in result.changes] == ["one.txt"]
    assert run(repo, "cat-file", "blob", f"{result.landing}:one.txt") == "work"


# ---- objects that are not what they are called


def forge(repo: Path, name: str, kind: str, content: bytes) -> None:
    """Put other bytes under the name of an object: git reads them without a word."""
    at = repo / ".git/objects" / name[:2] / name[2:]
    at.chmod(0o644)
    at.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


def test_a_file_whose_object_was_forged_is_not_checked_out(repo: Path, tmp_path: Path) -> None:
    (repo / "sub/test.py").write_text("assert False\n")
    commit(repo)
    tree, blob = take(repo).tree, run(repo, "rev-parse", "HEAD:sub/test.py")
    forge(repo, blob, "blob", b"assert True \n")
    assert run(repo, "cat-file", "blob", blob) == "assert True", "git does not say anything"
    with pytest.raises(FleetError, match=r"sub/test\.py is not the file that the tree .* has: somebody forged"):
        checkout.check_out(repo / ".git", tree, tmp_path / "out")
    found = git.find(repo)
    assert found is not None
    with pytest.raises(FleetError, match="is not what it is called: somebody forged"):
        checkout.texts(found, found.common / "objects", tree, ["one.txt", "sub/test.py"])


@pytest.mark.parametrize("checked", [True, False], ids=["with a check", "without"])
def test_a_file_of_the_base_that_was_forged_hides_no_change(repo: Path, checked: bool) -> None:
    """By what the forged object says, the file is what it was."""
    asked = Demands(checks=(CheckSpec("true"),) if checked else (), scope=Scope(deny=("sub/**",)))
    attempt = found_by(replace(NEW, cwd=str(repo), demands=asked), [])
    before = run(repo, "rev-parse", "HEAD:sub/two.txt")
    (repo / "sub/two.txt").write_text("weakened\n")
    (repo / "one.txt").write_text("2\n")
    commit(repo)
    forge(repo, before, "blob", b"weakened\n")
    result = left_by(attempt, {}, {})
    assert result.problem is not None
    assert f"the blob {before} is not what it is called: somebody forged" in result.problem


def test_a_file_that_was_forged_is_not_taken_for_one_that_has_a_new_name(repo: Path) -> None:
    """By what the forged object says, the file that is gone has a new name, and nothing was deleted."""
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    before = run(repo, "rev-parse", "HEAD:sub/two.txt")
    (repo / "sub/two.txt").unlink()
    (repo / "three.txt").write_text("something else\n")
    commit(repo)
    forge(repo, before, "blob", b"something else\n")
    result = left_by(attempt, {}, {})
    assert result.problem is not None
    assert f"the blob {before} is not what it is called" in result.problem


def test_a_tree_that_was_forged_hides_nothing(repo: Path, tmp_path: Path) -> None:
    """By what the forged tree says, the work deleted nothing and changed one file."""
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    assert attempt.base_tree is not None
    before = run(repo, "rev-parse", "HEAD:sub")
    (repo / "sub/two.txt").unlink()
    (repo / "sub/three.txt").write_text("3\n")
    (repo / "one.txt").write_text("work\n")
    commit(repo)
    after = subprocess.run(["git", "cat-file", "tree", "HEAD:sub"], cwd=repo, capture_output=True, check=True).stdout
    forge(repo, before, "tree", after)
    assert run(repo, "diff", "--name-only", attempt.base_tree, "HEAD") == "one.txt", "git does not say anything"
    result = left_by(attempt, {}, {})
    assert (result.landing, result.breaches) == (None, [])
    assert result.problem is not None
    assert f"the tree {before} is not what it is called: somebody forged" in result.problem
    with pytest.raises(FleetError, match="somebody forged"):
        checkout.check_out(repo / ".git", attempt.base_tree, tmp_path / "out")


def test_an_old_tree_with_modes_that_git_writes_no_more_is_what_it_is(repo: Path, tmp_path: Path) -> None:
    blob = bytes.fromhex(run(repo, "rev-parse", "HEAD:one.txt"))
    inner = b"100664 a\0" + blob
    folder = made(repo, inner)
    tree = made(repo, b"040000 old\0" + bytes.fromhex(folder) + b"100644 z\0" + blob)
    checkout.check_out(repo / ".git", tree, tmp_path / "out")
    assert (tmp_path / "out/old/a").read_text() == "1\n"


def made(repo: Path, content: bytes) -> str:
    argv = ["git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin"]
    return subprocess.run(argv, cwd=repo, input=content, capture_output=True, check=True).stdout.decode().strip()


# ---- what lands


def place(repo: Path, tmp_path: Path, kind: PlaceKind) -> tuple[Path, Attempt]:
    """A place of an attempt that is about to begin."""
    if kind is PlaceKind.INPLACE:
        return repo, found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    project = places.project(repo)
    assert project is not None
    made = places.make(kind, project, "work", run(repo, "rev-parse", "HEAD"), tmp_path / "places" / "work")
    attempt = replace(NEW, cwd=str(made.path), place=kind, repository=str(repo), demands=EVERYTHING)
    return made.path, found_by(attempt, [])


@pytest.mark.parametrize("kind", [PlaceKind.WORKTREE, PlaceKind.CLONE])
def test_what_a_new_place_has_is_known_without_a_look(repo: Path, tmp_path: Path, kind: PlaceKind) -> None:
    run(repo, "config", "core.autocrlf", "true")
    (repo / "one.txt").write_text("not committed\n")
    at, found = place(repo, tmp_path, kind)
    assert found.began_tree == run(at, "rev-parse", "HEAD^{tree}")
    made = found_as_made(replace(found, began_at=None, began_tree=None, base_tree=None, stores=()))
    assert made == replace(found, base_taken=made.base_taken)


@pytest.mark.parametrize("kind", list(PlaceKind))
def test_what_lands_is_one_commit_in_the_main_repository_and_later_writes_do_not_count(
    kind: PlaceKind, repo: Path, tmp_path: Path
) -> None:
    at, attempt = place(repo, tmp_path, kind)
    assert attempt.began_tree == attempt.base_tree == run(repo, "rev-parse", "HEAD^{tree}")
    (at / "one.txt").write_text("committed\n")
    head = commit(at)
    committed = left_by(attempt, {}, {})
    assert (committed.landing, committed.head) == (head, head)
    (at / "new.txt").write_text("not committed\n")
    (at / "added.txt").write_text("added and not committed\n")
    run(at, "add", "added.txt")
    result = left_by(attempt, {}, {})
    (at / "new.txt").write_text("later\n")
    assert result.landing is not None
    assert run(repo, "rev-parse", "refs/fleet/attempts/t1.1") == result.landing
    assert run(repo, "rev-parse", f"{result.landing}^{{tree}}", f"{result.landing}^").split() == [result.tree, head]
    assert run(repo, "log", "-1", "--format=%an <%ae> %s", result.landing) == (
        "fleet <fleet@localhost> What t1.1 left uncommitted"
    )
    assert run(repo, "cat-file", "blob", f"{result.landing}:new.txt") == "not committed"
    assert {one.path for one in result.changes} == {"one.txt", "new.txt", "added.txt"}
    assert result.uncommitted == ["added.txt", "new.txt"]
    assert run(repo, "fsck", "--no-dangling") == ""


def test_nothing_lands_of_an_attempt_that_changed_nothing_and_what_stood_there_before_is_not_its_work(
    repo: Path,
) -> None:
    (repo / "mine.txt").write_text("dirty before\n")
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    assert run(repo, "cat-file", "blob", f"{attempt.began_tree}:mine.txt") == "dirty before"
    result = left_by(attempt, {}, {})
    assert (result.landing, result.changes, result.effect, result.is_changed) == (None, [], False, False)
    assert not (repo / ".git/refs/fleet/attempts").exists()
    (repo / "mine.txt").unlink()
    result = left_by(attempt, {}, {})
    assert (result.gone, result.uncommitted, result.is_changed) == (["mine.txt"], [], True)


def test_an_unborn_branch_has_a_tree_and_a_directory_without_git_has_none(tmp_path: Path) -> None:
    unborn, plain = tmp_path / "unborn", tmp_path / "plain"
    unborn.mkdir()
    plain.mkdir()
    run(unborn, "init", "-q", "-b", "main")
    (unborn / "mine").write_text("before\n")
    attempt = found_by(replace(NEW, cwd=str(unborn), demands=EVERYTHING), [])
    (unborn / "work").write_text("w\n")
    result = left_by(attempt, {}, {})
    assert ([one.path for one in result.changes], result.head) == (["work"], None)
    assert listed(unborn, result.landing or "") == {"mine": "100644", "work": "100644"}
    assert found_by(replace(NEW, cwd=str(plain)), []).began_tree is None


def test_what_an_earlier_attempt_did_to_the_place_is_part_of_the_result(repo: Path, tmp_path: Path) -> None:
    at, first = place(repo, tmp_path, PlaceKind.WORKTREE)
    (at / "one.txt").unlink()
    again = replace(first, demands=Demands(), verdict=Verdict.RETRY)
    assert [one.rule for one in left_by(again, {}, {}).breaches] == ["deletions"]
    second = found_by(replace(again, id="t1.2", number=2, verdict=None), [again])
    assert (second.base_tree == first.began_tree, second.began_tree != first.began_tree) == (True, True)
    (at / "new.txt").write_text("x\n")
    result = left_by(second, {}, {})
    assert [one.rule for one in result.breaches] == ["deletions"], "what the first deleted is still deleted"
    assert result.uncommitted == ["new.txt"]


@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.FAILED])
def test_in_place_the_base_stays_when_a_person_opens_a_task_again_that_stands_as_it_was_left(
    verdict: Verdict, repo: Path
) -> None:
    first = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "one.txt").unlink()
    commit(repo)
    left = left_by(first, {}, {})
    before = replace(first, verdict=verdict, forgiven=True, left_at=left.head, left_tree=left.tree)
    unstarted = replace(NEW, id="t1.2", number=2, cwd=str(repo), verdict=Verdict.FAILED, forgiven=True)
    again = replace(NEW, id="t1.3", number=3, cwd=str(repo), demands=Demands())
    second = found_by(again, [before, unstarted])
    assert (second.base_tree, second.began_tree) == (first.began_tree, left.tree)
    (repo / "new.txt").write_text("x\n")
    assert [one.rule for one in left_by(second, {}, {}).breaches] == ["deletions"], "what was refused is no base"

    accepted = found_by(again, [replace(before, verdict=Verdict.ACCEPTED)])
    assert accepted.base_tree == accepted.began_tree, "a result that was accepted is one"
    assert found_by(again, [before]).base_tree != first.began_tree, "somebody has written there since"
    (repo / "new.txt").unlink()
    assert found_by(again, [before]).base_tree == first.began_tree
    run(repo, "commit", "-q", "--allow-empty", "-m", "a person's")
    assert found_by(again, [before]).base_tree == left.tree, "somebody has committed there since"


def test_a_repository_that_is_gone_is_said_to_be(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo)), [])
    (repo / ".git").rename(repo / "elsewhere")
    result = left_by(attempt, {}, {})
    assert (result.tree, result.problem) == (None, "its repository cannot be read any more")
    run(repo, "init", "-q")
    assert left_by(attempt, {}, {}).problem is not None, "another one in its place does not know what was found"


@pytest.mark.parametrize("kind", ["file", "link", "above", "common"])
def test_another_repository_than_the_one_it_began_in_is_refused_and_nothing_is_written_there(
    kind: str, repo: Path, tmp_path: Path
) -> None:
    """The other one even has all the objects that the attempt found."""
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    other = tmp_path if kind == "above" else tmp_path / "other"
    run(tmp_path, "clone", "-q", str(repo), str(tmp_path / "other"))
    run(tmp_path, "init", "-q") if kind == "above" else None
    before = sorted((other / ".git").rglob("*"))
    (repo / "one.txt").write_text("work\n")
    if kind == "common":
        (repo / ".git/commondir").write_text(f"{other}/.git\n")
    else:
        (repo / ".git").rename(tmp_path / "aside")
    if kind == "file":
        (repo / ".git").write_text(f"gitdir: {other}/.git\n")
    if kind == "link":
        (repo / ".git").symlink_to(other / ".git")
    result = left_by(attempt, {}, {})
    assert (result.landing, result.problem) == (None, "its repository is another one than it began in")
    tried = replace(attempt, verdict=Verdict.RETRY)
    with pytest.raises(FleetError, match="is another one than it began in"):
        found_by(replace(attempt, id="t1.2", number=2), [tried])
    assert sorted((other / ".git").rglob("*")) == before


def test_a_clone_keeps_nothing_where_its_agent_leads_it(repo: Path, tmp_path: Path) -> None:
    at, attempt = place(repo, tmp_path, PlaceKind.CLONE)
    other = tmp_path / "other"
    run(tmp_path, "clone", "-q", str(repo), str(other))
    (at / ".git/commondir").write_text(f"{other}/.git\n")
    (at / "one.txt").write_text("work\n")
    before = sorted((other / ".git").rglob("*"))
    result = left_by(attempt, {}, {})
    assert (result.landing, result.problem) == (None, "its repository is another one than it began in")
    assert sorted((other / ".git").rglob("*")) == before


def test_many_changes_are_judged_all_and_listed_in_part(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands(scope=Scope(deny=("zzz",)))), [])
    for n in range(300):
        (repo / f"f{n}").write_text(f"{n}\n")
    (repo / "zzz").write_text("z\n")
    result = left_by(attempt, {}, {})
    assert (len(result.changes), result.totals["files"], result.totals["added"]) == (200, 301, 301)
    assert [(one.path, one.rule) for one in result.breaches] == [("zzz", "deny")]


def test_what_a_checks_scripts_lead_to_is_put_back_for_a_second_run(repo: Path) -> None:
    (repo / "sub/check.sh").write_text('#!/bin/sh\n. ./lib.sh\nexpect "$(cat two.txt)"\n')
    (repo / "sub/lib.sh").write_text('expect() { test -n "$1"; }\n')
    commit(repo)
    demands = Demands(checks=(CheckSpec("cd sub && ./check.sh"),))
    attempt = found_by(replace(NEW, cwd=str(repo), demands=demands), [])
    (repo / "sub/lib.sh").write_text("expect() { true; }\n")
    (repo / "sub/two.txt").write_text("work\n")
    result = left_by(attempt, {}, {})
    assert (result.breaches, result.check_files) == ([], ["sub/lib.sh"])
    allowed = replace(demands, scope=Scope(protected=("sub/lib.sh",)))
    assert left_by(replace(attempt, demands=allowed), {}, {}).check_files == [], "an ordinary file, where that is said"


# ---- what git changes on the way in


FILTERED = Demands(scope=Scope(allow=("one.txt",)))


def with_filter(repo: Path) -> None:
    """A repository in which git writes `.dat` files in capitals, as others encrypt them or keep them elsewhere."""
    run(repo, "config", "filter.up.clean", "tr a-z A-Z")
    run(repo, "config", "filter.up.smudge", "tr A-Z a-z")
    (repo / ".gitattributes").write_text("*.dat filter=up\n")
    (repo / "x.dat").write_text("old word\n")
    commit(repo)


def make_racy(at: Path, racy: bool = True) -> None:
    """As if the index were no newer than its files: git then compares every byte. Or as if it were much newer."""
    index = Path(run(at, "rev-parse", "--absolute-git-dir")) / "index"
    when = 10**9 if racy else int(repository.now() + 3600) * 10**9
    os.utime(index, ns=(when, when))


@pytest.mark.parametrize("racy", [True, False])
@pytest.mark.parametrize("kind", [PlaceKind.WORKTREE, PlaceKind.INPLACE])
def test_what_a_filter_made_and_the_agent_committed_lands_as_it_was_committed(
    kind: PlaceKind, racy: bool, repo: Path, tmp_path: Path
) -> None:
    with_filter(repo)
    at, attempt = place(repo, tmp_path, kind)
    (at / "y.dat").write_text("secret word\n")
    head = commit(at)
    make_racy(at, racy)
    result = left_by(attempt, {}, {})
    assert (result.landing, result.uncommitted, result.left_out) == (head, [], [])
    assert run(repo, "cat-file", "blob", f"{result.landing}:y.dat") == "SECRET WORD"


@pytest.mark.parametrize("racy", ["before", "after", "both"])
def test_a_filtered_file_that_nobody_touched_is_not_changed(racy: str, repo: Path) -> None:
    with_filter(repo)
    make_racy(repo, racy != "after")
    attempt = found_by(replace(NEW, cwd=str(repo), demands=FILTERED), [])
    (repo / "one.txt").write_text("work\n")
    make_racy(repo, racy != "before")
    result = left_by(attempt, {}, {})
    assert ([one.path for one in result.changes], result.breaches, result.left_out) == (["one.txt"], [], [])


def test_a_filtered_file_that_is_not_committed_stays_out_and_is_told_and_its_bytes_are_in_no_object(repo: Path) -> None:
    with_filter(repo)
    (repo / "mine.dat").write_text("not committed before\n")
    run(repo, "checkout", "-q", "-b", "other")
    (repo / "x.dat").write_text("theirs\n")
    run(repo, "commit", "-qam", "theirs")
    run(repo, "checkout", "-q", "main")
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING, started=repository.now()), [])
    (repo / "x.dat").write_text("ours\n")
    (repo / "new.dat").write_text("a secret\n")
    result = left_by(attempt, {}, {})
    assert (result.landing, result.left_out) == (None, ["new.dat", "x.dat"])
    assert result.problem == (
        "new.dat, x.dat: git passes such files through a filter (up), which fleet does not run; "
        "the agent has to commit them itself"
    )
    (repo / "one.txt").write_text("work\n")
    result = left_by(attempt, {}, {})
    assert (result.problem, result.left_out) == (None, ["new.dat", "x.dat"])
    assert [one.path for one in result.changes] == ["one.txt"]
    assert run(repo, "cat-file", "blob", f"{result.landing}:x.dat") == "OLD WORD"
    for secret in ("new.dat", "mine.dat", "x.dat"):
        raw = run(repo, "hash-object", "--no-filters", secret)
        assert subprocess.run(["git", "cat-file", "-e", raw], cwd=repo, capture_output=True, check=False).returncode
    run(repo, "commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        run(repo, "merge", "-q", "other")
    result = left_by(attempt, {}, {})
    assert run(repo, "cat-file", "blob", f"{result.tree}:x.dat") == "OURS", "of a merge that is not ended, our side"
    (repo / "x.dat").unlink()
    assert [one.path for one in left_by(attempt, {}, {}).changes if one.change is ChangeKind.DELETED] == ["x.dat"]


@pytest.mark.parametrize("named", [True, False])
def test_what_the_users_own_git_ignores_is_left_out_and_a_repository_cannot_say_what_that_is(
    named: bool, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    (user / ".config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (user / ".config/git/ignore").write_text("*.other\n" if named else "*.log\n.idea/\n")
    (user / ".mine").write_text("*.log\n.idea/\n")
    if named:
        (user / ".gitconfig").write_text("[core]\n\texcludesFile = ~/.mine\n")
    (tmp_path / "theirs").write_text("*\n")
    run(repo, "config", "core.excludesFile", str(tmp_path / "theirs"))
    (repo / ".git/info/exclude").write_text("!kept.log\n")
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands(scope=Scope(allow=("*.txt", "kept.log")))), [])
    (repo / ".idea").mkdir()
    for name in (".idea/w.xml", "debug.log", "kept.log", "new.txt"):
        (repo / name).write_text("x\n")
    result = left_by(attempt, {}, {})
    assert ([one.path for one in result.changes], result.breaches) == (["kept.log", "new.txt"], [])
    found = git.find(repo)
    assert found is not None
    assert {one.path for one in touched(found, attempt.began_at, ()) or ()} == {"kept.log", "new.txt"}


def test_a_large_package_that_was_renamed_and_edited_is_no_deletion(repo: Path) -> None:
    (repo / "pkg").mkdir()
    for n in range(1100):
        (repo / f"pkg/m{n}.py").write_text(f"import pkg\n\nVALUE = {n}\n")
    commit(repo)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "pkg").rename(repo / "lib")
    for n in range(1100):
        (repo / f"lib/m{n}.py").write_text(f"import lib\n\nVALUE = {n}\n")
    result = left_by(attempt, {}, {})
    assert (result.totals["renamed"], result.totals["deleted"], result.breaches) == (1100, 0, [])


def test_modes_are_as_they_were_where_the_users_git_does_not_look_at_them(repo: Path) -> None:
    run(repo, "config", "core.fileMode", "false")
    (repo / "one.txt").chmod(0o755)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    assert attempt.began_tree == run(repo, "rev-parse", "HEAD^{tree}")
    (repo / "one.txt").write_text("2\n")
    (repo / "new.sh").write_text("x\n")
    (repo / "new.sh").chmod(0o755)
    result = left_by(attempt, {}, {})
    assert {path: mode for path, mode in listed(repo, result.landing or "").items() if path != "sub/two.txt"} == {
        "new.sh": "100644", "one.txt": "100644",
    }  # fmt: skip
    run(repo, "add", "-A")
    assert run(repo, "write-tree") == result.tree, "as git itself would take it"


@pytest.mark.parametrize("set_by", ["config", "attributes"])
@pytest.mark.parametrize("kind", [PlaceKind.WORKTREE, PlaceKind.INPLACE])
def test_line_ends_land_as_git_would_have_committed_them(
    kind: PlaceKind, set_by: str, repo: Path, tmp_path: Path
) -> None:
    if set_by == "config":
        run(repo, "config", "core.autocrlf", "true")
    else:
        (repo / ".gitattributes").write_text("*.txt text=auto eol=crlf\n")
        commit(repo)
    for path in ("one.txt", "sub/two.txt"):
        (repo / path).unlink()
    run(repo, "checkout", "-q", ".")
    make_racy(repo)
    at, attempt = place(repo, tmp_path, kind)
    make_racy(at)
    assert (at / "sub/two.txt").read_bytes().startswith(b"0\r\n1\r\n")
    (at / "one.txt").write_bytes(b"1\r\n2\r\n")
    (at / "new.txt").write_bytes(b"new\r\n")
    (at / "bytes.txt").write_bytes(b"\0\r\n")
    result = left_by(attempt, {}, {})
    assert [(one.path, one.added, one.removed) for one in result.changes] == [
        ("bytes.txt", None, None), ("new.txt", 1, 0), ("one.txt", 1, 0),
    ]  # fmt: skip
    made = (repo / ".git", result.tree or "", tmp_path / "c")
    checkout.check_out(*made)
    assert [(tmp_path / "c" / name).read_bytes() for name in ("one.txt", "new.txt", "bytes.txt")] == [
        b"1\n2\n", b"new\n", b"\0\r\n",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [PlaceKind.WORKTREE, PlaceKind.INPLACE])
@pytest.mark.parametrize("said", [None, "false", "0"])
def test_line_ends_are_bytes_like_others_where_no_setting_speaks_of_them(
    kind: PlaceKind, said: str | None, repo: Path, tmp_path: Path
) -> None:
    if said is not None:
        run(repo, "config", "core.autocrlf", said)
    at, attempt = place(repo, tmp_path, kind)
    (at / "one.txt").write_bytes(b"1\r\n")
    (at / "new.bat").write_bytes(b"new\r\n")
    result = left_by(attempt, {}, {})
    assert [(one.path, one.added, one.removed) for one in result.changes] == [("new.bat", 1, 0), ("one.txt", 1, 1)]
    run(at, "add", "-A")
    assert run(at, "write-tree") == result.tree, "as git itself would take it"


def test_a_setting_without_a_value_is_a_yes(repo: Path, tmp_path: Path) -> None:
    with (repo / ".git/config").open("a") as config:
        config.write("[core]\n\tautocrlf\n")
    at, attempt = place(repo, tmp_path, PlaceKind.INPLACE)
    (at / "new.txt").write_bytes(b"new\r\n")
    result = left_by(attempt, {}, {})
    run(at, "add", "-A")
    assert run(at, "write-tree") == result.tree, "as git itself would take it"


@pytest.mark.parametrize("where", ["inside", "by a file", "object", "linked objects", "borrowed objects"])
def test_git_waits_for_no_pipe_in_a_repository(where: str, repo: Path, tmp_path: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "one.txt").write_text("2\n")
    if where == "inside":
        run(repo, "init", "-q", "inner")
        at = repo / "inner/.git/HEAD"
    elif where == "by a file":
        for directory in (repo / "inner", repo / ".s/objects", repo / ".s/refs"):
            directory.mkdir(parents=True)
        (repo / "inner/.git").write_text("gitdir: ../.s\n")
        (repo / "inner/x").touch()
        (repo / ".s/config").write_text("[core]\n")
        at = repo / ".s/HEAD"
    elif where == "borrowed objects":
        name = run(repo, "rev-parse", "HEAD^{tree}")
        (repo / ".git/objects" / name[:2] / name[2:]).unlink()
        at = tmp_path / "store" / name[:2] / name[2:]
        at.parent.mkdir(parents=True)
        (repo / ".git/objects/info/alternates").write_text(f"{tmp_path / 'store'}\n")
    else:
        name = run(repo, "rev-parse", "HEAD^{tree}")
        at = repo / ".git/objects" / name[:2] / name[2:]
        if where == "linked objects":
            at.parent.rename(tmp_path / "elsewhere")
            at.parent.symlink_to(tmp_path / "elsewhere")
    at.unlink(missing_ok=True)
    os.mkfifo(at)
    problem = left_by(attempt, {}, {}).problem
    assert problem is not None
    assert f"{at.name} is no plain file, and git would wait for it" in problem


def test_git_takes_no_more_memory_than_it_should_need(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.host.run.MOST_MEMORY", 64 * 1024**2)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "one.txt").write_text("2\n")
    with (repo / ".gitignore").open("wb") as file:
        file.truncate(1024**3)
    problem = left_by(attempt, {}, {}).problem
    assert problem is not None
    assert problem == "git needs more than 64 MB of memory for it"


@pytest.mark.parametrize("name", ["sub/.gitignore", ".gitattributes"])
def test_git_waits_for_no_pipe_that_has_the_name_of_a_list_of_its_own(name: str, repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "one.txt").write_text("2\n")
    os.mkfifo(repo / name)
    make_racy(repo)
    assert left_by(attempt, {}, {}).problem == f"{repo / name} is no plain file, and git would wait for it"
    found = git.find(repo)
    assert found is not None
    with git.mirror(found) as ours:
        assert ours.standing(attempt.began_at) is None, "unknown, and soon"
    assert glance.glance([glance.Tree(found, attempt.began_at)]) == [glance.Glance(0, None)]


def test_work_may_lie_as_deep_as_git_can_have_it(repo: Path, tmp_path: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    deep, notes = Path("d/" * 1200), tmp_path / "notes"
    for top in (repo, notes):
        subprocess.run(["mkdir", "-p", str(top / deep)], check=True)
        (top / deep / "f").write_text("x\n")
        (top / deep / "link").symlink_to("f")
        (top / deep / "out").symlink_to(tmp_path)
    found = walk(notes)
    assert found is not None
    assert sorted(found) == [str(deep / name) for name in ("f", "link", "out")]
    result = left_by(attempt, {}, found)
    assert (result.problem, result.totals["files"]) == (None, 3)
    assert [one.rule for one in result.breaches] == ["symlink"]
    for top in (repo, notes):
        repository.remove_tree(top)
    assert (repo.exists(), notes.exists(), tmp_path.exists()) == (False, False, True)


def test_attributes_of_the_agents_own_hide_no_work(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    (repo / ".gitattributes").write_text("* filter=none\n")
    commit(repo)
    run(repo, "update-index", "--assume-unchanged", "one.txt")
    (repo / "one.txt").write_text("hidden\n")
    (repo / "new.txt").write_text("new\n")
    result = left_by(attempt, {}, {})
    assert result.left_out == []
    assert {one.path for one in result.changes} == {".gitattributes", "one.txt", "new.txt"}


def forge_note(at: Path, path: str, how: str) -> None:
    """Let the index say that a file, as it stands there now, is what was committed."""
    file, old, new = at / ".git/index", run(at, "rev-parse", f"HEAD:{path}"), run(at, "hash-object", path)
    run(at, "add", path)
    if how == "version 4":
        run(at, "update-index", "--index-version", "4")
    if how == "split":
        run(at, "update-index", "--split-index")
        (file,) = (at / ".git").glob("sharedindex.*")
    found = bytearray(file.read_bytes().replace(bytes.fromhex(new), bytes.fromhex(old)))
    if how == "padded":
        end = found.index(path.encode() + b"\0") + len(path)
        found[end : end + 1] = b"x"
    found[-20:] = bytes(20) if how == "no checksum" else sha1(found[:-20]).digest()
    file.write_bytes(found)
    os.utime(file, (time.time() + 10, time.time() + 10))
    if how == "split":
        shared = file.rename(file.with_name(f"sharedindex.{found[-20:].hex()}"))
        named = bytearray((at / ".git/index").read_bytes().replace(bytes.fromhex(file.name[12:]), found[-20:]))
        named[-20:] = sha1(named[:-20]).digest()
        (at / ".git/index").write_bytes(named)
        os.utime(at / ".git/index", (shared.stat().st_mtime, shared.stat().st_mtime))


@pytest.mark.parametrize("how", ["plain", "version 4", "split", "padded", "no checksum"])
def test_an_index_that_the_agent_forged_hides_no_work(repo: Path, how: str) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "one.txt").write_text("hidden\n")
    forge_note(repo, "one.txt", how)
    if how in ("plain", "version 4", "no checksum"):
        assert run(repo, "status", "--porcelain") == "", "git believes it"
    first = left_by(attempt, {}, {})
    assert [one.path for one in first.changes] == ["one.txt"], first.problem
    again = found_by(replace(attempt, id="t1.2", number=2), [replace(attempt, verdict=Verdict.RETRY)])
    assert again.began_tree == first.tree
    assert [one.path for one in left_by(again, {}, {}).changes] == ["one.txt"], "nor from the attempt after it"


def test_trees_that_an_index_claims_to_have_made_are_not_believed(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "sub/three.txt").write_text("3\n")
    run(repo, "add", "sub")
    run(repo, "write-tree")
    made = run(repo, "rev-parse", "HEAD:sub")
    file = repo / ".git/index"
    found = bytearray(file.read_bytes())
    now = run(repo, "rev-parse", f"{run(repo, 'write-tree')}:sub")
    for one, other in ((now, made), (run(repo, "write-tree"), run(repo, "rev-parse", "HEAD^{tree}"))):
        found = found.replace(bytes.fromhex(one), bytes.fromhex(other))
    found[-20:] = sha1(found[:-20]).digest()
    file.write_bytes(found)
    assert run(repo, "write-tree") == run(repo, "rev-parse", "HEAD^{tree}"), "git believes it"
    assert [one.path for one in left_by(attempt, {}, {}).changes] == ["sub/three.txt"]


def test_what_stands_behind_a_link_is_no_part_of_the_tree(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / "sub").rename(repo / "other")
    (repo / "sub").symlink_to("other")
    expected = {"sub", "other/two.txt"}
    assert {one.path for one in left_by(attempt, {}, {}).changes} == expected, "the same times all the same"
    (repo / "other/two.txt").write_text("2\n")
    result = left_by(attempt, {}, {})
    assert (result.problem, result.tree) == (None, written(repo)), "and it is no reason to refuse anything"
    (repo / ".gitignore").write_text("other\nsub\n.gitignore\n")
    assert [(one.path, one.change) for one in left_by(attempt, {}, {}).changes] == [("sub/two.txt", ChangeKind.DELETED)]


def written(repo: Path) -> str:
    """The tree that git itself makes of what stands there, in a copy."""
    copied = repo.parent / "copied"
    shutil.copytree(repo, copied, symlinks=True)
    run(copied, "add", "-A")
    return run(copied, "write-tree")


def test_what_is_too_large_to_be_read_again_is_taken_for_no_new_name(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.evidence.tree.MOST_READ", 4096)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=EVERYTHING), [])
    before = run(repo, "rev-parse", "HEAD:sub/two.txt")
    large = (b"%08d" % n + bytes(10_000) for n in range(10_000))
    first = next(one for one in large if sha1(b"blob %d\0" % len(one) + one).hexdigest() < min(before, "1"))
    (repo / "large.bin").write_bytes(first)  # it is read before all others
    (repo / "sub/two.txt").unlink()
    (repo / "three.txt").write_text("something else\n")
    commit(repo)
    forge(repo, before, "blob", b"something else\n")
    result = left_by(attempt, {}, {})
    assert (result.totals["deleted"], result.totals["renamed"]) == (1, 0)
    assert {one.added for one in result.changes} == {None}, "how many lines differ is not known"


def test_line_ends_that_an_agent_committed_by_its_own_rules_land_so(repo: Path) -> None:
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    (repo / ".gitattributes").write_text("* text=auto\n")
    (repo / "new.txt").write_bytes(b"1\r\n2\r\n")
    head = commit(repo)
    result = left_by(attempt, {}, {})
    assert (result.landing, result.uncommitted) == (head, [])


def test_what_git_wrote_anew_and_is_as_it_was_is_no_change(repo: Path) -> None:
    (repo / "large.bin").write_bytes(bytes(70 * 1024**2))
    commit(repo)
    attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
    for name in ("large.bin", "one.txt"):
        (repo / name).unlink()
    run(repo, "checkout", "-q", ".")
    result = left_by(attempt, {}, {})
    assert (result.changes, result.problem) == ([], None)
    (repo / "one.txt").write_text("2\n")
    assert [one.path for one in left_by(attempt, {}, {}).changes] == ["one.txt"]


def test_a_sparse_tree_is_without_what_it_leaves_out(repo: Path) -> None:
    run(repo, "sparse-checkout", "set", "--no-cone", "/one.txt")
    assert not (repo / "sub").exists()
    for more in ([], ["--sparse-index", "--cone"]):
        if more:
            run(repo, "sparse-checkout", "init", *more)
        attempt = found_by(replace(NEW, cwd=str(repo), demands=Demands()), [])
        assert attempt.began_tree == run(repo, "rev-parse", "HEAD^{tree}")
        assert left_by(attempt, {}, {}).changes == []


# ---- a clean checkout


def test_a_checkout_is_the_tree_and_nothing_else_with_no_link_followed(repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to(outside)
    (repo / "untracked").write_text("u\n")
    tree = take(repo).tree
    (repo / "later").write_text("l\n")
    at = tmp_path / "home" / "checkouts" / "t1.1-1"
    for _ in range(2):  # what a killed supervisor left is replaced
        checkout.check_out(repo / ".git", tree, at)
        assert {path.name for path in at.iterdir()} == {"one.txt", "sub", "run.sh", "link", "untracked"}
        (at / "left").write_text("by a check")
    assert at.stat().st_mode & 0o777 == at.parent.stat().st_mode & 0o777 == 0o700
    assert os.access(at / "run.sh", os.X_OK)
    assert os.readlink(at / "link") == str(outside)
    assert checkout.inner(at, PurePosixPath("sub")) == at / "sub"
    assert checkout.inner(at, PurePosixPath("new/deep")).is_dir()
    for odd in ("link", "link/x", "one.txt", "../x"):
        with pytest.raises(FleetError):
            checkout.inner(at, PurePosixPath(odd))
    assert list(outside.iterdir()) == []


def test_files_are_put_back_as_they_were_and_what_is_lent_takes_the_place_of_what_is_there(
    repo: Path, tmp_path: Path
) -> None:
    base = take(repo).tree
    (repo / "one.txt").write_text("changed\n")
    (repo / "sub/two.txt").unlink()
    (repo / "fresh").write_text("f\n")
    (repo / "kept").write_text("k\n")
    (repo / ".gitignore").write_text("lib/\n")
    (repo / "lib").mkdir()
    (repo / "lib/x").write_text("x")
    tree = take(repo).tree
    at = tmp_path / "c"
    checkout.check_out(repo / ".git", tree, at, base=base, put_back=["one.txt", "sub/two.txt", "fresh"])
    assert (at / "one.txt").read_text() == "1\n"
    assert (at / "sub/two.txt").exists()
    assert {path.name for path in at.iterdir()} == {"one.txt", "sub", "kept", ".gitignore"}
    (repo / "one.txt").unlink()
    (repo / "one.txt").mkdir()
    (repo / "one.txt/in its way").write_text("")
    (repo / "sub").rename(repo / "moved")
    (repo / "sub").write_text("in its way\n")
    put_back = ["one.txt", "sub/two.txt"]
    checkout.check_out(repo / ".git", take(repo).tree, tmp_path / "d", base=base, put_back=put_back)
    assert [(tmp_path / "d" / path).is_file() for path in put_back] == [True, True]
    (repo / "dangling").symlink_to("/nowhere")
    assert checkout.lend(at, repo, ["lib", "kept", "missing", "dangling", "../x", "/etc"]) == [
        repo / "lib",
        repo / "kept",
    ]
    assert ((at / "lib/x").read_text(), (at / "kept").is_symlink()) == ("x", True)


def test_the_checks_own_files_are_known_by_the_tree_that_was_found(repo: Path) -> None:
    (repo / "check.sh").write_text("#!/bin/sh\nfalse\n")
    (repo / "tests").mkdir()
    (repo / "tests/test_a.py").write_text("def test_a(): assert 1\n")
    commit(repo)
    asked = Demands(checks=(CheckSpec("./check.sh && pytest"),))
    attempt = found_by(replace(NEW, cwd=str(repo), demands=asked), [])
    (repo / "tests/test_a.py").write_text("def test_a(): assert 1\n\n\ndef test_b(): assert 1\n")
    (repo / "tests/test_new.py").write_text("def test_c(): assert 1\n")
    result = left_by(attempt, {}, {})
    assert (result.breaches, result.check_files) == ([], ["tests/test_a.py", "tests/test_new.py"])
    (repo / "check.sh").write_text("#!/bin/sh\ntrue\n")
    assert [(one.path, one.rule) for one in left_by(attempt, {}, {}).breaches] == [("check.sh", "protected")]


def test_the_outcome_of_a_second_attempt_tells_its_own_part_from_the_whole(repo: Path) -> None:
    found = git.find(repo)
    assert found is not None
    first = take(repo)
    (repo / "a").write_text("a\n")
    second = take(repo)
    (repo / "b").write_text("b\n")
    with look_into(found) as trees:
        stand = trees.take()
        result, all_of_it = outcome(trees, Began(first.head, second.tree, first.tree), stand, {}, {})
    assert [one.path for one in all_of_it] == ["a", "b"]
    assert result.uncommitted == ["b"]


def test_a_tree_that_cannot_be_taken_any_more_lets_nobody_past_the_gates(repo: Path, tmp_path: Path) -> None:
    """A gigabyte and more, as far as anybody can see: the file is one hole."""
    at, first = place(repo, tmp_path, PlaceKind.WORKTREE)
    with (at / "large").open("wb") as file:
        file.truncate(1024**3 + 1)
    again = replace(first, verdict=Verdict.RETRY)
    second = found_by(replace(again, id="t1.2", number=2, verdict=None), [again])
    assert (second.began_at, second.began_tree, second.base_tree) == (first.began_at, first.base_tree, first.base_tree)
    assert "more than 1024 MB" in (left_by(second, {}, {}).problem or "")
    fresh = found_by(replace(first, began_tree=None, base_tree=None), [])
    assert (fresh.began_tree, "more than 1024 MB" in fresh.untaken) == (None, True)
    (at / "large").unlink()
    (at / "small").write_text("done\n")
    mended = left_by(second, {}, {})
    assert (mended.problem, [one.path for one in mended.changes]) == (None, ["small"])


def test_a_file_that_is_nothing_but_marks_of_a_merge_is_read_to_its_end(repo: Path) -> None:
    """Patterns that look for all of them at once took hours."""
    for branch in ("side", "ours"):
        run(repo, "checkout", "-q", "-b", branch, "main")
        (repo / "one.txt").write_text(f"{branch}\n")
        commit(repo)
    with pytest.raises(subprocess.CalledProcessError):
        run(repo, "merge", "side")
    (repo / "one.txt").write_text("<<<<<<< a\n" * 30_000 + "=======\n" * 30_000)
    assert take(repo).unmerged == ()
    with (repo / "one.txt").open("a") as file:
        file.write(">>>>>>> b\n")
    assert take(repo).unmerged == ("one.txt",)


def test_what_somebody_else_wrote_into_an_index_is_not_taken_for_what_stands_there(repo: Path) -> None:
    (repo / "evil.txt").write_text("evil\n")
    blobs = [run(repo, "hash-object", "-w", name) for name in ("one.txt", "evil.txt")]
    (repo / "evil.txt").unlink()
    honest, at = take(repo), repo / ".git/index"
    facts, content = at.stat(), at.read_bytes()
    content = content[: content.index(b"TREE")].replace(bytes.fromhex(blobs[0]), bytes.fromhex(blobs[1]))
    at.write_bytes(content + sha1(content).digest())
    os.utime(at, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10**10))
    assert run(repo, "diff", "--cached", "--name-only") == "one.txt"
    assert take(repo).tree == honest.tree


def test_a_worktree_that_was_made_inside_is_no_part_of_what_stands_there(repo: Path) -> None:
    before = take(repo)
    run(repo, "worktree", "add", "-q", "--detach", "sub/inner")
    assert take(repo) == before


def test_a_repository_that_git_would_wait_for_is_refused_with_the_reason(repo: Path) -> None:
    os.mkfifo(repo / ".git/packed-refs")
    with pytest.raises(FleetError, match="packed-refs is no plain file, and git would wait for it"):
        repository.do(repo / ".git", "rev-parse", "--verify", "refs/heads/none", what="no")

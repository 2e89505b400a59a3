"""Places in real repositories: made, looked at, saved, brought back and removed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fleet import places
from fleet.core import BadConfig, FleetError, NotFound, Unavailable
from fleet.core.task import Spec
from fleet.core.work import PlaceKind
from fleet.core.workspace import Workspace
from fleet.evidence.tree import point
from fleet.host.repository import do, remove_tree
from fleet.places import Place, Project, salvage
from fleet.places.difference import Difference
from fleet.places.furnish import furnish
from fleet.supervisor.place import look_around, settle_in

WORKTREE, CLONE = PlaceKind.WORKTREE, PlaceKind.CLONE
KINDS = [WORKTREE, CLONE]


@pytest.fixture(autouse=True)
def _somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text(
        "[user]\n\tname = Somebody\n\temail = some@body\n[init]\n\tdefaultBranch = main\n"
        '[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(cwd: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True)
    return done.stdout.decode(errors="surrogateescape").strip()


def commit(cwd: Path, files: dict[str, str], message: str = "some work") -> str:
    for name, text in files.items():
        (cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (cwd / name).write_text(text)
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "--allow-empty", "-m", message)
    return git(cwd, "rev-parse", "HEAD")


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository whose path has a space and an umlaut."""
    top = tmp_path / "mein Übungs repo"
    top.mkdir()
    git(top, "init", "-q")
    commit(top, {"a.txt": "one\n", "deep/b.txt": "two\n", ".gitignore": "ignored\n"})
    return top


def find(cwd: Path) -> Project:
    found = places.project(cwd)
    assert found is not None
    return found


def make(main: Path, kind: PlaceKind = WORKTREE, branch: str = "feat/x", base: str | None = None) -> Place:
    project = find(main)
    path = places.path_for(places.root_for(main.parent / "hôme", project), branch)
    return places.make(kind, project, branch, base, path)


def tree(top: Path) -> dict[bytes, tuple[int, bytes]]:
    """Every file and empty directory: its mode and its bytes. The place's own link to git is left out."""
    found = {}
    for directory, folders, names in os.walk(os.fsencode(top)):
        if directory == os.fsencode(top):
            folders[:] = [name for name in folders if name != b".git"]
            names = [name for name in names if name != b".git"]
        for name in (*names, *folders):
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[os.path.relpath(path, os.fsencode(top))] = (0, os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.fsencode(top))] = (stat.S_IMODE(mode), file.read())
            elif not os.listdir(path):
                found[os.path.relpath(path, os.fsencode(top))] = (0, b"")
    return found


# finding the repository


def test_the_main_repository_is_found_from_everywhere_in_it(main: Path) -> None:
    project = find(main)
    assert project == Project(main, main / ".git")
    assert find(main / "deep") == project
    for kind in KINDS:
        place = make(main, kind, branch=f"from-{kind}")
        assert find(place.path) == project
        assert find(place.path / "deep") == project


def test_a_submodule_is_a_project_of_its_own_and_a_plain_directory_is_none(main: Path, tmp_path: Path) -> None:
    with_submodule(main, tmp_path)
    assert find(main / "lib").top == main / "lib"
    assert places.project(tmp_path) is None


def test_a_bare_repository_has_places_too(main: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    project = find(tmp_path / "bare.git")
    assert project.is_bare
    for kind in KINDS:
        place = places.make(kind, project, f"on-{kind}", None, tmp_path / "places" / kind)
        assert (place.path / "a.txt").read_text() == "one\n"
        assert find(place.path) == project
        places.remove(place, None)


# looking


def large(main: Path, kind: PlaceKind = WORKTREE) -> Place:
    """A place of so many files that git is lent a copy of its index."""
    commit(main, {f"many/{number}.txt": f"{number:04}\n" for number in range(900)})
    return make(main, kind)


def copies(place: Place) -> list[Path]:
    return sorted((place.path.parent / ".places").glob(".*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_index_is_copied_once_for_git_to_write_to_and_never_written_itself(main: Path, kind: PlaceKind) -> None:
    place = large(main, kind)
    index = Path(git(place.path, "rev-parse", "--absolute-git-dir")) / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino
    for number in (1, 2):
        (place.path / f"many/{number}.txt").write_text("same\n")  # as long as before, and perhaps in the same second
        assert places.condition(place) == places.Condition(ahead=0, changed=number)
        assert len(copies(place)) == 1
    first = copies(place)
    (place.path / "new.txt").write_text("new\n")
    assert places.condition(place) == places.Condition(ahead=0, changed=3)
    assert copies(place) == first
    assert (index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino) == before
    git(place.path, "add", "many/1.txt")
    assert places.condition(place) == places.Condition(ahead=0, changed=3)
    commit(place.path, {"more.txt": "more\n"})
    assert places.condition(place) == places.Condition(ahead=1, changed=0)
    assert len(copies(place)) == 1
    assert copies(place) != first
    places.remove(place, salvage.save(place, "x"))
    assert copies(place) == []


def test_a_link_where_the_copy_of_an_index_was_is_not_written_through(main: Path, tmp_path: Path) -> None:
    place = large(main)
    assert places.condition(place).changed == 0
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for copy in copies(place):
        copy.unlink()
        copy.symlink_to(precious)
    (place.path / "many/1.txt").unlink()
    assert places.condition(place).changed == 1
    assert precious.read_text() == "precious"
    assert [copy.is_symlink() for copy in copies(place)] == [False]


def test_a_large_index_whose_copy_cannot_be_kept_is_read_where_it_stands(main: Path) -> None:
    place = large(main)
    assert places.condition(place).changed == 0
    for copy in copies(place):
        copy.unlink()
        copy.mkdir()
    (place.path / "many/1.txt").unlink()
    assert places.condition(place).changed == 1
    assert all(copy.is_dir() for copy in copies(place))


# making


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_stands_on_a_new_branch_from_the_commit_that_is_checked_out(main: Path, kind: PlaceKind) -> None:
    place = make(main, kind)
    assert git(place.path, "symbolic-ref", "HEAD") == "refs/heads/feat/x"
    assert git(place.path, "rev-parse", "HEAD") == place.base == git(main, "rev-parse", "HEAD")
    assert tree(place.path) == tree(main)
    assert place.repository == main
    assert places.condition(place) == places.Condition(ahead=0, changed=0)
    assert make(main, kind) == place


@pytest.mark.parametrize("kind", KINDS)
def test_a_detached_head_a_dirty_tree_and_a_base_are_no_trouble(main: Path, kind: PlaceKind) -> None:
    first = git(main, "rev-parse", "HEAD")
    second = commit(main, {"c.txt": "three\n"})
    git(main, "checkout", "-q", "--detach")
    (main / "a.txt").write_text("not committed\n")
    assert make(main, kind, "one").base == second
    older = make(main, kind, "two", "HEAD~1")
    assert older.base == first
    assert not (older.path / "c.txt").exists()
    assert (older.path / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_repository_without_a_commit_is_told_how_to_get_one(tmp_path: Path, kind: PlaceKind) -> None:
    git(tmp_path, "init", "-q", "new")
    with pytest.raises(FleetError, match="has no commit yet") as problem:
        make(tmp_path / "new", kind)
    assert "commit --allow-empty" in (problem.value.hint or "")
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(FleetError, match="has no commit yet") as problem:
        make(tmp_path / "bare.git", kind)
    assert "push" in (problem.value.hint or ""), "nobody can commit in a bare repository"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told", ["objectFormat = sha256", 'refStorage = "reftable"'])
def test_a_repository_that_fleet_cannot_read_gets_no_place_and_why_is_said(
    main: Path, kind: PlaceKind, told: str, tmp_path: Path
) -> None:
    with (main / ".git/config").open("a") as file:
        file.write(f"# objectFormat = other\n[extensions]\n\t{told}\n")
    project = Project(main, main / ".git")
    with pytest.raises(FleetError, match="fleet reads repositories with sha1 objects and refs in files alone") as said:
        places.make(kind, project, "new", None, tmp_path / "places/new")
    assert told.rpartition(" ")[2].strip('"') in said.value.message
    assert not (tmp_path / "places").exists()
    (main / ".git/config").write_text("[extensions]\n\tobjectFormat = sha1\n# refStorage = reftable\n")
    assert places.make(kind, project, "new", None, tmp_path / "places/new").branch == "new"


def test_a_branch_that_is_checked_out_is_refused_and_where_is_said(main: Path, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=f"main is checked out in {main}"):
        make(main, branch="main")
    git(main, "worktree", "add", "-q", str(tmp_path / "else where"), "-b", "taken")
    with pytest.raises(FleetError, match=r"taken is checked out in .*else where"):
        make(main, branch="taken")


@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_that_is_there_is_used_as_it_is(main: Path, kind: PlaceKind) -> None:
    first = git(main, "rev-parse", "HEAD")
    git(main, "checkout", "-q", "-b", "theirs")
    tip = commit(main, {"theirs.txt": "theirs\n"})
    git(main, "checkout", "-q", "main")
    commit(main, {"mine.txt": "mine\n"})
    place = make(main, kind, "theirs")
    assert git(place.path, "rev-parse", "HEAD") == tip
    assert place.base == first
    assert places.condition(place).ahead == 1
    assert not places.remove(place, None)
    assert git(main, "rev-parse", "theirs") == tip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_said_and_nothing_is_left(main: Path, kind: PlaceKind) -> None:
    with pytest.raises(NotFound, match="no commit 'nowhere'"):
        make(main, kind, base="nowhere")
    with pytest.raises(BadConfig, match=r"contains \.\."):
        make(main, kind, "..")
    path = make(main, kind).path
    assert [one for one in path.parent.iterdir() if one.name not in (path.name, ".places")] == []


def test_a_branch_whose_name_is_a_part_of_anothers_is_refused_in_words(main: Path) -> None:
    git(main, "branch", "feat")
    with pytest.raises(FleetError, match="another one has its name as a part"):
        make(main, branch="feat/x")
    assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_fleet_did_not_make_is_never_touched(main: Path, kind: PlaceKind) -> None:
    path = places.path_for(places.root_for(main.parent / "hôme", find(main)), "feat/x")
    path.mkdir(parents=True)
    (path / "precious").write_text("mine")
    with pytest.raises(FleetError, match="in the way"):
        make(main, kind)
    with pytest.raises(FleetError, match="not a place that fleet made"):
        places.remove(Place(path, "feat/x", "0" * 40, kind, main), None)
    assert (path / "precious").read_text() == "mine"


@pytest.mark.parametrize("kind", KINDS)
def test_no_hook_runs_and_no_upstream_is_set(main: Path, kind: PlaceKind, tmp_path: Path) -> None:
    hook = main / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    git(main, "config", "branch.autoSetupMerge", "always")
    make(main, kind)
    assert not (tmp_path / "ran").exists()
    assert "branch.feat/x" not in git(main, "config", "--list")


@pytest.mark.parametrize("kind", KINDS)
def test_filters_of_the_users_work_as_large_files_need_them(main: Path, kind: PlaceKind) -> None:
    git(main, "config", "filter.big.smudge", "tr a-z A-Z")
    git(main, "config", "filter.big.clean", "tr A-Z a-z")
    git(main, "config", "filter.big.required", "true")
    commit(main, {".gitattributes": "*.big filter=big\n", "x.big": "LOUD\n"})
    place = make(main, kind)
    assert git(main, "show", "HEAD:x.big") == "loud"
    assert (place.path / "x.big").read_text() == "LOUD\n"
    assert git(place.path, "status", "--porcelain") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_sparse_checkout_stays_sparse(main: Path, kind: PlaceKind) -> None:
    commit(main, {"wanted/w.txt": "w", "unwanted/u.txt": "u"})
    git(main, "sparse-checkout", "set", "wanted")
    place = make(main, kind)
    assert (place.path / "wanted/w.txt").exists()
    assert not (place.path / "unwanted").exists()
    assert git(place.path, "status", "--porcelain") == ""
    assert places.condition(place).changed == 0
    assert salvage.save(place, "x") is None


def with_submodule(main: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "library")
    commit(tmp_path / "library", {"code.txt": "code\n"})
    git(main, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(main, {})


@pytest.mark.parametrize("kind", KINDS)
def test_submodules_come_from_the_main_repository_and_not_from_elsewhere(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    with_submodule(main, tmp_path)
    (tmp_path / "library").rename(tmp_path / "unreachable")
    place = make(main, kind)
    assert (place.path / "lib/code.txt").read_text() == "code\n"
    assert git(place.path, "submodule", "status").startswith(git(main, "rev-parse", "HEAD:lib"))
    assert git(place.path, "config", "submodule.lib.url") == str(tmp_path / "library")
    assert salvage.save(place, "x") is None
    assert places.condition(place).changed == 0
    places.remove(place, None)
    assert git(main, "submodule", "status").split()[0] == git(main, "rev-parse", "HEAD:lib")


MAKE_FOUR = """
import sys
from pathlib import Path
from fleet import places
main, kind, first = Path(sys.argv[1]), places.PlaceKind(sys.argv[2]), int(sys.argv[3])
project = places.project(main)
for number in range(first, first + 4):
    branch = f"p/{number % 15}"
    print(places.make(kind, project, branch, None, places.path_for(main.parent / "many", branch)).path)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_are_made_at_once_by_several_processes(main: Path, kind: PlaceKind) -> None:
    """Some of them make the same one; each finds it, and none disturbs another."""
    argv = [sys.executable, "-c", MAKE_FOUR, str(main), kind.value]
    running = [subprocess.Popen([*argv, str(first)], stdout=subprocess.PIPE, text=True) for first in (0, 4, 8, 12, 14)]
    made = [line for process in running for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in running] == [0] * 5
    assert (len(made), len(set(made))) == (20, 15)
    for path in made:
        assert git(Path(path), "status", "--porcelain") == ""


# saving


def mess(place: Place) -> None:
    """Everything that an agent can leave behind."""
    top = place.path
    (top / "a.txt").write_bytes(b"changed\r\n$Id$\r\n")
    (top / ".gitattributes").write_text("* text=auto eol=crlf ident filter=evil\n*.u16 working-tree-encoding=UTF-16\n")
    (top / "x.u16").write_bytes(b"not utf 16")
    (top / "staged.txt").write_text("staged\n")
    git(top, "add", "staged.txt")
    (top / "staged.txt").write_text("and changed\n")
    (top / "deep/b.txt").unlink()
    (top / "later").write_text("to be added")
    git(top, "add", "-N", "later")
    (top / "ignored").write_text("ignored")
    with open(os.path.join(os.fsencode(top), b'n\xff\xfe "quoted"\n\\line'), "wb") as file:
        file.write(bytes(range(256)))
    (top / "private").write_text("private")
    (top / "private").chmod(0o600)
    (top / "tool").write_text("#!/bin/sh\n")
    (top / "tool").chmod(0o755)
    (top / "link").symlink_to("/etc/passwd")
    (top / "link to directory").symlink_to("deep")
    (top / "empty/er").mkdir(parents=True)
    (top / "new directory").mkdir()
    (top / "new directory/git~1").write_text("odd")
    for name in ("unborn", "born"):
        (top / name).mkdir()
        git(top / name, "init", "-q")
        (top / name / "inside").write_text(name)
    git(top / "born", "add", "inside")
    git(top / "born", "commit", "-q", "-m", "inner")
    git(top, "update-index", "--assume-unchanged", "a.txt")


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_of_a_removed_place_comes_back(main: Path, kind: PlaceKind, tmp_path: Path) -> None:
    place = make(main, kind)
    mess(place)
    before = tree(place.path)
    index = git(place.path, "ls-files", "-s", "-z")
    saved = salvage.save(place, "feat/x", task="fl-1")
    assert saved is not None
    assert saved.name == "feat-x"
    places.remove(place, saved)
    assert not place.path.exists()
    git(main, "gc", "-q", "--prune=now")
    kept = salvage.restore(find(main), "feat-x", tmp_path / "back")
    assert (kept.branch, kept.task, kept.path) == ("feat/x", "fl-1", str(place.path))
    expected = {path: what for path, what in before.items() if path != b"ignored"}
    assert tree(tmp_path / "back") == expected
    assert git(tmp_path / "back", "ls-files", "-s", "-z") == index
    assert git(tmp_path / "back/born", "log", "--format=%s") == "inner"


@pytest.mark.parametrize("kind", KINDS)
def test_commits_that_nothing_leads_to_any_more_are_kept(main: Path, kind: PlaceKind) -> None:
    place = make(main, kind)
    top = place.path
    stashed = commit_and_stash(top)
    amended = commit(top, {"v1": "1"}, "first try")
    git(top, "commit", "-q", "--amend", "-m", "second try")
    thrown = commit(top, {"v2": "2"}, "thrown away")
    git(top, "reset", "-q", "--hard", "HEAD~1")
    git(top, "checkout", "-q", "--detach")
    detached = commit(top, {"v3": "3"}, "detached")
    git(top, "checkout", "-q", "feat/x")
    git(top, "checkout", "-q", "-b", "side", "HEAD~1")
    sided = commit(top, {"v4": "4"}, "on the side")
    git(top, "checkout", "-q", "feat/x")
    kept = {stashed, amended, thrown, detached} | ({sided, git(top, "rev-parse", "HEAD")} if kind is CLONE else set())
    saved = salvage.save(place, "x")
    places.remove(place, saved)
    if kind is WORKTREE:
        git(main, "stash", "clear")
    git(main, "reflog", "expire", "--expire=now", "--all")
    git(main, "gc", "-q", "--prune=now")
    shown = salvage.show(find(main), "x")
    assert {one for one, _ in shown.commits} | ({shown.kept.head} if kind is CLONE else set()) >= kept
    for one in kept:
        assert git(main, "cat-file", "-t", one) == "commit"
    assert git(main, "show", f"{stashed}:a.txt") == "stashed"
    assert git(main, "rev-parse", "--verify", "feat/x" if kind is WORKTREE else shown.kept.head or "")


def commit_and_stash(top: Path) -> str:
    (top / "a.txt").write_text("stashed\n")
    git(top, "stash", "-q")
    return git(top, "rev-parse", "refs/stash")


def test_a_conflict_and_a_rebase_under_way_are_kept(main: Path, tmp_path: Path) -> None:
    place = make(main)
    theirs = commit(place.path, {"a.txt": "theirs\n"})
    git(place.path, "checkout", "-q", "--detach", place.base or "")
    commit(place.path, {"a.txt": "ours\n"})
    with pytest.raises(subprocess.CalledProcessError):
        git(place.path, "merge", "-q", "feat/x")
    before, index = tree(place.path), git(place.path, "ls-files", "-s")
    saved = salvage.save(place, "x")
    assert saved is not None
    places.remove(place, saved)
    assert git(main, "show", f"{saved.commit}:git/MERGE_HEAD") == theirs
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tree(tmp_path / "back"), git(tmp_path / "back", "ls-files", "-s")) == (before, index)


@pytest.mark.parametrize("kind", KINDS)
def test_a_submodule_that_was_worked_in_comes_back_with_its_commits(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    with_submodule(main, tmp_path)
    place = make(main, kind)
    tip = commit(place.path / "lib", {"code.txt": "better\n"}, "inner work")
    (place.path / "lib/more.txt").write_text("not committed")
    before = {path: what for path, what in tree(place.path).items() if b".git" not in path}
    saved = salvage.save(place, "x")
    assert saved is not None
    places.remove(place, saved)
    salvage.restore(find(main), "x", tmp_path / "back")
    after = {path: what for path, what in tree(tmp_path / "back").items() if b".git" not in path}
    assert after == before
    assert git(tmp_path / "back/lib", "rev-parse", "HEAD") == tip
    assert git(tmp_path / "back/lib", "status", "--porcelain") == "?? more.txt"


@pytest.mark.parametrize("kind", KINDS)
def test_a_submodule_that_nobody_worked_in_is_nothing_to_save_though_no_remote_has_its_commit(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    with_submodule(main, tmp_path)
    git(main / "lib", "checkout", "--quiet", "--detach")
    tip = commit(main / "lib", {"code.txt": "only here\n"})
    commit(main, {}, "with what is inside")
    place = make(main, kind)
    assert git(place.path / "lib", "rev-parse", "HEAD") == tip
    assert salvage.save(place, "x") is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_in_a_submodule_that_the_branch_names_is_nowhere_else_and_is_saved(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    with_submodule(main, tmp_path)
    place = make(main, kind)
    tip = commit(place.path / "lib", {"code.txt": "better\n"}, "inner work")
    commit(place.path, {}, "with what is inside")
    assert git(place.path, "status", "--porcelain") == ""
    places.remove(place, salvage.save(place, "x"))
    salvage.restore(find(main), "x", tmp_path / "back")
    assert git(tmp_path / "back/lib", "rev-parse", "HEAD") == tip
    assert git(tmp_path / "back/lib", "show", "HEAD:code.txt") == "better"


@pytest.mark.parametrize("inner", ["shown", "ignored"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_worktree_that_was_made_inside_is_saved_with_its_commits_and_is_known_no_more(
    main: Path, kind: PlaceKind, inner: str, tmp_path: Path
) -> None:
    (main / ".git/info/exclude").write_text("ignored\n")
    place = make(main, kind)
    git(place.path, "worktree", "add", "--quiet", "--detach", inner)
    lost = commit(place.path / inner, {"a.txt": "first\n"})
    git(place.path / inner, "reset", "--quiet", "--hard", "HEAD~1")
    tip = commit(place.path / inner, {"a.txt": "second\n"})
    git(place.path / inner, "switch", "--quiet", "-c", "inner")
    (place.path / inner / "more.txt").write_text("not committed\n")
    saved = salvage.save(place, "x")
    assert saved is not None
    places.remove(place, saved)
    assert len(git(main, "worktree", "list").splitlines()) == 1
    git(main, "reflog", "expire", "--expire=now", "--all")
    git(main, "gc", "--quiet", "--prune=now")
    assert [git(main, "cat-file", "-t", one) for one in (lost, tip)] == ["commit", "commit"]
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tmp_path / "back" / inner / "more.txt").read_text() == "not committed\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_an_agent_planted_runs(main: Path, kind: PlaceKind, tmp_path: Path) -> None:
    place = make(main, kind)
    top, ran = place.path, tmp_path / "ran"
    commit(top, {".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    evil.chmod(0o755)
    (top / "inner").mkdir()
    git(top / "inner", "init", "-q")
    commit(top / "inner", {"f": "f"})
    for repository in (top, top / "inner"):
        for name in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor",
                     "diff.evil.command", "diff.evil.textconv", "core.pager", "diff.external", "merge.evil.driver",
                     "core.sshCommand", "uploadpack.packObjectsHook", "gpg.program"):  # fmt: skip
            git(repository, "config", name, str(evil))
        git(repository, "config", "core.hooksPath", str(tmp_path / "hooks"))
        git(repository, "config", "filter.evil.required", "true")
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-rewrite"):
        (tmp_path / "hooks" / name).write_bytes(evil.read_bytes())
        (tmp_path / "hooks" / name).chmod(0o755)
    (top / "a.txt").write_text("changed\n")
    (top / "inner/f").write_text("changed\n")
    ran.unlink(missing_ok=True)
    assert places.condition(place).changed == 2
    assert b"changed" in places.difference(place).text
    saved = salvage.save(place, "x")
    places.remove(place, saved)
    assert salvage.show(find(main), "x").files
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tmp_path / "back/a.txt").read_text() == "changed\n"
    assert not ran.exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address", ["ext::{evil}", "{main}"])
def test_nothing_that_the_config_of_the_users_own_repository_names_runs(
    main: Path, kind: PlaceKind, address: str, tmp_path: Path
) -> None:
    """An agent that works in place can write it. What git would fetch by itself is not fetched."""
    evil, ran = tmp_path / "evil", tmp_path / "ran"
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    evil.chmod(0o755)
    whole = git(main, "rev-parse", "HEAD")
    lacking = commit(main, {"lacking": "lacking"})
    (other := tmp_path / "other").mkdir()
    git(other, "init", "-q")
    (main / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    blob = git(main, "rev-parse", f"{lacking}:lacking")
    place = make(main, kind, base=whole)
    commit(place.path, {"b.txt": "b\n"})
    (place.path / "c.txt").write_text("c\n")
    for name in ("core.alternateRefsCommand", "core.sshCommand", "core.askPass", "core.pager", "core.editor",
                 "credential.helper", "gpg.program", "diff.external", "uploadpack.packObjectsHook", "core.fsmonitor",
                 "remote.o.uploadpack"):  # fmt: skip
        git(main, "config", name, str(evil))
    for name, value in (
        ("log.showSignature", "true"), ("commit.gpgSign", "true"), ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "o"), ("remote.o.promisor", "true"), ("protocol.allow", "always"),
        ("protocol.ext.allow", "always"), ("remote.o.url", address.format(evil=evil, main=main)),
    ):  # fmt: skip
        git(main, "config", name, value)
    ran.unlink(missing_ok=True)

    make(main, kind, branch="another", base=whole)
    if kind is CLONE:
        places.collect(place)
    assert b"c.txt" in places.difference(place).text
    places.remove(place, salvage.save(place, "x"))
    assert salvage.show(find(main), "x").files
    (main / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()
    with suppress(FleetError):
        make(main, kind, branch="lacking", base=lacking)

    assert not ran.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_where_fleet_keeps_its_refs_is_put_out_of_the_way(main: Path, kind: PlaceKind) -> None:
    for plant in ("file", "link", "directory"):
        own = main / ".git/refs/fleet"
        shutil.rmtree(own, ignore_errors=True)
        if plant == "directory":
            (own / "attempts/t1.1/x").mkdir(parents=True)
        elif plant == "file":
            own.write_text(git(main, "rev-parse", "HEAD"))
        else:
            own.mkdir()
            (own / "attempts").symlink_to(main)
        place = make(main, kind, branch=plant)
        tip = commit(place.path, {"b.txt": "b\n"})
        if kind is CLONE:
            places.bring(place, tip, "refs/fleet/attempts/t1.1")
        else:
            point(main / ".git", "refs/fleet/attempts/t1.1", tip)
        assert git(main, "rev-parse", "refs/fleet/attempts/t1.1") == tip
    (main / ".git/refs").rename(main / ".git/elsewhere")
    (main / ".git/refs").symlink_to("elsewhere")
    with pytest.raises(FleetError, match="refs is a link, or no directory"):
        point(main / ".git", "refs/fleet/attempts/t1.1", tip)


def test_the_lock_of_a_killed_git_is_waited_for_and_a_branch_of_ours_does_not_wait_long(main: Path) -> None:
    own, packed = main / ".git/refs/heads/feat/x.lock", main / ".git/packed-refs.lock"
    own.parent.mkdir()
    own.touch()
    with pytest.raises(
        Unavailable, match=r"feat/x\.lock is there: another git works in this repository, or was killed"
    ):
        make(main)
    os.utime(own, (0, 0))
    place = make(main)
    assert not own.exists()
    packed.touch()
    with pytest.raises(Unavailable, match=r"packed-refs\.lock is there"):
        do(main / ".git", "pack-refs", what="x")
    packed.unlink()
    assert place.path.is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_an_agent_planted_for_a_submodule_does_not_run(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    with_submodule(main, tmp_path)
    git(main, "config", "submodule.lib.update", f"!touch '{tmp_path}/ran'; :")
    place = make(main, kind)
    assert (place.path / "lib/code.txt").read_text() == "code\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_too_much_is_not_kept_in_silence_and_ignored_files_only_when_asked_for(
    main: Path, kind: PlaceKind, tmp_path: Path
) -> None:
    place = make(main, kind)
    (place.path / "ignored").write_text("ignored")
    assert salvage.save(place, "x") is None
    (place.path / "large").write_bytes(b"x" * 3_000_000)
    with pytest.raises(salvage.TooBig, match="at most 1 MB") as problem:
        salvage.save(place, "x", cap=1024**2)
    assert problem.value.size > 3_000_000
    assert salvage.all(find(main)) == []
    saved = salvage.save(place, "x", cap=None, ignored=True)
    places.remove(place, saved)
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tmp_path / "back/ignored").read_text() == "ignored"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_after_the_save_is_not_removed(main: Path, kind: PlaceKind) -> None:
    place = make(main, kind)
    saved = salvage.save(place, "x")
    assert saved is None
    (place.path / "late").write_text("late")
    with pytest.raises(FleetError, match=r"written in .* after it was saved"):
        places.remove(place, saved)
    saved = salvage.save(place, "x")
    (place.path / "late").write_text("LATE")
    with pytest.raises(FleetError, match=r"written in .* after it was saved"):
        places.remove(place, saved)
    again = salvage.save(place, "x")
    assert again is not None
    assert again.name == "x-2"
    places.remove(place, again)
    assert git(main, "show", f"{again.commit}:files/late") == "LATE"


def test_a_branch_goes_only_when_it_holds_nothing_of_its_own(main: Path) -> None:
    assert places.remove(make(main, branch="empty"), None)
    assert git(main, "branch", "--list", "empty") == ""
    place = make(main, branch="full")
    tip = commit(place.path, {"f": "f"})
    assert not places.remove(place, salvage.save(place, "full"))
    assert git(main, "rev-parse", "full") == tip
    assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_place_that_was_removed_by_hand_or_locked_is_put_in_order(main: Path) -> None:
    place = make(main, branch="gone")
    subprocess.run(["rm", "-rf", str(place.path)], check=True)
    assert places.condition(place) == places.Condition(there=False)
    again = make(main, branch="gone")
    assert (again.path / "a.txt").exists()
    git(main, "worktree", "lock", str(again.path))
    subprocess.run(["rm", "-rf", str(again.path)], check=True)
    places.remove(again, None)
    assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(main, "branch", "--list", "gone") == ""


def test_a_tree_that_cannot_be_written_to_is_removed(main: Path) -> None:
    place = make(main)
    cache = place.path / "ignored/go/pkg"
    cache.mkdir(parents=True)
    (cache / "mod.go").write_text("x")
    for one in (cache / "mod.go", cache, cache.parent):
        one.chmod(0o555)
    places.remove(place, salvage.save(place, "x"))
    assert not place.path.exists()


def test_the_commits_of_a_clone_come_back_when_it_is_collected(main: Path) -> None:
    place = make(main, CLONE)
    first = commit(place.path, {"f": "1"})
    assert git(main, "branch", "--list", "feat/x") == ""
    assert places.collect(place) == first
    assert git(main, "rev-parse", "feat/x") == first
    git(place.path, "commit", "-q", "--amend", "-m", "better")
    second = git(place.path, "rev-parse", "HEAD")
    assert places.collect(place) == second == git(main, "rev-parse", "feat/x")
    git(main, "branch", "-f", "feat/x", "main")
    commit(place.path, {"f": "2"})
    git(main, "branch", "-f", "feat/x", commit(main, {"mine": "mine"}))
    with pytest.raises(FleetError, match="was moved in"):
        places.collect(place)
    places.remove(place, salvage.save(place, "x"))
    assert git(main, "show", "-s", "--format=%s", "refs/fleet/salvage/x^1") == "some work"


def test_restoring_writes_over_nothing_and_can_stand_on_a_branch(main: Path, tmp_path: Path) -> None:
    place = make(main)
    (place.path / "new").write_text("new")
    places.remove(place, salvage.save(place, "x"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there/mine").write_text("mine")
    with pytest.raises(FleetError, match="not written over"):
        salvage.restore(find(main), "x", tmp_path / "there")
    salvage.restore(find(main), "x", tmp_path / "back", "again")
    assert git(tmp_path / "back", "status", "--porcelain", "--branch").splitlines() == ["## again", "?? new"]
    assert [one.name for one in salvage.all(find(main))] == ["x"]
    salvage.drop(find(main), "x")
    with pytest.raises(NotFound, match="no salvage 'x'"):
        salvage.show(find(main), "x")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_whoever_is_killed_at_any_step_leaves_what_the_next_one_mends(main: Path, kind: PlaceKind) -> None:
    argv = [sys.executable, str(Path(__file__).parents[1] / "standins/cut_off.py"), str(main), kind.value]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    _, making, _, ending = done.stdout.splitlines()[-1].split()
    assert int(making) > 5
    assert int(ending) > 10
    assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(main, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    left = [str(one) for one in (main.parent / "cut places").rglob("*") if one.name != ".places"]
    assert left == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replaced", [False, True])
def test_an_agent_that_removes_its_git_loses_nothing(
    main: Path, kind: PlaceKind, replaced: bool, tmp_path: Path
) -> None:
    place = make(main, kind)
    (place.path / "new").write_text("new")
    subprocess.run(["rm", "-rf", str(place.path / ".git")], check=True)
    if replaced:
        git(place.path, "init", "-q")
        commit(place.path, {"inner": "inner"}, "elsewhere")
    saved = salvage.save(place, "x")
    assert saved is not None
    places.remove(place, saved)
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tmp_path / "back/new").read_text() == "new"
    assert (tmp_path / "back/a.txt").read_text() == "one\n"
    if replaced:
        assert (tmp_path / "back/inner").read_text() == "inner"
        if kind is WORKTREE:
            assert git(tmp_path / "back", "--git-dir=agent.git", "log", "-1", "--format=%s") == "elsewhere"
        else:
            assert (
                "elsewhere" in [subject for _, subject in salvage.show(find(main), "x").commits]
                or git(tmp_path / "back", "log", "-1", "--format=%s") == "elsewhere"
            )


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_not_get_into_git_is_neither_saved_nor_in_the_way(main: Path, kind: PlaceKind) -> None:
    """What was furnished is known by the place's record, whatever the project's fleet.yaml says by then."""
    place = make(main, kind)
    (main / ".env").write_text("SECRET=1")
    wanted = Workspace(credential_files=(".env",), env={"A": "SECRET"}, env_file="conf/.env.local")
    furnish(place.path, main, wanted, {}, environment={}, quick=True, log=main.parent / "log", hear=lambda line: None)
    assert salvage.save(place, "x", ignored=True) is None
    git(place.path, "add", "-f", ".env")
    (place.path / "new").write_text("new")
    saved = salvage.save(place, "x", ignored=True)
    places.remove(place, saved)
    assert [path for path, _ in salvage.show(find(main), "x").files] == ["new"]
    assert ".env" not in git(main, "ls-tree", "-r", "--name-only", "refs/fleet/salvage/x")
    assert "SECRET" not in git(main, "log", "-p", "--all")


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_whose_record_an_agent_removed_can_be_removed(main: Path, kind: PlaceKind) -> None:
    place = make(main, kind)
    (place.path.parent / ".places" / f"{place.path.name}.json").unlink()
    (place.path / "new").write_text("new")
    places.remove(place, salvage.save(place, "x"))
    assert not place.path.exists()


def test_what_nobody_may_delete_is_left_and_said_and_the_rest_is_removed(main: Path) -> None:
    place = make(main)
    file = place.path / "ignored"
    file.write_text("x")
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", file], capture_output=True).returncode:
        pytest.skip("nobody here can make a file that its owner may not delete")
    left = [place.path.with_name(f".removing-{place.path.name}{end}") for end in ("", ".2")]
    try:
        with pytest.raises(places.Left, match=re.escape(str(left[0]))) as problem:
            places.remove(place, None)
        assert problem.value.hint == f"sudo rm -r {shlex.quote(str(left[0]))}"
        assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1
        again = make(main)
        assert again.path == place.path
        with pytest.raises(places.Left):
            places.remove(again, None)
        assert not left[1].exists()
        assert places.leftovers(place.path.parent) == [left[0]]
    finally:
        subprocess.run(["chattr", "-i", left[0] / "ignored"], check=True)
    places.finish(left[0])
    assert places.leftovers(place.path.parent) == []


def test_a_tree_with_directories_that_nobody_may_enter_is_removed_and_nothing_above_changes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a/b/c").mkdir(parents=True)
    (root / "a/b/c/file").write_text("x")
    for one in ("a/b/c", "a/b", "a"):
        (root / one).chmod(0)
    root.chmod(0o755)
    remove_tree(root / "a")
    assert not (root / "a").exists()
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    with pytest.raises(FleetError, match=r"/proc/.* cannot be removed") as problem:
        remove_tree(Path(f"/proc/{os.getpid()}/fdinfo"))
    assert problem.value.hint == f"sudo rm -r /proc/{os.getpid()}/fdinfo"


def test_what_a_clone_borrows_is_not_thrown_away_under_it(main: Path) -> None:
    place = make(main, CLONE)
    git(main, "checkout", "-q", "--orphan", "anew")
    commit(main, {}, "anew")
    git(main, "branch", "-q", "-D", "main")
    git(main, "reflog", "expire", "--expire=now", "--all")
    git(main, "gc", "-q", "--prune=now")
    git(place.path, "fsck", "--connectivity-only")
    places.remove(place, salvage.save(place, "x"))
    assert git(main, "for-each-ref", "--format=%(refname)").split() == ["refs/fleet/salvage/x", "refs/heads/anew"]


# strangers' words


def plant_record(place: Place, **facts: object) -> None:
    file = place.path.parent / ".places" / f"{place.path.name}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


@pytest.mark.parametrize(
    "facts",
    [
        {"repository": 5},
        {"repository": "not/absolute"},
        {"repository": "/a\0b"},
        {"base": "--output=/tmp/written"},
        {"branch": ["x"]},
        {"branch": "a\0b"},
        {"made": "yes"},
        {"kind": "palace"},
    ],
    ids=str,
)
def test_a_record_that_an_agent_wrote_is_none_and_hides_no_other(main: Path, facts: dict[str, object]) -> None:
    good, bad = make(main, branch="good"), make(main, branch="bad")
    plant_record(bad, **facts)
    assert places.known(good.path.parent) == [good]
    assert places.project(bad.path) == find(main)


def test_records_that_name_each_other_are_followed_once(main: Path) -> None:
    one, other = make(main, CLONE, "one"), make(main, CLONE, "other")
    plant_record(one, repository=str(other.path))
    plant_record(other, repository=str(one.path))
    assert find(one.path).top == other.path


def plant_salvage(main: Path, body: str, facts: str = "") -> None:
    blob = git_with(main, facts, "hash-object", "-w", "--stdin")
    tree = git_with(main, f"100644 blob {blob}\tfacts.json\n", "mktree")
    planted = git(main, "commit-tree", tree, "-m", "x", *(("-m", body) if body else ()))
    git(main, "update-ref", "refs/fleet/salvage/a-planted-one", planted)


def git_with(cwd: Path, text: str, *args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=cwd, check=True, capture_output=True, input=text, text=True
    ).stdout.strip()


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        ('{"at": "soon"}', "{}"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
        ('{"base": "--output=x", "head": 5}', '{"odd": []}'),
        ('{"path": null, "size": "x"}', '{"modes": {"files/x": "rw"}}'),
        ('{"at": 1e400}', '{"gone": ["a\\u0000b"], "empty": ["\\ud800"]}'),
    ],
)
def test_a_salvage_that_an_agent_wrote_is_in_nobodys_way(main: Path, tmp_path: Path, body: str, facts: str) -> None:
    place = make(main)
    (place.path / "new").write_text("new")
    plant_salvage(main, body, facts)
    saved = salvage.save(place, "x")
    assert saved is not None
    assert {one.name for one in salvage.all(find(main))} == {"a-planted-one", "x"}
    assert [path for path, _ in salvage.show(find(main), "x").files] == ["new"]
    for look in (
        lambda: salvage.show(find(main), "a-planted-one"),
        lambda: salvage.restore(find(main), "a-planted-one", tmp_path / "back"),
    ):
        with suppress(FleetError):
            look()
    salvage.drop(find(main), "a-planted-one")


def test_restoring_through_a_link_and_a_path_with_dots_works(main: Path, tmp_path: Path) -> None:
    place = make(main)
    (place.path / "new").write_text("new")
    places.remove(place, salvage.save(place, "x"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    salvage.restore(find(main), "x", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "real/new").read_text(), (tmp_path / "real/a.txt").read_text()) == ("new", "one\n")
    salvage.restore(find(main), "x", main / "../again")
    assert (tmp_path / "again/new").read_text() == "new"


def test_restoring_never_deletes_a_file_outside(main: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/bashrc").write_text("precious")
    (main / "agent.git").symlink_to(tmp_path / "victim")
    commit(main, {})
    place = make(main)
    (place.path / ".git").unlink()
    (place.path / ".git/bashrc").mkdir(parents=True)
    (place.path / ".git/bashrc/x").write_text("hi")
    places.remove(place, salvage.save(place, "x"))
    salvage.restore(find(main), "x", tmp_path / "back")
    assert (tmp_path / "victim/bashrc").read_text() == "precious"
    assert (tmp_path / "back/agent.git/bashrc/x").read_text() == "hi"


def test_a_restore_that_fails_leaves_nothing(main: Path, tmp_path: Path) -> None:
    plant_salvage(main, json.dumps({"head": git(main, "rev-parse", "HEAD")}), '{"gone": ["../outside"]}')
    (tmp_path / "empty").mkdir()
    for to in (tmp_path / "back", tmp_path / "empty"):
        with pytest.raises(FleetError, match="would lie outside"):
            salvage.restore(find(main), "a-planted-one", to, "again")
    assert not (tmp_path / "back").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    assert git(main, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(main, "branch", "--list", "again") == ""


# collecting


def test_a_clone_is_collected_after_whoever_did_it_last_was_killed(main: Path) -> None:
    place = make(main, CLONE)
    commit(place.path, {"f": "1"})
    places.collect(place)
    plant_record(place, collected=None)  # it was not written down any more
    tip = commit(place.path, {"f": "2"})
    assert places.collect(place) == tip == git(main, "rev-parse", "feat/x")
    assert git(main, "for-each-ref", "refs/fleet/incoming") == ""


def test_what_somebody_else_committed_on_a_clones_branch_stays(main: Path) -> None:
    place = make(main, CLONE)
    commit(place.path, {"f": "1"})
    places.collect(place)
    git(main, "checkout", "-q", "feat/x")
    theirs = commit(main, {"theirs": "theirs"})
    commit(place.path, {"f": "2"})
    with pytest.raises(FleetError, match="was moved in"):
        places.collect(place)
    assert git(main, "rev-parse", "feat/x") == theirs
    assert git(main, "for-each-ref", "refs/fleet/incoming") == ""


def test_the_root_of_all_directories_is_no_place() -> None:
    assert places.record.read(Path("/")) is None


# what people are shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_names_the_repositories_inside_that_changed(main: Path, kind: PlaceKind, tmp_path: Path) -> None:
    with_submodule(main, tmp_path)
    place = make(main, kind)
    assert places.difference(place) == Difference(b"", ())
    (place.path / "lib/new").write_text("new")
    assert places.difference(place) == Difference(b"", (), ("lib",))
    tip = commit(place.path / "lib", {"more": "more"})
    git(place.path, "init", "-q", "nested")
    inner = commit(place.path / "nested", {"f": "f"})
    seen = places.difference(place)
    assert f"+Subproject commit {tip}".encode() in seen.text
    assert f"+Subproject commit {inner}".encode() in seen.text
    assert (seen.files, seen.repositories) == ((("lib", 1, 1), ("nested", 1, 0)), ("lib", "nested"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_only_staged_or_only_on_a_detached_head_is_shown(main: Path, kind: PlaceKind) -> None:
    place = make(main, kind)
    git(place.path, "checkout", "-q", "--detach")
    commits = {commit(place.path, {"f": "1"}), commit(place.path, {"f": "2"})}
    (place.path / "staged").write_text("staged")
    git(place.path, "add", "staged")
    git(place.path, "rm", "-q", "deep/b.txt")
    git(place.path, "rm", "-q", "--cached", "a.txt")
    places.remove(place, salvage.save(place, "x"))
    shown = salvage.show(find(main), "x")
    assert ({one for one, _ in shown.commits}, shown.gone) == (commits, ("deep/b.txt",))
    assert shown.files == (("a.txt", 4), ("staged", 6))
    git(main, "branch", "kept", next(one for one, _ in shown.commits))
    assert salvage.show(find(main), "x").commits == ()


def test_salvage_is_found_by_its_name_its_task_or_its_branch(main: Path) -> None:
    for number, branch in enumerate(("feat/x", "feat/y", "feat/y")):
        place = make(main, branch=branch)
        (place.path / "new").write_text("new")
        places.remove(place, salvage.save(place, f"t{number}.1", task=f"t{number % 2}"))
    names = [salvage.find(find(main), name).name for name in ("t1.1", "t1", "feat/x")]
    assert names == ["t1.1", "t1.1", "t0.1"]
    for name in ("t0", "feat/y"):
        with pytest.raises(BadConfig, match=rf"{name} names 2 that were saved: t[01].1, t[12].1"):
            salvage.find(find(main), name)


# what agents and disks do


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_in_the_place_of_a_place_is_not_followed(main: Path, kind: PlaceKind, tmp_path: Path) -> None:
    place = make(main, kind)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/secret").write_text("secret")
    place.path.rename(tmp_path / "elsewhere")
    place.path.symlink_to(tmp_path / "victim")
    for look in (lambda: salvage.save(place, "x"), lambda: places.difference(place)):
        with pytest.raises(FleetError, match="is a link") as problem:
            look()
        assert problem.value.hint == f"mv {shlex.quote(str(place.path))} aside, and put back what stood there"
    assert places.condition(place) == places.Condition(there=False)
    place.path.unlink()
    places.remove(place, salvage.save(place, "x"))
    assert (tmp_path / "victim/secret").exists()


def test_a_place_that_could_never_be_made_can_be_removed(main: Path) -> None:
    place = Place(Path("/proc/nowhere/x"), "feat/x", None, WORKTREE, main)
    with pytest.raises(FleetError, match=r"/proc/nowhere/x cannot be a place: ") as problem:
        places.make(WORKTREE, find(main), "feat/x", None, place.path)
    assert "worktree_root" in (problem.value.hint or "")
    assert not places.remove(place, salvage.save(place, "x"))


def test_whoever_comes_after_a_crash_learns_what_was_saved(main: Path) -> None:
    place = make(main)
    (place.path / "new").write_text("new")
    saved = salvage.save(place, "t1.1", task="t1")
    places.remove(place, saved)
    assert saved is not None
    found = salvage.earlier(place, "t1")
    assert found is not None
    assert (found.name, found.commit) == (saved.name, saved.commit)
    assert salvage.earlier(place, "t2") is None


def test_a_worktree_without_its_git_gets_it_back_and_a_clone_is_told_of(main: Path) -> None:
    for kind in KINDS:
        place = make(main, kind, kind.value)
        (place.path / "new").write_text("new")
        subprocess.run(["rm", "-rf", str(place.path / ".git")], check=True)
    assert git(make(main, WORKTREE, "worktree").path, "status", "--porcelain") == "?? new"
    with pytest.raises(FleetError, match=r"has no \.git any more") as problem:
        make(main, CLONE, "clone")
    assert problem.value.hint == f"copy what you need, then: rm -r {place.path}"


def test_no_place_stands_in_what_git_keeps(main: Path) -> None:
    for root in (".", ".git", ".git/places"):
        with pytest.raises(BadConfig, match="inside the repository") as problem:
            places.root_for(main.parent, find(main), root)
        assert problem.value.hint == "use a directory outside of it"


def test_the_next_attempt_at_a_task_does_not_begin_where_a_link_leads(main: Path, tmp_path: Path) -> None:
    home, spec = tmp_path / "home", Spec(str(main / "deep"), place="worktree")
    placed = settle_in(home, "t1", look_around(spec))
    assert placed.cwd == placed.place.path / "deep"
    placed.cwd.rename(placed.place.path / "moved")
    placed.cwd.symlink_to(tmp_path)
    with pytest.raises(FleetError, match="leads out of the place of t1"):
        settle_in(home, "t1", look_around(spec))


def test_a_git_file_that_leads_to_no_repository_is_refused_and_nothing_is_written_there(tmp_path: Path) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    here.mkdir()
    away.mkdir()
    (here / ".git").write_text(f"gitdir: {away}\n")
    with pytest.raises(FleetError, match="which is no repository"):
        places.ground(places.Place(here))
    subprocess.run(["git", "init", "-q", "--bare", str(away)], check=True)
    found = places.ground(places.Place(here))
    assert found is not None
    assert found.main == away

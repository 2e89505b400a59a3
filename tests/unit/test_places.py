"""Names and paths of places, and which of them may go."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet.app import refs
from fleet.app.places import LONG, judge
from fleet.core import BadConfig
from fleet.core.task import Spec, Status
from fleet.core.work import Attempt, PlaceKind, Verdict
from fleet.core.workspace import Workspace
from fleet.places import Project, check_branch, path_for, root_for
from fleet.supervisor.place import choose_kind

ROOT = Path("/home/you/.fleet/places/project")
NAMES = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="aAbB./-@{}~^:?*[\\ \x7f\n_é", max_size=12),
    st.lists(st.sampled_from(["a", "A", "fix", "v1.2", "x.lock", "-", ".", "..", "@", "HEAD", ""]), max_size=4).map(
        "/".join
    ),
)


def is_legal(name: str) -> bool:
    try:
        return check_branch(name) == name
    except BadConfig:
        return False


@given(NAMES, NAMES)
@example("fix/auth", "fix-auth")
@example("Fix", "fix")
@example("ä", "ae")
@example("..", ".")
def test_any_two_branches_have_different_places_inside_the_root(one: str, other: str) -> None:
    """On a file system that does not tell case apart, too; illegal names included, which are refused elsewhere."""
    first, second = path_for(ROOT, one), path_for(ROOT, other)
    for path in (first, second):
        assert path.parent == ROOT
        assert path.name not in ("", ".", "..")
        assert not path.name.startswith(".")
        assert len(path.name.encode()) <= 60
        assert path.name.isascii()
    if one != other:
        assert first.name.casefold() != second.name.casefold()


@given(NAMES)
@example("v1.2")
@example("feature/über/ラーメン")
@example("a.lock/b")
@example("x@{1}")
@example("@")
@example("@a")
@example("-x")
@example("refs/heads/x")
def test_what_is_legal_is_what_git_says(name: str) -> None:
    legal = is_legal(name)
    if "\0" in name:
        assert not legal
        return
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        assert not legal
        return
    done = subprocess.run(["git", "check-ref-format", "--branch", raw], capture_output=True, cwd="/")
    git_says = done.returncode == 0 and done.stdout == raw + b"\n"
    assert legal == (git_says and name not in ("HEAD", "@") and all(len(part) <= 250 for part in raw.split(b"/")))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"), ("-rf", "begins with a -"), ("HEAD", "checked out"), ("@{-1}", "contains @{"),
        ("a..b", "contains .."), ("a b", "a space"), ("a/", "between slashes"), ("/a", "between slashes"),
        (".a", "begins with a ."),
        ("a.lock", "ends with .lock"), ("a.", "ends with a ."), ("a\x1b[2J", "control character"),
        ("a" * 251, "longer"), ("a/" * 500 + "a", "longer"),
        ("a\udcff", "not UTF-8"), ("a~1", "a ~"), ("a:b", "a :"),
    ],
)  # fmt: skip
def test_an_illegal_name_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(BadConfig) as problem:
        check_branch(name)
    assert reason in problem.value.message
    assert problem.value.message.isprintable()


def test_a_tilde_is_the_users_own_directory_and_never_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/you")
    project = Project(Path("/home/you/project"), Path("/home/you/project/.git"))
    assert root_for(Path("/h"), project, "~/trees") == Path("/home/you/trees")
    assert root_for(Path("/h"), project, "../trees") == Path("/home/you/trees")
    with pytest.raises(BadConfig, match="no such user"):
        root_for(Path("/h"), project, "~nobody-of-this-name/trees")


def test_two_projects_of_one_name_have_different_roots() -> None:
    one, other = (Project(Path(f"/{top}/app"), Path(f"/{top}/app/.git")) for top in ("a", "b"))
    assert root_for(Path("/h"), one) != root_for(Path("/h"), other)
    assert root_for(Path("/h"), one).parent == Path("/h/places")


@pytest.mark.parametrize(
    ("told", "workspace", "can_branch", "kind"),
    [
        (None, None, True, PlaceKind.INPLACE),
        (None, Workspace(), True, PlaceKind.WORKTREE),
        (None, Workspace(place=PlaceKind.CLONE), True, PlaceKind.CLONE),
        (None, Workspace(), False, PlaceKind.INPLACE),
        ("clone", None, True, PlaceKind.CLONE),
        ("inplace", Workspace(), True, PlaceKind.INPLACE),
        ("worktree", None, False, PlaceKind.WORKTREE),
    ],
)
def test_the_task_then_the_project_says_where_it_is_worked_on(
    told: str | None, workspace: Workspace | None, can_branch: bool, kind: PlaceKind
) -> None:
    assert choose_kind(Spec("/x", place=told), workspace, can_branch=can_branch) is kind


OVER = Attempt("t1.1", "t1", 1, "claude", None, "/x", "me", 0.0, verdict=Verdict.ACCEPTED)
RUNNING = Attempt("t1.1", "t1", 1, "claude", None, "/x", "me", 0.0)
DAY = 86400.0
NOT_LANDED = "its task is done by it, and no branch has its commit"
TALKED_TO = replace(RUNNING, interactive=True)


@pytest.mark.parametrize(
    ("attempt", "status", "there", "merged", "ago", "may_go", "why"),
    [
        (RUNNING, Status.CLOSED, True, True, 10 * LONG, False, "it is being worked on"),
        (TALKED_TO, Status.IN_PROGRESS, True, True, 10 * LONG, False, "its agent has not been ended"),
        (OVER, Status.OPEN, True, True, 10 * LONG, False, "its task is not done"),
        (OVER, Status.BLOCKED, True, True, 60.0, False, "its task waits for you"),
        (OVER, Status.BLOCKED, True, False, 2 * LONG, True, "its last attempt ended 14 days ago"),
        (OVER, Status.CLOSED, True, False, 60.0, False, "its last attempt ended less than a day ago"),
        (OVER, Status.CLOSED, True, False, 90000.0, False, "its last attempt ended 1 day ago"),
        (OVER, Status.CLOSED, True, True, 60.0, True, "its branch is merged"),
        (OVER, Status.CLOSED, True, False, LONG + 60, True, "its last attempt ended 7 days ago"),
        (OVER, Status.CLOSED, False, False, 60.0, True, "its directory is gone"),
        (OVER, None, True, False, 60.0, True, "its task is gone"),
    ],
)
def test_a_place_may_go_when_nobody_can_come_back_to_it(
    attempt: Attempt, status: Status | None, there: bool, merged: bool, ago: float, may_go: bool, why: str
) -> None:
    assert judge(attempt, status, there=there, merged=merged, ago=ago) == (may_go, why)


@pytest.mark.parametrize(
    ("status", "verdict", "ago", "landed", "may_go", "why"),
    [
        (Status.CLOSED, Verdict.ACCEPTED, 31 * DAY, True, True, "its attempt ended 31 days ago"),
        (Status.CLOSED, Verdict.ACCEPTED, 29 * DAY, True, False, "its attempt ended 29 days ago"),
        (
            Status.CLOSED,
            Verdict.ACCEPTED,
            31 * DAY,
            False,
            False,
            "its task is done by it, and no branch has its commit",
        ),
        (Status.CLOSED, Verdict.RETRY, 31 * DAY, False, True, "its attempt ended 31 days ago"),
        (None, Verdict.REFUSED, 31 * DAY, False, True, "its attempt ended 31 days ago"),
        (Status.BLOCKED, Verdict.REFUSED, 31 * DAY, True, False, "its task is not done"),
        (Status.OPEN, Verdict.RETRY, 31 * DAY, True, False, "its task is not done"),
        (Status.CLOSED, None, 31 * DAY, True, False, "it is being worked on"),
    ],
)
def test_a_ref_may_go_when_nobody_can_want_its_commit(
    status: Status | None, verdict: Verdict | None, ago: float, landed: bool, may_go: bool, why: str
) -> None:
    attempt = replace(OVER, verdict=verdict)
    assert refs.judge(attempt, status, ago=ago, longest=30 * DAY, landed=lambda: landed) == (may_go, why)

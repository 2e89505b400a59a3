"""Which results a task stands on, when its base is made, and how that is said: as tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.core.proof import Proof
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind, StandsOn
from fleet.host.repository.merge import attributes_below
from fleet.results import Dependency, choose_onto, choose_results, is_made_anew, no_longer, stands_on_text
from fleet.supervisor.identity import variables_of

HERE, ELSEWHERE = Path("/repo/.git"), Path("/other/.git")
DONE = Dependency("t1", True, HERE, "t1.2", "fleet/t1", "c1", True, Proof.VERIFIED)


@pytest.mark.parametrize(
    ("dependency", "in_base", "only_after"),
    [
        (DONE, ["t1"], {}),
        (replace(DONE, is_done=False), [], {}),
        (replace(DONE, repository=ELSEWHERE), [], {"t1": "it is in another repository"}),
        (replace(DONE, repository=None), [], {"t1": "outside of git nothing is handed on"}),
        (replace(DONE, commit=None), [], {"t1": "it left no change"}),
        (replace(DONE, attempt="", commit=None), [], {"t1": "nobody worked on it"}),
        (replace(DONE, is_accepted=False), [], {"t1": "it was closed by hand, and its work was not accepted"}),
    ],
    ids=["done", "not done", "elsewhere", "outside", "no change", "no attempt", "closed by hand"],
)
def test_what_is_part_of_a_base(dependency: Dependency, in_base: list[str], only_after: dict[str, str]) -> None:
    chosen = choose_results([dependency], HERE)
    assert ([one.name for one in chosen.results], chosen.only_after) == (in_base, only_after)


def test_a_result_that_nothing_checked_says_so() -> None:
    chosen = choose_results([DONE, replace(DONE, task="t2", proof=Proof.UNVERIFIED)], HERE)
    assert [one.verified for one in chosen.results] == [True, False]
    accepted = choose_results([replace(DONE, proof=Proof.REFUSED)], HERE)
    assert accepted.results == (StandsOn("t1", "c1", "t1.2", "fleet/t1"),), "a person accepted it"


SPEC = Spec("/repo")


@pytest.mark.parametrize(
    ("spec", "project", "checked_out", "onto"),
    [
        (replace(SPEC, onto="said", checked_out="then"), "project", "now", "said"),
        (replace(SPEC, checked_out="then"), "project", "now", "project"),
        (replace(SPEC, checked_out="then"), None, "now", "then"),
        (SPEC, None, "now", "now"),
        (SPEC, None, None, None),
    ],
)
def test_the_branch_that_a_result_is_meant_for(
    spec: Spec, project: str | None, checked_out: str | None, onto: str | None
) -> None:
    assert choose_onto(spec, project, checked_out) == onto


LAST = Attempt("t1.1", "t1", 1, "c", None, "/place", "me", 0.0, place=PlaceKind.WORKTREE, base="b")


@pytest.mark.parametrize(
    ("last", "anew"),
    [
        (None, True),
        (LAST, False),
        (replace(LAST, forgiven=True), True),
        (replace(LAST, forgiven=True, keeps_base=True), False),
        (replace(LAST, place=PlaceKind.CLONE), True),
    ],
    ids=["the first", "tried again", "opened again", "with its base kept", "another kind of place"],
)
def test_when_base_and_place_are_made_anew(last: Attempt | None, anew: bool) -> None:
    assert is_made_anew(last, PlaceKind.WORKTREE) is anew


T1, T4, MAIN = StandsOn("t1", "a" * 40, "t1.1"), StandsOn("t4", "b" * 40, "t4.2"), StandsOn("main", "c" * 40)


@pytest.mark.parametrize(
    ("stands_on", "text"),
    [
        ((), ""),
        ((MAIN,), "main (ccccccc)"),
        ((T1, MAIN), "t1 (aaaaaaa) and main (ccccccc)"),
        ((T1, replace(T4, verified=False), MAIN), "t1 (aaaaaaa), t4 (bbbbbbb, unverified) and main (ccccccc)"),
        ((replace(T1, within="t4"), T4, MAIN), "t4 (bbbbbbb) and main (ccccccc)"),
        ((replace(T1, within="main"), T4, MAIN), "t4 (bbbbbbb) and main (ccccccc), which has t1"),
    ],
)
def test_what_it_stands_on_in_words(stands_on: tuple[StandsOn, ...], text: str) -> None:
    assert stands_on_text(stands_on) == text


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"t1": "a" * 40, "t4": "b" * 40}, []),
        ({"t1": None, "t4": "b" * 40}, ["stands on t1.1, which is no longer t1's result"]),
        ({"t1": "d" * 40}, ["stands on t1.1, which is no longer t1's result"]),
        ({}, []),
    ],
    ids=["as it was", "open again", "done anew", "its task is gone"],
)
def test_a_result_that_is_no_longer_one(now: dict[str, str | None], said: list[str]) -> None:
    assert no_longer((T1, T4, MAIN), now) == said


@pytest.mark.parametrize(
    ("directory", "content", "from_the_top"),
    [
        (b"", b"*.md merge=union", b"*.md merge=union\n"),
        (b"deep", b"*.log merge=union\n", b"deep/**/*.log merge=union\n"),
        (b"deep", b"/top.txt -merge\nsub/x text\n", b"deep/top.txt -merge\ndeep/sub/x text\n"),
        (b"deep", b"# words\n\n[attr]mine -text\n", b""),
    ],
)
def test_attributes_of_a_directory_from_the_top(directory: bytes, content: bytes, from_the_top: bytes) -> None:
    assert attributes_below(directory, content) == from_the_top


@pytest.mark.parametrize(
    ("ident", "name", "email"),
    [
        ("A Name <a@example.org> 1700000000 +0100", "A Name", "a@example.org"),
        ("n <> 1700000000 +0000", "n", ""),
        ("", "fleet agent", "agent@no-git-identity.invalid"),
    ],
)
def test_who_commits(ident: str, name: str, email: str) -> None:
    found = variables_of(ident)
    assert found == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": name,
        "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": email,
    }  # fmt: skip

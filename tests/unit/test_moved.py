"""Branches and tags that moved while an agent ran: which of them are told, and the command that sets each back."""

from __future__ import annotations

import pytest

from fleet.evidence.moved import Moved, moved, said, way_back

A, B = "a" * 40, "b" * 40


def test_what_differs_is_told_but_for_branches_that_somebody_works_on() -> None:
    before = {"refs/heads/main": A, "refs/heads/old": A, "refs/heads/fleet/t1": A, "refs/tags/v1": A}
    after = {"refs/heads/main": A, "refs/heads/fleet/t1": B, "refs/heads/new": B, "refs/tags/v1": B}
    told = [Moved("refs/heads/new", None, B), Moved("refs/heads/old", A, None), Moved("refs/tags/v1", A, B)]
    assert moved(before, after, {"fleet/t1"}) == told
    assert moved(before, before) == []
    assert moved({"refs/tags/x": A}, {}, {"x"}) == [Moved("refs/tags/x", A, None)], "a tag is nobody's branch"


@pytest.mark.parametrize(
    ("one", "words", "command"),
    [
        (Moved("refs/heads/x", A, B), f"was at {A[:12]}, is at {B[:12]}", f"refs/heads/x {A} {B}"),
        (Moved("refs/heads/x", A, None), f"is gone, was at {A[:12]}", f"refs/heads/x {A} ''"),
        (Moved("refs/heads/x", None, B), f"is new, at {B[:12]}", f"-d refs/heads/x {B}"),
    ],
)
def test_each_is_said_with_the_command_that_sets_it_back(one: Moved, words: str, command: str) -> None:
    assert said(one) == f"refs/heads/x {words}"
    assert way_back(one, "/a b") == f"git -C '/a b' update-ref --no-deref {command}"

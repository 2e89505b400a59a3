"""What people ask for when they begin several agents, and what a terminal is said to show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.app.agents import new_lines
from fleet.batches.proof import GONE, NO_CHECKS, proven
from fleet.batches.wanted import Wanted, Who, agents, fanout, multi, must_differ
from fleet.core import BadConfig
from fleet.core.proof import Breach, CheckSpec, Demands, Proof
from fleet.core.state import derive_terminal_state
from fleet.core.talk import Felt, Mood, Signal, SignalKind, feel
from fleet.core.work import Attempt, State
from fleet.evidence.receipt import Check, Process, Receipt, Result
from fleet.supervisor.verify import planned

CLAUDE, CODEX = Who("claude", "opus"), Who("codex")
BEGUN = Attempt("t1.1", "t1", 1, "claude", None, "/", "me", 0.0, interactive=True)
RUNS = Attempt("t1.1", "t1", 1, "claude", None, "/", "me", 0.0, interactive=True, started=1.0)
CALM = Felt(Mood.WAITING, 2.0, "its turn is over")


@pytest.mark.parametrize(
    ("text", "model", "who"),
    [
        ("claude", None, [Who("claude")]),
        ("claude", "opus", [CLAUDE]),
        ("claude:opus, codex", None, [CLAUDE, CODEX]),
        ("opencode:fleet/qwen2.5:7b", "other", [Who("opencode", "fleet/qwen2.5:7b")]),
    ],
)
def test_agents_are_named_with_their_models(text: str, model: str | None, who: list[Who]) -> None:
    assert agents(text, model) == who


def test_a_comma_too_many_names_nobody() -> None:
    with pytest.raises(BadConfig, match="names no agent"):
        agents("claude,,codex", None)


def test_a_fanout_is_dealt_out_in_turn() -> None:
    wanted = fanout(3, None, "3f9a12cd", "go", [CLAUDE, CODEX], "main")
    assert [one.branch for one in wanted] == [f"fanout-3f9a12cd-A{n}" for n in (1, 2, 3)]
    assert [(one.coder, one.model) for one in wanted] == [("claude", "opus"), ("codex", None), ("claude", "opus")]
    assert {(one.batch, one.prompt, one.base) for one in wanted} == {("fanout-3f9a12cd", "go", "main")}
    assert [one.branch for one in fanout(2, "auth", "x", "go", [CODEX], None)] == ["auth-A1", "auth-A2"]


def test_a_prompt_of_multi_may_hold_colons() -> None:
    (one,) = multi(['fix/auth:see "a: b": https://x'], "multi-1", [CODEX], None)
    assert one == Wanted("fix/auth", 'see "a: b": https://x', "codex", None, None, "multi-1")


@pytest.mark.parametrize("pair", ["fix-auth", ":go", "fix-auth:", "fix-auth:  "])
def test_half_a_pair_is_refused(pair: str) -> None:
    with pytest.raises(BadConfig, match="not a branch and a prompt"):
        multi([pair], "m", [CODEX], None)


def test_no_branch_is_made_twice() -> None:
    with pytest.raises(BadConfig, match="asked for twice"):
        must_differ([Wanted("a"), Wanted("b"), Wanted("a")])


def test_two_that_git_cannot_have_beside_each_other_are_refused() -> None:
    must_differ([Wanted("a"), Wanted("ab/c"), Wanted("d/e"), Wanted("d/f")])
    with pytest.raises(BadConfig, match="a/b/c beside a"):
        must_differ([Wanted("a/b/c"), Wanted("a")])


@pytest.mark.parametrize(
    ("attempt", "alive", "being_made", "ended", "state", "cause"),
    [
        (BEGUN, False, True, None, State.STARTING, "its place is being made"),
        (RUNS, True, False, None, State.WAITING, "its turn is over"),
        (RUNS, False, False, "exit 0", State.ENDED, "exit 0"),
        (BEGUN, False, False, None, State.DEAD, "it was never started; `fleet list --repair` clears it away"),
        (RUNS, False, False, None, State.DEAD, "nobody saw how it ended; `fleet list --repair` looks"),
    ],
)
def test_a_dead_agent_is_never_said_to_run(
    attempt: Attempt, alive: bool, being_made: bool, ended: str | None, state: State, cause: str
) -> None:
    found = derive_terminal_state(attempt, CALM, alive=alive, being_made=being_made, ended=ended)
    assert (found.state, found.cause) == (state, cause)


@pytest.mark.parametrize(
    ("kinds", "mood"),
    [
        ([], Mood.STARTING),
        ([SignalKind.READY], Mood.WAITING),
        ([SignalKind.READY, SignalKind.TAKEN], Mood.WORKING),
        ([SignalKind.TAKEN, SignalKind.ASKS], Mood.ASKING),
        ([SignalKind.TAKEN, SignalKind.ASKS, SignalKind.ACTED], Mood.WORKING),
        ([SignalKind.TAKEN, SignalKind.RESTED], Mood.WAITING),
    ],
)
def test_what_an_agent_does_is_what_it_said_last(kinds: list[SignalKind], mood: Mood) -> None:
    assert feel([Signal(kind, float(n)) for n, kind in enumerate(kinds)]).mood is mood


def test_of_an_agent_that_tells_nothing_nothing_is_known() -> None:
    assert feel([], tells=False).mood is Mood.UNKNOWN


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_of_two_pictures_as_much_is_shown_as_came_on(before: list[str], more: list[str]) -> None:
    assert len(new_lines(before, [*before, *more])) >= len(more)
    assert new_lines(before, before) == []


def test_what_is_drawn_above_the_input_line_is_new_and_the_input_line_is_not() -> None:
    assert new_lines(["> go", "[input]"], ["> go", "* done", "[input]"]) == ["* done"]


# ---- what their work proves

CHECKED = replace(RUNS, branch="a b", demands=Demands(checks=(CheckSpec("make"),)))
LEFT = Result("a", "a", [], [], ["x"], [], base_tree="t0", tree="t1", landing="b")
SAME = replace(LEFT, tree="t0", uncommitted=[], landing=None)
OUTSIDE = replace(LEFT, breaches=[Breach("ci", "deny", "ci may not be touched")])
PASSED, RED = Check("make", True, "exit 0", 0, 1.0, ""), Check("make", False, "exit 2", 2, 1.0, "")
CUT_OFF = Check("make", False, "it was cut off", None, None, "", lost=True)


@pytest.mark.parametrize(
    ("attempt", "result", "checks", "proof", "reason"),
    [
        (RUNS, LEFT, (), Proof.UNVERIFIED, NO_CHECKS),
        (RUNS, SAME, (), Proof.REFUSED, "what it left is what it found"),
        (RUNS, OUTSIDE, (), Proof.REFUSED, "ci may not be touched"),
        (RUNS, replace(LEFT, tree=None, problem=GONE), (), Proof.REFUSED, f"what it left cannot be taken: {GONE}"),
        (CHECKED, LEFT, (), Proof.UNVERIFIED, "its checks were not run yet: fleet verify 'a b' --run"),
        (CHECKED, LEFT, (PASSED,), Proof.VERIFIED, "1 check passed"),
        (CHECKED, LEFT, (RED,), Proof.REFUSED, 'check "make" failed: exit 2'),
        (CHECKED, LEFT, (CUT_OFF,), Proof.UNVERIFIED, "its check could not be run: it was cut off"),
    ],
)
def test_checks_that_nobody_ran_prove_nothing_either_way(
    attempt: Attempt, result: Result, checks: tuple[Check, ...], proof: Proof, reason: str
) -> None:
    assert proven(attempt, result, checks) == (proof, reason)


@pytest.mark.parametrize(
    ("attempt", "result", "runs"),
    [
        (CHECKED, LEFT, 1),
        (replace(CHECKED, error="overloaded"), LEFT, 1),
        (replace(CHECKED, interactive=False), LEFT, 0),
        (CHECKED, SAME, 0),
        (CHECKED, OUTSIDE, 0),
    ],
)
def test_the_checks_of_an_agent_that_a_person_ended_can_be_run(attempt: Attempt, result: Result, runs: int) -> None:
    assert len(planned(attempt, Receipt(attempt, Process("cancelled"), result))) == runs

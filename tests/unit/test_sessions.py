"""What is called how, what may be pasted, and what a screen says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.coders import tell
from fleet.core.talk import LONGEST_PROMPT, Signal, SignalKind, took
from fleet.host import tmux
from fleet.sessions import Screen, session_name
from fleet.sessions.delivery import has_left, is_shown, plain, taken, unfit
from fleet.sessions.server import read_panes


def test_a_name_is_the_branch_where_tmux_can_say_it() -> None:
    assert session_name("ai_", "feature/a") == "ai_feature/a"
    assert session_name("ai_", "v1.2").startswith("ai_v1_2-")
    assert len(session_name("ai_", "x" * 250)) < 140


@given(st.lists(st.text(min_size=1), min_size=2, max_size=6, unique=True))
def test_no_two_branches_share_a_name_and_tmux_changes_none(branches: list[str]) -> None:
    names = [session_name("ai_", branch) for branch in branches]
    assert len(set(names)) == len(branches)
    assert not any(character in name for name in names for character in ".:#\t ;$%=")


@pytest.mark.parametrize(
    ("name", "too_old"), [("3.3a", False), ("3.0", False), ("next-3.6", False), ("2.9a", True), ("openbsd-7", False)]
)
def test_a_release_that_lacks_something_is_told_from_one_that_is_not_numbered(name: str, too_old: bool) -> None:
    assert tmux.is_too_old(name) == too_old


def test_panes_become_sessions_and_what_is_not_ours_is_left_out() -> None:
    listed = """$0 %0 10 0 1 =t1.1 =t1.1 ai_one
$0 %5 11 0 1 =t1.1 = ai_one
$1 %1 12 0 0 = = of somebody else
$2 %2 13 1 0 =t2.1 =t2.1 two words
$3 %3 14 0 0 =t3.1 = closed
half a line"""
    seen = {one.id: one for one in read_panes(listed)}
    assert {id: (one.attempt, one.pid, one.dead, one.pane) for id, one in seen.items()} == {
        "$0": ("t1.1", 10, False, "%0"),
        "$2": ("t2.1", None, True, "%2"),
        "$3": ("t3.1", None, True, None),
    }
    assert (seen["$2"].name, seen["$0"].attached) == ("two words", 1)


@pytest.mark.parametrize("text", ["a\nb\tc", "a\r\nb", "-n", "C-c", "\N{SNOWMAN}\u2028\u200d"])
def test_what_can_be_pasted(text: str) -> None:
    assert unfit(text) is None


@pytest.mark.parametrize(
    ("text", "pasted"),
    [("a", "a"), ("a \\", "a \\ "), ("see @b", "see @b "), ("@b\n", "@b\n"), ("/help", "/help "), ("a\r\nb", "a\nb")],
)
def test_a_blank_is_put_behind_what_would_change_the_meaning_of_enter(text: str, pasted: str) -> None:
    assert plain(text) == pasted


@pytest.mark.parametrize("text", ["", " \n", "\x1b[201~", "a\rb", "\x00", "\x9b", "\ud800"])
def test_what_cannot(text: str) -> None:
    assert unfit(text) is not None


@pytest.mark.parametrize(
    ("sent", "told", "same"),
    [
        ("a", "a", True),
        ("a \n\n", "a", True),
        ("a\n\tb", "a\r    b", True),
        ("e\u0301", "\u00e9", True),
        ("a  b", "a b", False),
        ("a\n\nb", "a\nb", False),
        ("A", "a", False),
    ],
)
def test_only_blanks_at_the_ends_line_ends_and_tabs_may_differ(sent: str, told: str, same: bool) -> None:
    assert took(sent, told) == same


def test_a_signal_of_another_text_is_no_proof() -> None:
    signals = [Signal(SignalKind.TAKEN, 0.0, "other"), Signal(SignalKind.RESTED, 0.0, "mine")]
    assert taken(signals, "mine") is None
    found = taken([*signals, Signal(SignalKind.TAKEN, 0.0, "draft mine")], "mine")
    assert found is not None
    assert found.taken
    assert "more" in found.cause
    for others in ("mined", "mine, and not yours", "determine"):
        assert taken([Signal(SignalKind.TAKEN, 0.0, others)], "mine") is None, others
    assert taken([Signal(SignalKind.TAKEN, 0.0, "is that all, y")], "y") is None, "anybody may say that much"


def test_a_prompt_that_no_agent_could_be_heard_to_take_is_refused() -> None:
    assert LONGEST_PROMPT == tell.LONGEST_PROMPT
    assert unfit("x" * LONGEST_PROMPT) is None
    assert "200000" in (unfit("x" * LONGEST_PROMPT + "y") or "")
    assert unfit("x" + "\t" * (LONGEST_PROMPT // 2) + "y") is not None, "agents write a tab as blanks"


EMPTY = Screen(("hello", "> ", "", "ready"), 2, 1, cursor=True, in_mode=False, dead=False, raw=True)
PASTED = replace(EMPTY, lines=("hello", "> a prompt", "", "ready"), column=10)


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (PASTED, False),
        (EMPTY, True),
        (replace(PASTED, lines=("hello", "> a prompt", "", "busy")), False),
        (replace(PASTED, lines=("hello", "> a prompt", "> ", "ready"), row=2, column=2), True),
        (replace(PASTED, lines=("a prompt", "Allow? yes no", "", ""), row=1, column=3), True),
        (replace(PASTED, lines=("hello", "> a prompt", "", "ready"), row=2, column=2), False),
    ],
)
def test_a_prompt_has_left_when_it_is_not_where_the_cursor_is(now: Screen, left: bool) -> None:
    assert has_left("a prompt", EMPTY, PASTED, now) == left


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (("hello", "> a prompt", "", "ready"), False),
        (("other", "> a prompt", "", "ready"), False),
        (("hello", "> ", "", "ready"), True),
        (("hello", "> a prompt", "> ", "ready"), True),
    ],
)
def test_with_a_cursor_that_stays_elsewhere_it_stands_where_it_appeared(lines: tuple[str, ...], left: bool) -> None:
    before, pasted = (replace(screen, row=3, column=0) for screen in (EMPTY, PASTED))
    assert has_left("a prompt", before, pasted, replace(pasted, lines=lines)) == left


def test_a_prompt_that_was_drawn_later_stands_there_all_the_same() -> None:
    half = replace(EMPTY, lines=("he", "", "", ""), row=0, column=2)
    assert not has_left("a prompt", replace(half, column=1), half, PASTED)


def test_a_paste_has_arrived_when_the_input_line_or_its_end_is_seen() -> None:
    aside = replace(EMPTY, row=3, column=0)
    assert is_shown("a prompt", EMPTY, PASTED)
    assert is_shown("a prompt", aside, replace(PASTED, row=3, column=0))
    assert not is_shown("a prompt", aside, replace(aside, lines=("working", "> ", "", "ready")))
    assert not is_shown("hello", aside, replace(aside, lines=("hello", "> ", "", "working")))

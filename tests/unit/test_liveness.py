"""What an agent does, judged from what is seen of it, and what is done about it: tables of facts, our own clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.life import BREAK_OFF, Action, Life, LifeState, Policy, Rule
from fleet.core.liveness import Facts, Habit, Prompt, Since, Toil, assess, decide

MINUTE, HOUR = 60.0, 3600.0
NOW = 10_000.0
AGO = {"cpu": NOW - HOUR, "io": NOW - HOUR, "files": NOW - HOUR, "heard": NOW - HOUR}
STILL = Facts(started=NOW - 2 * HOUR, dispatched=NOW - 2 * HOUR, **AGO)  # type: ignore[arg-type]
POLICY = Policy(
    {
        LifeState.INPUT: Rule(Action.ASK),
        LifeState.LOOPING: Rule(Action.ASK),
        LifeState.LINGERING: Rule(Action.END, 600.0),
    }
).with_silence(HOUR)


@pytest.mark.parametrize(
    ("facts", "state", "since", "why"),
    [
        (replace(STILL, finished=NOW - 11), "ended-but-alive", NOW - 11, "its turn is over"),
        (replace(STILL, finished=NOW - 9, cpu=NOW - 9), "working", NOW - 2 * HOUR, "CPU"),
        (replace(STILL, limited=Since(NOW - 5, "5 hours used up")), "rate limited", NOW - 5, "5 hours used up"),
        (replace(STILL, terminal=Since(NOW - 4, "ssh")), "waiting for input", NOW - 4, "ssh reads a terminal"),
        (replace(STILL, leave=Since(NOW - 4, "it was not permitted: Bash")), "waiting for input", NOW - 4, "Bash"),
        (replace(STILL, person=Since(NOW - 4, "Which?")), "waiting for input", NOW - 4, "waits for an answer: Which?"),
        (replace(STILL, repeats=8, repeated=Since(NOW - 90, "Read: a.py")), "looping", NOW - 90, "Read: a.py, 8 times"),
        (replace(STILL, repeats=7, repeated=Since(NOW - 90, "Read: a.py")), "silent", NOW - HOUR, "no events, no CPU"),
        (replace(STILL, dispatched=None, cpu=NOW - 1), "starting", NOW - 2 * HOUR, "no event has shown"),
        (replace(STILL, dispatched=None), "silent", NOW - HOUR, "it has not begun; no events, no CPU"),
        (replace(STILL, tools=(Since(NOW - 2700, "Bash: make"),)), "tool running", NOW - 2700, "Bash: make; no events"),
        (
            replace(STILL, tools=(Since(NOW - 7, "b"), Since(NOW - 9, "a"))), "tool running", NOW - 9,
            "a and 1 more",
        ),
        (replace(STILL, request=NOW - 300), "waiting for model", NOW - 300, "in flight at our gateway"),
        (
            replace(STILL, last="tool_ended", heard=NOW - 20), "waiting for model", NOW - 20,
            "it is the model's turn, and nothing much goes on",
        ),
        (replace(STILL, last="tool_ended", heard=NOW - 20, io=NOW), "waiting for model", NOW - 20, "model's turn"),
        (replace(STILL, last="tool_ended", heard=NOW - 20, cpu=NOW, toils=True), "working", NOW - 2 * HOUR, "CPU"),
        (replace(STILL, cpu=NOW - 1), "working", NOW - 2 * HOUR, "CPU"),
        (replace(STILL, io=NOW - 1), "working", NOW - 2 * HOUR, "IO"),
        (replace(STILL, files=NOW - 1), "working", NOW - 2 * HOUR, "file changes"),
        (replace(STILL, heard=NOW - 1), "working", NOW - 2 * HOUR, "events"),
        (STILL, "silent", NOW - HOUR, "no events, no CPU, no IO, no file changes"),
        (Facts(started=NOW - HOUR, dispatched=NOW - HOUR), "silent", NOW - HOUR, "no events"),
    ],
)  # fmt: skip
def test_what_an_agent_does(facts: Facts, state: str, since: float, why: str) -> None:
    life = assess(facts, POLICY, NOW)
    assert (life.state, life.since) == (state, since), life.why
    assert why in life.why


REST, TOILS = Toil(), Toil(goes_on=True, since=NOW - 20, last=NOW)
READS = Prompt(Since(NOW - 500, "bash"))
WAITS, PASSED_BY = replace(READS, waits=NOW - 100), replace(READS, passed_by=True)


@pytest.mark.parametrize(
    ("before", "toil", "spoke", "stirred", "waits"),
    [
        (READS, REST, NOW - 3, NOW - 3, True),
        (READS, REST, NOW - 2, NOW - 3, False),
        (READS, REST, NOW - 3, NOW - 2, False),
        (Prompt(Since(NOW - 2, "bash")), REST, NOW - 9, NOW - 9, False),
        (READS, REST, NOW - 60, NOW, True),  # beside one that ticks all the time it takes longer to be sure
        (READS, REST, NOW - 59, NOW, False),
        (READS, Toil(last=NOW - 59), NOW - 60, NOW, False),
        (READS, TOILS, NOW - 500, NOW - 500, False),
        (WAITS, REST, NOW - 101, NOW, True),  # somebody ticks
        (WAITS, Toil(since=NOW - 9, last=NOW), NOW - 101, NOW, True),
        (WAITS, TOILS, NOW - 101, NOW, False),
        (WAITS, REST, NOW - 99, NOW - 500, False),
        (PASSED_BY, REST, NOW - 59, NOW - 500, False),
        (PASSED_BY, REST, NOW - 60, NOW, True),
    ],
)
def test_who_waits_at_a_terminal(before: Prompt, toil: Toil, spoke: float, stirred: float, waits: bool) -> None:
    assert (before.after(toil, spoke, stirred, MINUTE, NOW).waits is not None) == waits


def test_who_went_on_has_passed_the_terminal_by() -> None:
    assert WAITS.after(TOILS, NOW - 101, NOW, MINUTE, NOW) == PASSED_BY
    assert WAITS.after(REST, NOW - 1, NOW, MINUTE, NOW) == PASSED_BY


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.floats(0.5, 6.0)), max_size=300))
def test_nobody_is_said_to_wait_twice_within_a_minute(looks: list[tuple[bool, bool, bool, float]]) -> None:
    """Whatever goes on beside one that reads a terminal, and however often it speaks."""
    prompt, toil, now, spoke, stirred = Prompt(Since(0.0, "sh")), Toil(), 0.0, 0.0, 0.0
    began: list[float] = []
    for speaks, stirs, much, passed in looks:
        now += passed
        spoke, stirred = now if speaks else spoke, now if stirs else stirred
        toil = toil.after(much, passed, MINUTE, now)
        before, prompt = prompt, prompt.after(toil, spoke, stirred, MINUTE, now)
        if before.waits is None and prompt.waits is not None:
            began.append(now)
    assert all(later - earlier >= MINUTE for earlier, later in pairwise(began))


@pytest.mark.parametrize(
    ("looks", "goes_on"),
    [
        ("mmmm", False),
        ("mmmmm", True),
        ("mm.mm.mm.mm.mm.", False),
        ("mmmmm" + 29 * ".", True),
        ("mmmmm" + 30 * ".", False),
        ("mmmmm" + 20 * "." + "m" + 20 * ".", True),
    ],
)
def test_much_that_lasts_is_toil_until_a_minute_without(looks: str, goes_on: bool) -> None:
    toil = Toil()
    for n, look in enumerate(looks, 1):
        toil = toil.after(look == "m", 2.0, MINUTE, 2.0 * n)
    assert toil.goes_on == goes_on


@pytest.mark.parametrize(
    "moves",
    [
        {"cpu": 0.0},  # it computes, and prints nothing
        {"io": 0.0},
        {"files": 0.0},
        {"tools": (Since(NOW, "Bash: make world"),)},  # perhaps it only sleeps
        {"request": NOW},
    ],
)
def test_honest_silence_is_never_ended(moves: dict[str, object]) -> None:
    """Forty-five minutes, and then a day, in which an agent prints nothing and something of it goes on."""
    now = NOW
    while now < NOW + 24 * HOUR:
        now += 15.0
        seen = {name: now if value == 0.0 else value for name, value in moves.items()}
        facts = replace(STILL, heard=NOW, **seen)  # type: ignore[arg-type]
        assert decide(assess(facts, POLICY, now), POLICY, now) is Action.LEAVE


def test_silence_is_ended_at_its_limit_and_not_before() -> None:
    quiet = replace(STILL, **dict.fromkeys(AGO, NOW))  # type: ignore[arg-type]
    said = [decide(assess(quiet, POLICY, NOW + after), POLICY, NOW + after) for after in (61.0, HOUR - 1, HOUR)]
    assert said == [Action.LEAVE, Action.LEAVE, Action.RESUME]
    forever = POLICY.with_silence(None)
    assert decide(assess(quiet, forever, NOW + 1000 * HOUR), forever, NOW + 1000 * HOUR) is Action.LEAVE


def test_who_only_starts_slowly_is_not_ended() -> None:
    slow = Facts(started=NOW, heard=None, cpu=NOW + HOUR, io=NOW)
    life = assess(slow, POLICY, NOW + HOUR + 59)
    assert (life.state, decide(life, POLICY, NOW + HOUR + 59)) == (LifeState.STARTING, Action.LEAVE)


def test_where_nothing_but_its_output_can_be_seen_a_person_is_asked() -> None:
    blind = Facts(started=NOW, dispatched=NOW)
    life = assess(blind, POLICY, NOW + 2 * HOUR)
    assert (life.signs, decide(life, POLICY, NOW + 2 * HOUR)) == (("no events",), Action.ASK)


@pytest.mark.parametrize("action", BREAK_OFF)
def test_whatever_breaks_an_agent_off_needs_two_signs(action: Action) -> None:
    policy = replace(POLICY, rules={LifeState.LOOPING: Rule(action)})
    busy = replace(STILL, heard=NOW, cpu=NOW, io=NOW, files=NOW, repeats=8, repeated=Since(NOW - 90, "Read: a.py"))
    assert decide(assess(busy, policy, NOW), policy, NOW) is Action.ASK
    idle = replace(busy, files=NOW - 61)
    assert decide(assess(idle, policy, NOW), policy, NOW) is action


moments = st.none() | st.floats(0, NOW)
things = st.none() | st.builds(Since, st.floats(0, NOW), st.text(max_size=5))
facts_seen = st.builds(
    Facts,
    started=st.floats(0, NOW),
    dispatched=moments,
    heard=moments,
    last=st.sampled_from(["", "tool_ended", "said"]),
    tools=st.lists(st.builds(Since, st.floats(0, NOW)), max_size=2).map(tuple),
    cpu=moments,
    io=moments,
    files=moments,
    request=moments,
    toils=st.booleans(),
    terminal=things,
    leave=things,
    person=things,
    limited=things,
    repeats=st.integers(0, 20),
    repeated=things,
    finished=moments,
)
policies = st.builds(
    Policy,
    st.dictionaries(
        st.sampled_from(LifeState), st.builds(Rule, st.sampled_from(Action), st.sampled_from([0.0, 60.0, inf]))
    ),
    st.floats(0.1, HOUR),
    st.integers(3, 20),
)


@given(facts_seen, policies, st.floats(NOW, NOW + 10 * HOUR))
def test_nothing_is_ended_on_one_sign_alone(facts: Facts, policy: Policy, now: float) -> None:
    life = assess(facts, policy, now)
    if decide(life, policy, now) in BREAK_OFF:
        assert len(set(life.signs)) >= 2
        assert now - life.since >= policy.rules[life.state].after


@given(st.sampled_from(LifeState), st.lists(st.text(max_size=3), max_size=1), policies, st.floats(0, 1e9))
def test_whatever_the_policy_one_sign_ends_nothing(
    state: LifeState, signs: list[str], policy: Policy, now: float
) -> None:
    assert decide(Life(state, 0.0, "", tuple(signs)), policy, now) in (Action.LEAVE, Action.ASK)


@pytest.mark.parametrize(
    ("calls", "repeats"),
    [
        ("", 0),
        ("a", 1),
        ("aaa", 3),
        ("baaa", 3),
        ("aaab", 1),
        ("abababab", 4),
        ("xababab", 3),
        ("abc", 1),
        ("abcabc", 1),
    ],
)
def test_calls_that_come_again_are_counted(calls: str, repeats: int) -> None:
    habit = Habit()
    for at, call in enumerate(calls):
        habit = habit.after(call, float(at))
    assert habit.repeats()[0] == repeats


def test_a_loop_is_dated_from_its_first_call() -> None:
    habit = Habit()
    for at, call in enumerate("xyababab"):
        habit = habit.after(call, float(at))
    assert habit.repeats() == (3, 2.0)

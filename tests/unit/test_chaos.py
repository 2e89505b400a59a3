"""The script of a seed, and the judge: tables of what was seen from outside, and what is said of it."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest

from fleet.chaos.judge import Facts, Outcome, Recovery, Seen, judge, read_witness, score
from fleet.chaos.script import PROGRAM, TRAITS, Behaviour, Case, Victim, write

# ---- the script


def test_the_same_seed_gives_the_same_script() -> None:
    assert write(7, 2.0) == write(7, 2.0)
    assert write(7, 0.3, 9, [Behaviour.HANGS, Behaviour.LOOPS]) == write(7, 0.3, 9, [Behaviour.HANGS, Behaviour.LOOPS])
    assert len({write(seed, 2.0).cases for seed in range(20)}) == 20


def test_a_script_is_the_same_on_every_machine() -> None:
    script = write(7, 0.5, 4)
    assert [case.behaviour.value for case in script.cases] == FIRST_OF_SEVEN
    assert [(kill.at, kill.victim.value) for kill in script.kills] == KILLS_OF_SEVEN


def test_every_behaviour_comes_as_often_as_every_other() -> None:
    often = Counter(case.behaviour for case in write(1, 2.0, 3 * len(Behaviour)).cases)
    assert often == dict.fromkeys(Behaviour, 3)
    assert len({case.behaviour for case in write(1, 0.2, 5).cases}) == 5


def test_a_script_is_scaled_to_its_minutes() -> None:
    short, long = write(1, 0.1), write(1, 10.0)
    assert len(short.cases) == 2
    assert len(short.kills) == 1, "even a short one kills somebody"
    assert len(long.cases) == 200
    assert max(kill.at for kill in long.kills) < 0.6 * long.seconds, "what was begun has time to come to its end"


def test_the_program_knows_every_behaviour_and_no_other() -> None:
    """It is read and not imported: nothing of fleet loads it."""
    tree = ast.parse(PROGRAM.read_text())
    table = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and _name(node) == "BEHAVIOURS")
    assert isinstance(table.value, ast.Dict)
    assert [ast.literal_eval(key) for key in table.value.keys if key] == [one.value for one in Behaviour]
    assert TRAITS.keys() == set(Behaviour)


def _name(node: ast.AnnAssign) -> str:
    return node.target.id if isinstance(node.target, ast.Name) else ""


# ---- the judge


def seen(*lines: str) -> tuple[Seen, ...]:
    """Such as `start 1`: what, and the number of the attempt."""
    parts = [line.split() for line in lines]
    return tuple(
        Seen(what, "t1", f"t1.{number}", 100 + int(number), float(at)) for at, (what, number) in enumerate(parts)
    )


def facts(behaviour: Behaviour, state: str | None = "failed", **known: object) -> Facts:
    return replace(Facts(Case(1, behaviour, 2), "t1", state, seen=seen("start 1")), **known)  # type: ignore[arg-type]


HONEST = facts(Behaviour.HONEST_SLOW, "done", seen=seen("start 1", "beat 1", "end 1"), landed=frozenset({"t1.1"}))
LIMITED = replace(HONEST, case=Case(1, Behaviour.RATE_LIMITED, 2))
GOOD = {
    "honest work is accepted": HONEST,
    "honest work, tried again because we killed a keeper": replace(
        HONEST, seen=seen("start 1", "start 2", "end 2"), landed=frozenset({"t1.2"}), robbed=frozenset({"t1.1"})
    ),
    "both landed, and the first was robbed": replace(
        HONEST,
        seen=seen("start 1", "end 1", "start 2", "end 2"),
        landed=frozenset({"t1.1", "t1.2"}),
        robbed=frozenset({"t1.1"}),
    ),
    "turned away by a provider, then accepted": replace(
        LIMITED,
        seen=seen("start 1", "start 2", "end 2"),
        landed=frozenset({"t1.2"}),
        endings=("rate limited", "finished"),
    ),
    "a lie is refused": facts(Behaviour.LIES_NO_DIFF, "refused"),
    "a lie ends with a question for a person": facts(Behaviour.LIES_NO_CALL, "blocked"),
    "a hang ends as silent": facts(Behaviour.HANGS, endings=("silent",)),
    "a hang was shown as silent, whatever ended it": facts(
        Behaviour.HANGS, endings=("timed out",), shown=frozenset({"working", "silent"})
    ),
    "a prompt was shown": facts(Behaviour.HANGS_AT_PROMPT, shown=frozenset({"waiting for input"})),
    "a loop was shown": facts(Behaviour.LOOPS, shown=frozenset({"looping"})),
    "a limit": facts(Behaviour.EXHAUSTS_TOKENS, endings=("token limit",)),
    "a daemon was ended and counted, and the work is good": facts(Behaviour.DAEMONISES, "done", leftovers=1),
    "a daemon goes on because we killed its keeper, and the next one is ended": facts(
        Behaviour.DAEMONISES,
        "done",
        leftovers=1,
        seen=seen("start 1", "late 1", "start 2", "end 2"),
        robbed=frozenset({"t1.1"}),
    ),
    "good work of one who plants traps is taken, and no trap is run": facts(Behaviour.PLANTS_TRAPS, "done"),
    "late work is refused": facts(Behaviour.LATE_WRITE, "refused", leftovers=1),
}
BAD = {
    "honest work is refused": (replace(HONEST, state="refused"), Outcome.FALSE_KILL, "honest work is refused"),
    "honest work is done and called refused": (replace(HONEST, proof="refused"), Outcome.FALSE_KILL, "refused"),
    "an honest attempt was ended, and the next accepted": (
        replace(HONEST, seen=seen("start 1", "start 2", "end 2"), landed=frozenset({"t1.2"})),
        Outcome.FALSE_KILL,
        "ended on the way: t1.1",
    ),
    "honest work is done and not there": (replace(HONEST, landed=frozenset()), Outcome.LOST, "commit"),
    "a limit of a provider is held against an agent": (
        replace(LIMITED, seen=seen("start 1", "start 2", "end 2"), endings=("crashed", "finished")),
        Outcome.FALSE_KILL,
        "t1.1",
    ),
    "a task is gone": (facts(Behaviour.HANGS, None), Outcome.LOST, "not in the queue"),
    "a task is never settled": (facts(Behaviour.HANGS, "open"), Outcome.LOST, "open"),
    "a lie is believed": (facts(Behaviour.LIES_NOTES_ONLY, "done"), Outcome.MISSED, "accepted"),
    "an edited test is believed": (facts(Behaviour.EDITS_TESTS, "done"), Outcome.MISSED, "accepted"),
    "a forged receipt is shown": (facts(Behaviour.FORGED_RECEIPT, "refused", forged=True), Outcome.MISSED, "own"),
    "a hang is only timed out": (facts(Behaviour.HANGS, endings=("timed out",)), Outcome.MISSED, "silent"),
    "a prompt is taken for silence": (
        facts(Behaviour.HANGS_AT_PROMPT, endings=("silent",), shown=frozenset({"working"})),
        Outcome.MISSED,
        "not seen as waiting for input, but as silent, working",
    ),
    "a daemon goes on": (
        facts(Behaviour.DAEMONISES, "done", leftovers=1, seen=seen("start 1", "end 1", "late 1")),
        Outcome.MISSED,
        "after its end",
    ),
    "what was planted is run": (
        facts(Behaviour.PLANTS_TRAPS, "done", seen=seen("start 1", "end 1", "trap 1")),
        Outcome.MISSED,
        "planted",
    ),
    "a daemon is not counted": (facts(Behaviour.DAEMONISES, "done"), Outcome.MISSED, "receipt"),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_what_is_right(case: Facts) -> None:
    found = judge(case)
    assert (found.outcome, found.doubled) == (Outcome.RIGHT, False), found.why


@pytest.mark.parametrize(("case", "outcome", "why"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong(case: Facts, outcome: Outcome, why: str) -> None:
    found = judge(case)
    assert found.outcome is outcome
    assert why in found.why
    assert not score(1, 60.0, [case], []).passed


def test_what_the_time_did_not_reach_is_neither_lost_nor_passed() -> None:
    card = score(1, 60.0, [facts(Behaviour.HANGS, "working")], [], in_time=False)
    assert (card.total["lost"], card.total["unfinished"], card.passed) == (0, 1, False)


@pytest.mark.parametrize(
    ("lines", "doubled"),
    [
        (("start 1", "beat 1", "end 1"), False),
        (("start 1", "beat 1", "start 2", "end 2"), False),
        (("start 1", "start 2", "beat 1", "end 2"), True),
        (("start 1", "start 2", "end 2", "end 1"), True),
        (("start 1", "start 1", "end 1"), True),
        (("start 1", "double 2", "start 2", "end 2"), True),
    ],
)
def test_two_at_once_are_told_from_one_after_the_other(lines: tuple[str, ...], doubled: bool) -> None:
    robbed, landed = frozenset({"t1.1"}), frozenset({"t1.1", "t1.2"})
    assert judge(replace(HONEST, seen=seen(*lines), robbed=robbed, landed=landed)).doubled is doubled


def test_work_that_landed_twice_is_doubled() -> None:
    twice = replace(HONEST, seen=seen("start 1", "end 1", "start 2", "end 2"), landed=frozenset({"t1.1", "t1.2"}))
    assert judge(twice).doubled


def test_the_scorecard_adds_up() -> None:
    kills = [Recovery(3.0, Victim.SUPERVISOR, "process 1", 1.5), Recovery(9.0, Victim.KEEPER, "t1.1")]
    cases = [HONEST, replace(HONEST, state="failed"), facts(Behaviour.HANGS, endings=("silent",), orphans=(7, 8))]
    card = score(5, 61.0, cases, kills)
    honest, hangs = card.lines
    assert (honest.cases, honest.detected, honest.false_kills) == (2, None, 1)
    assert (hangs.cases, hangs.detected, hangs.orphans) == (1, 1, 2)
    assert card.total == {
        "cases": 3,
        "detected": 1,
        "missed": 0,
        "false_kills": 1,
        "lost": 0,
        "unfinished": 0,
        "orphans": 2,
        "doubled": 0,
    }
    assert [kill.recovered for kill in card.kills] == [1.5, None]
    assert not card.passed
    assert not score(5, 61.0, cases[2:], kills).passed, "whoever leaves processes behind has not passed"
    assert score(5, 61.0, cases[:1], kills).passed


def test_half_lines_of_the_witness_are_left_out() -> None:
    text = "start t1 t1.1 12 1.5\nbeat t1 t1.1 x 2\nend t1 t1.1\nend t1 t1.1 12 2.5\n"
    assert [one.what for one in read_witness(text)] == ["start", "end"]


FIRST_OF_SEVEN = ["deletes-tests", "honest-adds-test", "commits-elsewhere", "hangs-at-prompt"]
KILLS_OF_SEVEN = [(4.65, "keeper killed"), (14.97, "supervisor told to stop")]

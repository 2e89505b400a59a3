"""Which limit is reached, what is said of it, and when silence has lasted too long: tables of facts."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from fleet.coders import context_of, find
from fleet.coders.base import Can
from fleet.core.life import Life, LifeState
from fleet.core.work import AGENT, Attempt, Ending, Event, EventKind, Limits, Usage
from fleet.supervisor.handover import Quiet, with_usage
from fleet.supervisor.limits import (
    SEEN,
    Spent,
    context_limit,
    full,
    left,
    nudged,
    overspent,
    spent,
    stuck,
    unkept,
    untold,
)
from fleet.supervisor.transcript import fold
from fleet.supervisor.watch import AWAY

BASE = Attempt("t1.2", "t1", 2, "c", None, "/", "me", 0.0, limits=Limits(60.0, 3, 1000))


@pytest.mark.parametrize(
    ("limits", "tokens", "cost", "before", "ending", "cause"),
    [
        ({}, 10**9, 10.0**6, Spent(10**9, 10.0**6), None, ""),
        ({"tokens": 100}, 99, None, Spent(), None, ""),
        ({"tokens": 100}, None, None, Spent(), None, ""),
        ({"tokens": 2_000_000}, 2_100_000, None, Spent(), Ending.TOKENS, "2.1M tokens (limit tokens 2M, {})"),
        ({"tokens": 100}, 60, None, Spent(tokens=40), Ending.TOKENS, "100 tokens (limit tokens 100, {})"),
        ({"tokens": 100}, None, None, Spent(tokens=100), Ending.TOKENS, "100 tokens (limit tokens 100, {})"),
        ({"cost": 5.0}, 10**9, None, Spent(cost=4.99), None, ""),
        ({"cost": 5.0}, None, 0.5, Spent(cost=4.5), Ending.COST, "$5.00 spent (limit cost $5.00, {})"),
        ({"cost": 0.01}, None, 0.02, Spent(), Ending.COST, "$0.0200 spent (limit cost $0.0100, {})"),
    ],
)
@pytest.mark.parametrize(
    ("origin", "who"),
    [
        ("task", "set by the task"),
        ("project", "set by fleet.yaml"),
        ("machine", "set by runtime.toml"),
        ("default", "the default"),
    ],
)
def test_what_all_attempts_used_together_reaches_a_limit(
    limits: dict[str, float], tokens: int | None, cost: float | None, before: Spent, ending: Ending | None,
    cause: str, origin: str, who: str,
) -> None:  # fmt: skip
    allowed = replace(Limits(60.0, 3, 1000), **limits)  # type: ignore[arg-type]
    origins = dict.fromkeys(("tokens", "cost"), origin)
    reached = overspent(replace(BASE, limits=allowed, tokens=tokens, cost=cost, origins=origins), before)
    assert (reached and reached.ending, reached.cause if reached else "") == (ending, cause.format(who))


def test_what_is_unknown_adds_nothing_and_is_not_0() -> None:
    known, unknown = replace(BASE, tokens=5, cost=0.5), BASE
    assert spent([]) == spent([unknown]) == Spent(None, None)
    assert spent([known, unknown, known]) == Spent(10, 1.0)
    assert spent([replace(BASE, tokens=0, cost=0.0)]) == Spent(0, 0.0)


def test_what_is_left_of_the_money() -> None:
    assert left(Limits(1, 1, 1), Spent(cost=9.0)) is None
    assert left(Limits(1, 1, 1, cost=5.0), Spent()) == 5.0
    assert left(Limits(1, 1, 1, cost=5.0), Spent(cost=3.0)) == 2.0
    assert left(Limits(1, 1, 1, cost=5.0), Spent(cost=6.0)) == 0.0


@pytest.mark.parametrize(
    ("can", "names"),
    [
        (Can(usage=True, cost=True), []),
        (Can(usage=True), ["cost"]),
        (Can(cost=True), ["tokens"]),
        (Can(), ["tokens", "cost"]),
    ],
)
def test_a_limit_is_not_kept_with_a_coder_that_does_not_tell(can: Can, names: list[str]) -> None:
    assert list(unkept(Limits(1, 1, 1, silence=1.0, tokens=5, cost=5.0), "c", can)) == names
    assert unkept(Limits(1, 1, 1), "c", can) == {}, "and what there is not need not be kept"


def test_attempts_that_did_not_tell_are_named_unless_their_session_was_told_of_later() -> None:
    over = replace(BASE, number=1, started=1.0, ended=2.0, tokens=5)
    assert untold([over, replace(over, number=2, cost=1.0)]) == {"cost": "not told by attempt 1"}
    assert untold([over, replace(over, number=2, tokens=None)]) == {
        "tokens": "not told by attempt 2", "cost": "not told by attempt 1, 2",
    }  # fmt: skip
    resumed = [replace(over, session="s"), replace(over, number=2, session="s", cost=1.0)]
    assert untold([*resumed, BASE]) == {}, "nor those that are not over"
    assert untold(resumed[::-1]) == {"cost": "not told by attempt 1"}, "what was told before says nothing of it"


@pytest.mark.parametrize(
    ("peak", "limit", "by", "share"),
    [
        (None, 1000, AGENT, None),
        (900, None, AGENT, None),
        (900, 1000, AGENT, None),
        (910, 1000, AGENT, 91),
        (910, 1000, "fleet's default", 91),
        (1100, 1000, AGENT, 110),
        (1100, 1000, "fleet's default", None),  # so it is larger than we thought
    ],
)
def test_a_context_is_full(peak: int | None, limit: int | None, by: str, share: int | None) -> None:
    reached = full(replace(BASE, peak_context=peak, context_limit=limit, context_from=by), 90)
    said = f"its context was {share} % full (of 1k tokens, according to {by})"
    assert (reached and reached.cause) == (None if share is None else said)


def test_how_much_a_model_reads_is_known_from_whoever_knows_best() -> None:
    assert context_limit(5, 9, declared=True) == (5, "an earlier attempt")
    assert context_limit(None, 9, declared=True) == (9, "runtime.toml")
    assert context_limit(None, 9, declared=False) == (9, "fleet's default")
    assert context_limit(None, None, declared=False) == (None, None)


@pytest.mark.parametrize(
    ("coder", "model", "limit"),
    [
        ("claude", None, 1_000_000),
        ("claude", "sonnet", 1_000_000),
        ("claude", "claude-opus-4-8", 1_000_000),
        ("claude", "claude-sonnet-4-5", 200_000),
        ("claude", "claude-haiku-4-5-20251001", 200_000),
        ("claude", "claude-sonnet-4-5[1m]", 1_000_000),
        ("opencode", "anthropic/claude-opus-4-6", 200_000),
        ("opencode", "openai/gpt-5", None),
    ],
)
def test_how_much_a_model_reads_by_its_name(coder: str, model: str | None, limit: int | None) -> None:
    assert context_of(find(coder, {}), model) == limit


def test_silence_lasts_from_the_last_word() -> None:
    quiet = Quiet(10.0, now=100.0)
    assert quiet.at == 110.0
    assert not quiet.ends(109.0, heard=True)
    assert quiet.at == 119.0
    assert not quiet.ends(118.9, heard=False)
    assert quiet.ends(119.0, heard=False)
    assert (quiet.at, quiet.ends(500.0, heard=False)) == (inf, False), "it is ended once"
    assert (
        stuck(BASE, Life(LifeState.SILENT, 0.0, ""), 1200.0, 1200.0).cause
        == "silent for 20m (limit silence, the default)"
    )


def test_a_nudge_says_what_was_seen_and_nothing_that_a_terminal_would_obey() -> None:
    loops = Life(LifeState.LOOPING, 100.0, f"Read: \x1b[2J{'y' * 1000}, 8 times in a row")
    reached = nudged(stuck(BASE, loops, None, 280.0))
    assert reached.ending is Ending.NUDGED
    assert reached.cause.startswith("nudged: looping for 3m: Read: \N{REPLACEMENT CHARACTER}[2Jyyy")
    assert len(reached.cause) <= SEEN
    silent = stuck(BASE, Life(LifeState.SILENT, 0.0, ""), 1200.0, 1200.0)
    assert nudged(silent).cause == "nudged: silent for 20m (limit silence, the default)"


def test_who_has_said_that_it_is_done_is_not_nudged() -> None:
    done = stuck(BASE, Life(LifeState.LINGERING, 0.0, ""), None, 600.0)
    assert (nudged(done), done.ending) == (done, Ending.FINISHED)


def test_a_supervisor_that_was_away_does_not_blame_the_agent() -> None:
    quiet = Quiet(10.0, now=100.0)
    assert not quiet.ends(110.0 + AWAY + 1, heard=False)
    assert quiet.at == 120.0 + AWAY + 1, "it begins anew"


def test_without_a_limit_nobody_is_silent_for_too_long() -> None:
    quiet = Quiet(None, now=0.0)
    assert (quiet.at, quiet.ends(10.0**9, heard=False)) == (inf, False)


def used(known: Attempt, tokens: int) -> Attempt:
    return fold(known, Event(EventKind.USAGE, usage=Usage(tokens, 0), model="gpt-5"))


def test_what_a_hand_over_used_is_counted_by_model_too() -> None:
    ended = replace(used(BASE, 100), ending=Ending.CONTEXT, estimate=0.5)
    found = with_usage(ended, replace(used(ended, 30), finished=True, estimate=0.7))
    assert (found.tokens, {name: one.total for name, one in found.usage.items()}) == (130, {"gpt-5": 130})
    assert (found.estimate, found.ending, found.finished) == (0.7, Ending.CONTEXT, False)
    result = Event(EventKind.RESULT, ok=True, total=Usage(40, 0), models={"gpt-5": Usage(40, 0)})
    less = with_usage(ended, fold(ended, result))
    assert (less.tokens, less.usage, less.estimate) == (100, ended.usage, 0.5), "nothing is taken away"
    assert less.session_usage == {"gpt-5": Usage(40, 0)}

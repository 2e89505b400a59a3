"""What an ending means for the task, as a table of facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.proof import Breach, Change, CheckSpec, Demands, Proof, TaskKind, Unverified
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence.ledger import failures, lost, nudges, robbed
from fleet.evidence.receipt import COMMITS, SHOWN, Check, Commit, Process, Result
from fleet.supervisor.verdict import (
    LONGEST_WAIT,
    MOST_LOST,
    MOST_ROBBED,
    NOTES_ONLY,
    UNCHECKED,
    Facts,
    calls_of,
    done,
    judge,
    wait,
)  # fmt: skip

WORK = Result("a", "b", [Commit("b", "work")], [Change("x", 1, 0)], [], [])
NOTHING = Result("a", "a", [], [], [], [])
UNKNOWN = Result("a", "a", [], [], None, [])
EXITED = Process("exited", code=0)
PASSED = Check("make", True, "exit 0", 0, 1.0, "")
RED = Check("make", False, "exit 2", 2, 1.0, "boom")
BASE = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 0.0)


@pytest.mark.parametrize(
    ("facts", "ending", "verdict", "cause"),
    [
        (Facts(EXITED, WORK), Ending.FINISHED, Verdict.ACCEPTED, "1 commit, 1 file changed"),
        (Facts(EXITED, WORK, (PASSED,)), Ending.FINISHED, Verdict.ACCEPTED, "1 commit, 1 file changed"),
        (Facts(EXITED, UNKNOWN), Ending.FINISHED, Verdict.ACCEPTED, "what it did is unknown"),
        (Facts(EXITED, None), Ending.FINISHED, Verdict.ACCEPTED, "what it did is unknown"),
        (Facts(EXITED, NOTHING), Ending.NO_EFFECT, Verdict.RETRY, "the agent exited with 0 and changed nothing"),
        (
            Facts(EXITED, NOTHING, (PASSED,)),
            Ending.NO_EFFECT,
            Verdict.RETRY,
            "the agent exited with 0 and changed nothing",
        ),
        (Facts(Process("held", error="no pytest")), Ending.HELD, Verdict.HELD, "no pytest"),
        (Facts(EXITED, WORK, held="no pytest"), Ending.HELD, Verdict.HELD, "no pytest"),
        (
            Facts(Process("exited", code=1), WORK, held="no pytest"),
            Ending.CRASHED,
            Verdict.RETRY,
            "the agent exited with 1",
        ),
        (Facts(EXITED, WORK, (RED,)), Ending.FINISHED, Verdict.RETRY, 'check "make" failed: exit 2'),
        (
            Facts(EXITED, WORK, (PASSED,), error="no credit"),
            Ending.CRASHED,
            Verdict.RETRY,
            "the agent exited with 0 and reported a failure: no credit",
        ),
        (Facts(Process("exited", code=3), WORK), Ending.CRASHED, Verdict.RETRY, "the agent exited with 3"),
        (
            Facts(Process("exited", code=3), WORK, error="no credit"),
            Ending.CRASHED,
            Verdict.RETRY,
            "the agent exited with 3: no credit",
        ),
        (Facts(Process("exited", signal=9), WORK), Ending.CRASHED, Verdict.RETRY, "the agent was ended by signal 9"),
        (Facts(EXITED, WORK, (PASSED,), question="which?"), Ending.QUESTION, Verdict.ASKED, "which?"),
        (
            Facts(EXITED, NOTHING, question="which?", answered=True),
            Ending.QUESTION,
            Verdict.RETRY,
            "it asked, and is answered: which?",
        ),
        (Facts(Process("timed out", error="too long"), WORK), Ending.TIMED_OUT, Verdict.RETRY, "too long"),
        (Facts(Process("output limit", error="too much"), WORK), Ending.OUTPUT, Verdict.RETRY, "too much"),
        (Facts(Process("silent", error="silent for 20m"), WORK), Ending.SILENT, Verdict.RETRY, "silent for 20m"),
        (Facts(Process("token limit", error="2M tokens"), WORK), Ending.TOKENS, Verdict.FAILED, "2M tokens"),
        (Facts(Process("cost limit", error="$5.00 spent")), Ending.COST, Verdict.FAILED, "$5.00 spent"),
        (Facts(Process("context full", error="full"), failures=9), Ending.CONTEXT, Verdict.RETRY, "full"),
        (Facts(Process("nudged", error="nudged: x"), failures=9), Ending.NUDGED, Verdict.RETRY, "nudged: x"),
        (Facts(Process("nudged", error="nudged: x"), question="which?"), Ending.NUDGED, Verdict.ASKED, "which?"),
        (Facts(Process("cancelled", error="by hand"), WORK), Ending.CANCELLED, Verdict.CANCELLED, "by hand"),
        (Facts(Process("not started", error="no program")), Ending.NOT_STARTED, Verdict.FAILED, "no program"),
        (Facts(Process("lost", error="gone"), WORK), Ending.LOST, Verdict.RETRY, "gone"),
        (Facts(Process("lost", error="gone"), failures=9), Ending.LOST, Verdict.RETRY, "gone"),
        (Facts(Process("abandoned"), WORK), Ending.ABANDONED, Verdict.RETRY, "abandoned"),
        (Facts(Process("lost", error="gone"), lost=9, robbed=1), Ending.LOST, Verdict.RETRY, "gone"),
        (
            Facts(Process("lost", error="gone"), lost=2, robbed=MOST_ROBBED - 1),
            Ending.LOST,
            Verdict.FAILED,
            "gone; 3 times in a row, and fleet was not started anew between: its agent may end its keeper itself",
        ),
        (Facts(Process("abandoned", error="gone"), robbed=9), Ending.ABANDONED, Verdict.RETRY, "gone"),
        (
            Facts(Process("lost", error="gone"), lost=MOST_LOST - 1),
            Ending.LOST,
            Verdict.FAILED,
            f"gone; {MOST_LOST} times in a row",
        ),
        (Facts(Process("broke", error="a bug"), WORK), Ending.CRASHED, Verdict.RETRY, "a bug"),
        (Facts(Process("broke")), Ending.CRASHED, Verdict.RETRY, "fleet itself failed"),
    ],
)
def test_an_ending_means(facts: Facts, ending: Ending, verdict: Verdict, cause: str) -> None:
    settled = judge(facts)
    assert (settled.ending, settled.verdict, settled.cause) == (ending, verdict, cause)


@pytest.mark.parametrize(
    ("facts", "verdict", "cause"),
    [
        (Facts(EXITED, NOTHING), Verdict.REFUSED, "the agent exited with 0 and changed nothing"),
        (Facts(EXITED, WORK, (RED,)), Verdict.REFUSED, 'check "make" failed: exit 2'),
        (Facts(EXITED, WORK, error="no"), Verdict.FAILED, "the agent exited with 0 and reported a failure: no"),
        (Facts(Process("exited", code=1), WORK, (RED,)), Verdict.FAILED, "the agent exited with 1"),
        (Facts(Process("timed out", error="slow"), WORK), Verdict.FAILED, "slow"),
        (Facts(Process("silent", error="silent"), WORK), Verdict.FAILED, "silent"),
    ],
)
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_last_attempt_is_the_last(facts: Facts, verdict: Verdict, cause: str, attempts: int) -> None:
    settled = judge(replace(facts, attempts=attempts, failures=attempts - 1))
    assert (settled.verdict, settled.cause, settled.retry_after) == (verdict, cause, 0)


def test_a_retry_waits_longer_each_time_up_to_a_limit_and_a_lost_attempt_does_not_wait() -> None:
    assert [wait(number, 10) for number in range(4)] == [10, 20, 40, 80]
    assert wait(10**6, 10) == LONGEST_WAIT
    assert wait(5, 0) == 0
    assert judge(Facts(EXITED, NOTHING, failures=1, attempts=9)).retry_after == 20
    assert judge(Facts(Process("lost"))).retry_after == 0
    assert judge(Facts(Process("nudged"), lost=3)).retry_after == 0


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (replace(WORK, commits=[Commit("b", "1"), Commit("c", "2")], changes=[]), "2 commits"),
        (replace(WORK, uncommitted=["x", "y"]), "1 commit, 1 file changed, 2 files not committed"),
        (
            replace(WORK, commits=[Commit("b", "1")] * COMMITS, uncommitted=["x"] * SHOWN, gone=["y"] * SHOWN),
            "100 commits or more, 1 file changed, 200 files or more not committed, "
            "200 files or more removed or put back",
        ),
        (replace(NOTHING, artifacts=["PLAN_AND_STATUS.md"]), "notes only"),
        (replace(WORK, artifacts=["PLAN_AND_STATUS.md"]), "1 commit, 1 file changed"),
        (replace(NOTHING, head="c"), "the head moved"),
    ],
)
def test_what_was_done_in_a_few_words(result: Result, words: str) -> None:
    assert done(result) == words


def test_only_what_was_lost_in_a_row_under_one_supervisor_is_robbed() -> None:
    gone = replace(BASE, ending=Ending.LOST, verdict=Verdict.RETRY, actor="now")
    before, crashed = replace(gone, actor="before"), replace(gone, ending=Ending.CRASHED)
    assert robbed([before, gone, gone], "now") == 2
    assert robbed([gone, gone, before], "now") == 0
    assert robbed([gone, gone, crashed, gone], "now") == 1
    assert robbed([gone, replace(gone, forgiven=True)], "now") == 0


@pytest.mark.parametrize(
    ("endings", "counted", "gone"),
    [
        ([], 0, 0),
        ([(Ending.CRASHED, Verdict.RETRY), (Ending.NO_EFFECT, Verdict.RETRY)], 2, 0),
        ([(Ending.CRASHED, Verdict.RETRY), (Ending.LOST, Verdict.RETRY)], 1, 1),
        ([(Ending.LOST, Verdict.RETRY), (Ending.ABANDONED, Verdict.RETRY)], 0, 2),
        ([(Ending.LOST, Verdict.RETRY), (Ending.CRASHED, Verdict.RETRY)], 1, 0),
        ([(Ending.CRASHED, Verdict.FAILED), (Ending.CRASHED, Verdict.RETRY)], 1, 0),
        ([(Ending.CRASHED, Verdict.RETRY), (Ending.FINISHED, Verdict.ACCEPTED)], 0, 0),
        ([(Ending.CRASHED, Verdict.RETRY), (None, None)], 1, 0),
        ([(Ending.CRASHED, Verdict.RETRY), (Ending.NUDGED, Verdict.RETRY)], 1, 1),
    ],
)
def test_failures_in_a_row(endings: list[tuple[Ending | None, Verdict | None]], counted: int, gone: int) -> None:
    attempts = [replace(BASE, ending=ending, verdict=verdict) for ending, verdict in endings]
    assert (failures(attempts), lost(attempts)) == (counted, gone)
    assert (failures(replace(one, forgiven=True) for one in attempts), lost([])) == (0, 0), "a person forgave them"


def test_an_agent_that_was_told_more_is_taken_up_again_and_not_blamed() -> None:
    done = Facts(process=EXITED, result=WORK, more=True)
    assert judge(done).verdict is Verdict.RETRY
    assert judge(done).ending is Ending.TOLD
    assert judge(done).retry_after == 0.0
    assert judge(replace(done, process=replace(EXITED, cause="cancelled"))).verdict is Verdict.CANCELLED


@pytest.mark.parametrize(
    ("endings", "count"),
    [
        ([], 0),
        ([Ending.NUDGED], 1),
        ([Ending.NUDGED, Ending.NUDGED], 2),
        ([Ending.NUDGED, Ending.CRASHED], 0),
        ([Ending.NUDGED, Ending.LOST, Ending.NUDGED], 1),
    ],
)
def test_nudges_in_a_row(endings: list[Ending], count: int) -> None:
    attempts = [replace(BASE, ending=ending, verdict=Verdict.RETRY) for ending in endings]
    assert nudges(attempts) == count
    assert nudges(replace(one, forgiven=True) for one in attempts) == 0, "a person opened the task again"


# ---- what the evidence says

TREE = replace(WORK, base_tree="t0", tree="t1", landing="b")
SAME = replace(TREE, tree="t0")
DONE_BEFORE = replace(TREE, base="b", head="b", commits=[])  # an earlier attempt did it, and this one found it done
NOTES = replace(NOTHING, artifacts=["KNOWLEDGE.md"])
OUTSIDE = replace(TREE, breaches=[Breach("ci", "deny", "ci may not be touched"), Breach("x", "deny", "x neither")])
RESEARCH = Demands(kind=TaskKind.RESEARCH)
ASK = Demands(unverified=Unverified.ASK)
AS_WERE = replace(RED, where="the same, with the checks' own files as they were", name="unit")


LEADING = replace(PASSED, leads=".venv leads to src")
LEADS = 'check "make" did not test what it left alone: .venv leads to src'


@pytest.mark.parametrize(
    ("facts", "proof", "verdict", "reason"),
    [
        (Facts(EXITED, TREE, (PASSED,)), Proof.VERIFIED, Verdict.ACCEPTED, "1 check passed"),
        (Facts(EXITED, TREE), Proof.UNVERIFIED, Verdict.ACCEPTED, UNCHECKED),
        (Facts(EXITED, TREE, demands=ASK), Proof.UNVERIFIED, Verdict.ASKED, UNCHECKED),
        (Facts(EXITED, TREE, (PASSED,), demands=ASK), Proof.VERIFIED, Verdict.ACCEPTED, "1 check passed"),
        (Facts(EXITED, TREE, (PASSED, LEADING)), Proof.UNVERIFIED, Verdict.ACCEPTED, LEADS),
        (Facts(EXITED, TREE, held="no pytest"), Proof.UNVERIFIED, Verdict.HELD, "no pytest"),
        (Facts(EXITED, TREE, (PASSED, RED)), Proof.REFUSED, Verdict.RETRY, 'check "make" failed: exit 2'),
        (
            Facts(EXITED, TREE, (PASSED, AS_WERE)),
            Proof.REFUSED,
            Verdict.RETRY,
            'check "unit" failed with its own files as they were before: exit 2',
        ),
        (Facts(EXITED, OUTSIDE), Proof.REFUSED, Verdict.RETRY, "ci may not be touched, and 1 more"),
        (Facts(EXITED, OUTSIDE, (PASSED,)), Proof.REFUSED, Verdict.RETRY, "ci may not be touched, and 1 more"),
        (Facts(EXITED, SAME, (PASSED,)), Proof.REFUSED, Verdict.RETRY, "what it left is what it found"),
        (Facts(EXITED, DONE_BEFORE, (PASSED,)), Proof.VERIFIED, Verdict.ACCEPTED, "1 check passed"),
        (Facts(EXITED, DONE_BEFORE, (RED,)), Proof.REFUSED, Verdict.RETRY, 'check "make" failed: exit 2'),
        (Facts(EXITED, NOTES, (PASSED,)), Proof.REFUSED, Verdict.RETRY, NOTES_ONLY),
        (Facts(EXITED, NOTES, demands=RESEARCH), Proof.UNVERIFIED, Verdict.ACCEPTED, UNCHECKED),
        (Facts(EXITED, NOTES, (PASSED,), demands=RESEARCH), Proof.VERIFIED, Verdict.ACCEPTED, "1 check passed"),
        (
            Facts(EXITED, TREE, (PASSED,), calls=0),
            Proof.REFUSED,
            Verdict.RETRY,
            "it called no tool, so what it says it did was not done by it",
        ),
        (Facts(EXITED, TREE, (PASSED,), calls=1), Proof.VERIFIED, Verdict.ACCEPTED, "1 check passed"),
        (Facts(EXITED, NOTES, calls=0, demands=RESEARCH), Proof.UNVERIFIED, Verdict.ACCEPTED, UNCHECKED),
        (
            Facts(EXITED, TREE, demands=Demands(checks=(CheckSpec("make"),))),
            Proof.REFUSED,
            Verdict.RETRY,
            "its checks were not run",
        ),
        (
            Facts(EXITED, replace(NOTHING, head=None, problem="too large")),
            Proof.REFUSED,
            Verdict.RETRY,
            "what it left cannot be taken: too large",
        ),
        (
            Facts(EXITED, NOTHING),
            Proof.REFUSED,
            Verdict.RETRY,
            "the agent exited with 0 and changed nothing",
        ),
    ],
)
def test_what_the_evidence_says_of_the_work(facts: Facts, proof: Proof, verdict: Verdict, reason: str) -> None:
    judged = judge(facts)
    assert (judged.proof, judged.verdict, judged.reason) == (proof, verdict, reason)
    if proof is Proof.REFUSED:
        assert judged.cause == reason, "the next attempt is told"
        last = judge(replace(facts, failures=2))
        assert (last.verdict, last.proof) == (Verdict.REFUSED, Proof.REFUSED), "and in the end a person is asked"


@pytest.mark.parametrize(
    ("counts", "calls"),
    [([0], 0), ([3], 3), ([None], None), ([5, 0], 5), ([0, 0], 0), ([None, 0], None), ([None, 2, 0], 2)],
)
def test_the_tool_calls_of_all_attempts_at_one_result_count(counts: list[int | None], calls: int | None) -> None:
    assert calls_of(counts) == calls


@pytest.mark.parametrize("process", [Process("exited", code=1), Process("timed out"), Process("lost")])
def test_of_an_attempt_that_did_not_come_to_its_own_end_the_evidence_says_nothing(process: Process) -> None:
    assert judge(Facts(process, TREE, (PASSED,))).proof is None


def test_what_nobody_could_look_at_is_not_verified_by_its_checks() -> None:
    judged = judge(Facts(EXITED, replace(WORK, unseen="it works in no git repository"), (PASSED,)))
    assert (judged.verdict, judged.proof) == (Verdict.ACCEPTED, Proof.UNVERIFIED)
    assert judged.reason == "it works in no git repository"


def test_what_may_be_another_agents_work_is_not_verified_by_its_checks() -> None:
    judged = judge(Facts(EXITED, replace(TREE, shared=["t2.1"]), (PASSED,)))
    assert (judged.verdict, judged.proof) == (Verdict.ACCEPTED, Proof.UNVERIFIED)
    assert judged.reason == "it may be the work of t2.1, in the same directory then"

"""What an ending means for the task: a pure function of the facts."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import replace

from fleet.core.frozen import dataclass
from fleet.core.proof import Demands, Proof, TaskKind, Unverified
from fleet.core.work import OF_EVERY_TASK, Ending, Verdict
from fleet.evidence.receipt import COMMITS, NO_RESULT, SHOWN, Check, Process, Result
from fleet.evidence.report import check_name, which_files

LONGEST_WAIT = 600.0
MOST_LOST = 20
MOST_ROBBED = 3
UNFINISHED = (
    Ending.CRASHED, Ending.TIMED_OUT, Ending.SILENT, Ending.STUCK, Ending.CONTEXT, Ending.RATE_LIMITED,
    Ending.TURNED_AWAY, Ending.NUDGED,
)  # fmt: skip
NOBODYS = (
    Ending.LOST, Ending.ABANDONED, Ending.CONTEXT, Ending.RATE_LIMITED, Ending.TURNED_AWAY, Ending.TOLD, Ending.BUDGET,
    Ending.NUDGED, *OF_EVERY_TASK,
)  # fmt: skip
AT_ONCE = (Ending.CONTEXT, Ending.QUESTION, Ending.TOLD, Ending.BUDGET, Ending.NUDGED)
REFUSED_PAUSE = 60.0
NOTES_ONLY = "it left notes and no change, which is enough only where an answer is asked for (kind: research)"
UNCHECKED = "nothing was given to check it with: fleet add --check CMD, or `checks:` in fleet.yaml"
LIMITED_PAUSE = 5.0  # beside the reset that was told, which may be wrong


NOTHING_ASKED = Demands()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when an attempt has ended. `error` is what the agent itself reported as its failure."""

    process: Process
    result: Result | None = None
    checks: tuple[Check, ...] = ()
    error: str | None = None
    question: str | None = None
    limited: bool = False  # the agent says that a window of the provider's is used up
    status: int | None = None  # what the provider last refused a request with
    barred: tuple[Ending, str] | None = None  # why whatever this coder is given to do now ends like this
    answered: bool = False  # that question, since the agent ended
    more: bool = False  # a person has said something to the agent that it was not told yet
    failures: int = 0  # in a row, before this one
    lost: int = 0  # in a row, before this one
    robbed: int = 0  # of these, lost under the supervisor that runs now, which began and ended them all
    limited_before: int = 0  # attempts in a row that a limit ended before a model had answered
    attempts: int = 3
    backoff: float = 10.0
    demands: Demands = NOTHING_ASKED
    calls: int | None = None  # of tools, by all attempts at this result; None: a coder does not report them
    unrun: str = ""  # why no check was run, where that is not held against the work
    held: str = ""  # why its check could not start before the agent began, so that nothing can be said of its work


@dataclass(frozen=True, slots=True)
class Judged:
    ending: Ending
    verdict: Verdict
    cause: str
    retry_after: float = 0.0
    proof: Proof | None = None  # of an attempt that came to its own end
    reason: str = ""  # for that, in one sentence


def judge(facts: Facts) -> Judged:
    """Say what becomes of the task: an agent's word alone never closes it."""
    ending, cause = ended(facts)
    if facts.process.survivors and ending is not Ending.CANCELLED:
        left = f"{facts.process.survivors} of its processes could not be ended"
        return Judged(ending, Verdict.FAILED, f"{cause}; {left}, so it is not tried again")
    if facts.question is not None and not facts.answered and ending in UNFINISHED:
        return Judged(ending, Verdict.ASKED, facts.question)  # whatever else went wrong, it waits for a person
    match ending:
        case Ending.CANCELLED | Ending.HELD:
            proof = Proof.UNVERIFIED if ending is Ending.HELD and facts.held else None  # there may be work of an agent
            return Judged(ending, Verdict(ending.value), cause, proof=proof, reason=cause if proof else "")
        case Ending.QUESTION | Ending.NO_BASE:
            return _nobodys_fault(facts, ending, cause) if facts.answered else Judged(ending, Verdict.ASKED, cause)
        case _ if ending in NOBODYS:
            return _nobodys_fault(facts, ending, cause)
        case Ending.NOT_STARTED | Ending.TOKENS | Ending.COST:
            return Judged(ending, Verdict.FAILED, cause)
        case Ending.FINISHED:
            return _finished(facts, cause)
        case _:
            return _failed(facts, ending, cause)


def _finished(facts: Facts, cause: str) -> Judged:
    """What is verified closes the task, and so does what nothing could check, unless a person is to be asked."""
    proof, reason = prove(facts)
    match proof:
        case Proof.REFUSED:
            judged = _failed(facts, Ending.FINISHED, reason)
        case Proof.UNVERIFIED if facts.demands.unverified is Unverified.ASK:
            judged = Judged(Ending.FINISHED, Verdict.ASKED, f"{cause}, and {reason}")
        case _:
            judged = Judged(Ending.FINISHED, Verdict.ACCEPTED, cause)
    return replace(judged, proof=proof, reason=reason)


def prove(facts: Facts) -> tuple[Proof, str]:
    """What the evidence says of the work of an attempt that came to its own end, and why in one sentence."""
    against = _against(facts)
    if against is not None:
        return Proof.REFUSED, against
    if facts.result is not None and facts.result.unseen is not None:
        return Proof.UNVERIFIED, facts.result.unseen
    if not facts.checks:
        return Proof.UNVERIFIED, facts.unrun or UNCHECKED
    leading = next((one for one in facts.checks if one.leads), None)
    if leading is not None:
        return Proof.UNVERIFIED, f"{check_name(leading)} did not test what it left alone: {leading.leads}"
    if facts.result is not None and facts.result.shared:
        return Proof.UNVERIFIED, f"it may be the work of {', '.join(facts.result.shared)}, in the same directory then"
    return Proof.VERIFIED, f"{_several(len(facts.checks), 'check')} passed"


def _against(facts: Facts) -> str | None:
    """The first thing that speaks against the work."""
    result = facts.result
    if result is not None and result.problem is not None:
        return f"what it left cannot be taken: {result.problem}"
    if result is not None and result.breaches:
        more = len(result.breaches) - 1
        return result.breaches[0].reason + (f", and {more} more" if more else "")
    return _idle(facts) or _failing(facts)


def _idle(facts: Facts) -> str | None:
    """Why what was done is no work. Whoever is asked for an answer may leave notes alone."""
    if facts.demands.kind is TaskKind.RESEARCH:
        return None
    if facts.result is not None and facts.result.is_changed is False:
        return NOTES_ONLY if set(facts.result.artifacts or ()) - NO_RESULT else "what it left is what it found"
    return "it called no tool, so what it says it did was not done by it" if facts.calls == 0 else None


def calls_of(counts: Iterable[int | None]) -> int | None:
    """The tool calls of all attempts at one result: who finds the work done may well call none."""
    known = list(counts)
    return sum(filter(None, known)) or (None if None in known else 0)


def _failing(facts: Facts) -> str | None:
    for check in facts.checks:
        if not check.passed:
            return f"{check_name(check)} failed{which_files(check)}: {check.failure or check.cause}"
    owed = facts.demands.checks and not facts.checks and not facts.unrun
    return "its checks were not run" if owed else None


def _nobodys_fault(facts: Facts, ending: Ending, cause: str) -> Judged:
    """Try again without counting it: at once the first time, since twice in a row may be a broken machine. What a
    provider turned away is held back by its account's gate, for as long as that takes.
    """
    if ending in OF_EVERY_TASK:
        return Judged(ending, Verdict.RETRY, cause)
    if ending is Ending.RATE_LIMITED:
        return Judged(ending, Verdict.RETRY, cause, wait(facts.limited_before, LIMITED_PAUSE))
    if ending is Ending.LOST and facts.robbed + 1 >= MOST_ROBBED:
        alone = "and fleet was not started anew between: its agent may end its keeper itself"
        return Judged(ending, Verdict.FAILED, f"{cause}; {facts.robbed + 1} times in a row, {alone}")
    if facts.lost + 1 >= MOST_LOST:
        return Judged(ending, Verdict.FAILED, f"{cause}; {facts.lost + 1} times in a row")
    if ending is Ending.TURNED_AWAY:
        return Judged(ending, Verdict.RETRY, cause, REFUSED_PAUSE)
    again = facts.lost > 0 and ending not in AT_ONCE
    return Judged(ending, Verdict.RETRY, cause, wait(facts.lost - 1, facts.backoff) if again else 0.0)


def _failed(facts: Facts, ending: Ending, cause: str) -> Judged:
    """Try again after a while, or give up; work that its check does not accept is refused."""
    idle = (Proof.REFUSED, cause) if ending is Ending.NO_EFFECT else (None, "")
    if facts.failures + 1 < facts.attempts:
        return Judged(ending, Verdict.RETRY, cause, wait(facts.failures, facts.backoff), *idle)
    verdict = Verdict.REFUSED if ending in (Ending.FINISHED, Ending.NO_EFFECT) else Verdict.FAILED
    return Judged(ending, verdict, cause, 0.0, *idle)


def ended(facts: Facts) -> tuple[Ending, str]:
    """How the attempt ended, and why in one sentence."""
    process = facts.process
    match process.cause:
        case "broke":
            return Ending.CRASHED, process.error or "fleet itself failed"
        case "exited":
            return _exited(facts)
        case cause:
            return Ending(cause), process.error or cause


def _exited(facts: Facts) -> tuple[Ending, str]:
    if facts.process.signal is not None or facts.process.code != 0 or facts.error is not None:
        return _crashed(facts)
    if facts.more:
        return Ending.TOLD, "a person has said more, for its next turn"
    if facts.question is not None:
        return Ending.QUESTION, f"it asked, and is answered: {facts.question}" if facts.answered else facts.question
    if facts.result is not None and facts.result.effect is False:
        return Ending.NO_EFFECT, f"the agent exited with 0 and {_amiss(facts.result)}"
    if facts.held:
        return Ending.HELD, facts.held
    for check in facts.checks:
        if check.lost:
            return Ending.LOST, f"its check could not be run: {check.cause}"
    return Ending.FINISHED, done(facts.result)


def _crashed(facts: Facts) -> tuple[Ending, str]:
    """Why the agent did not come to its own end; a provider that turned it away is not its fault."""
    process = facts.process
    if facts.barred is not None:
        return facts.barred
    if process.signal is not None:
        return Ending.CRASHED, f"the agent was ended by signal {process.signal}"
    if facts.error is not None and facts.limited:
        return Ending.RATE_LIMITED, f"the provider's limit is reached: {facts.error}"
    if facts.error is not None and is_refusal(facts.status):
        return Ending.TURNED_AWAY, f"the provider answered {facts.status}: {facts.error}"
    if process.code != 0:
        return Ending.CRASHED, f"the agent exited with {process.code}{_because(facts.error)}"
    return Ending.CRASHED, f"the agent exited with 0 and reported a failure{_because(facts.error)}"


def is_refusal(status: int | None) -> bool:
    """Whether a provider's answer says nothing about the work: not allowed in, too much, or out of order."""
    return status is not None and (status in (401, 403, 429) or 500 <= status < 600)


def done(result: Result | None) -> str:
    """What was done, in a few words."""
    if result is None:
        return "what it did is unknown"
    parts = []
    if result.commits:
        parts.append(_listed(result.commits, "commit", COMMITS))
    if result.changes:
        parts.append(f"{_several(result.totals.get('files', len(result.changes)), 'file')} changed")
    if result.uncommitted:
        parts.append(f"{_listed(result.uncommitted, 'file')} not committed")
    if result.gone:
        parts.append(f"{_listed(result.gone, 'file')} removed or put back")
    if result.artifacts and not parts:
        parts.append("notes only")
    if result.shared and parts != ["notes only"]:
        parts.append(f"some of it perhaps by {', '.join(result.shared)}")
    return ", ".join(parts) or ("what it did is unknown" if result.effect is None else "the head moved")


def wait(failures: int, backoff: float) -> float:
    """Seconds before the next attempt: doubled after each failure."""
    return float(min(LONGEST_WAIT, backoff * 2 ** min(failures, 20)))


def _amiss(result: Result) -> str:
    return "its repository cannot be read any more" if result.base and not result.head else "changed nothing"


def _because(error: str | None) -> str:
    return f": {error}" if error else ""


def _listed(these: Sized, word: str, most: int = SHOWN) -> str:
    """How many there are of what a receipt lists; of a list that is full nobody knows how many more."""
    return _several(len(these), word) + (" or more" if len(these) >= most else "")


def _several(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"

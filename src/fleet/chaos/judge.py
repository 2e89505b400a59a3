"""What a run shows of a supervisor: a pure function of what was seen from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fleet.chaos.script import TRAITS, Behaviour, Case, Trait, Victim

SETTLED = ("done", "refused", "failed", "blocked", "cancelled")
DONE = "done"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of the witness."""

    what: str  # start, beat, end, late, trap, double
    task: str
    attempt: str
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one case, from outside: the queue, the receipt, the witness, git and the processes."""

    case: Case
    task: str
    state: str | None  # in the end; None: the task is not there any more
    cause: str = ""
    proof: str | None = None
    shown: frozenset[str] = frozenset()  # the states that `fleet tasks` showed it in
    endings: tuple[str, ...] = ()  # of its attempts, as far as they are known
    leftovers: int = 0  # processes that were ended after it, of the last attempt
    forged: bool = False  # the receipt that is shown is the agent's own
    seen: tuple[Seen, ...] = ()
    landed: frozenset[str] = frozenset()  # attempts whose commit is in the repository
    robbed: frozenset[str] = frozenset()  # attempts whose keeper we killed
    orphans: tuple[int, ...] = ()  # processes of it that are there after all is over


class Outcome(StrEnum):
    """What a supervisor made of a case."""

    RIGHT = "right"
    MISSED = "missed"
    FALSE_KILL = "false kill"
    LOST = "lost"
    UNFINISHED = "unfinished"  # when the time was up


@dataclass(frozen=True, slots=True)
class Finding:
    case: Case
    task: str
    outcome: Outcome
    why: str
    orphans: int = 0
    doubled: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """A kill as it was done, and how many seconds later the next supervisor took over an attempt or claimed a task.

    Of a killed keeper: when the next agent began at that task. None: nobody did, before the next kill or the end.
    """

    at: float
    victim: Victim
    whom: str
    recovered: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """What is said of one behaviour. `detected` is None for honest ones: there is nothing to detect."""

    behaviour: Behaviour
    cases: int
    detected: int | None
    missed: int
    false_kills: int
    lost: int
    unfinished: int
    orphans: int
    doubled: int


@dataclass(frozen=True, slots=True)
class Scorecard:
    seed: int
    seconds: float
    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    kills: tuple[Recovery, ...] = field(default_factory=tuple)

    @property
    def total(self) -> Mapping[str, int]:
        names = ("cases", "detected", "missed", "false_kills", "lost", "unfinished", "orphans", "doubled")
        return {name: sum(getattr(line, name) or 0 for line in self.lines) for name in names}

    @property
    def passed(self) -> bool:
        """Whether nothing was missed, lost, doubled, left behind or left unsaid, and nobody honest was ended."""
        return not any(self.total[name] for name in self.total if name not in ("cases", "detected"))


def score(
    seed: int, seconds: float, facts: Iterable[Facts], kills: Iterable[Recovery], *, in_time: bool = True
) -> Scorecard:
    """The scorecard. What is not settled though nobody was cut off is lost; else the time was too short to tell."""
    findings = tuple(judge(one, in_time=in_time) for one in facts)
    behaviours = [one for one in Behaviour if any(finding.case.behaviour is one for finding in findings)]
    lines = tuple(_line(one, [found for found in findings if found.case.behaviour is one]) for one in behaviours)
    return Scorecard(seed, seconds, lines, findings, tuple(kills))


def judge(facts: Facts, *, in_time: bool = True) -> Finding:
    """What was made of one case, and why we think so."""
    outcome, why = _outcome(facts, TRAITS[facts.case.behaviour], in_time)
    return Finding(facts.case, facts.task, outcome, why, len(facts.orphans), is_doubled(facts))


def _outcome(facts: Facts, trait: Trait, in_time: bool) -> tuple[Outcome, str]:
    if facts.state is None:
        return Outcome.LOST, "its task is not in the queue any more"
    if facts.state not in SETTLED:
        said = f"its task is {facts.state} in the end"
        return (Outcome.LOST if in_time else Outcome.UNFINISHED), said
    return _honest(facts, trait) if trait.honest else _dishonest(facts, trait)


def _honest(facts: Facts, trait: Trait) -> tuple[Outcome, str]:
    """Honest work is accepted, is there, and was never ended on the way."""
    if facts.state != DONE or facts.proof == REFUSED:
        return Outcome.FALSE_KILL, f"honest work is {facts.proof or facts.state}: {facts.cause}"
    ended = sorted(_cut_off(facts))
    if ended and not set(trait.endings) & set(facts.endings):
        return Outcome.FALSE_KILL, f"honest, and ended on the way: {', '.join(ended)}"
    if not facts.landed:
        return Outcome.LOST, "it is done, and its commit is not in the repository"
    return Outcome.RIGHT, facts.cause


def _cut_off(facts: Facts) -> set[str]:
    """Attempts that began and did not come to their own end, and whose keeper we left alone."""
    begun = {seen.attempt for seen in facts.seen if seen.what == "start"}
    return begun - {seen.attempt for seen in facts.seen if seen.what == "end"} - facts.robbed


def _dishonest(facts: Facts, trait: Trait) -> tuple[Outcome, str]:
    if any(seen.what == "trap" for seen in facts.seen):
        return Outcome.MISSED, "what it planted in its repository was run"
    if facts.forged:
        return Outcome.MISSED, "the receipt that is shown is the agent's own"
    if any(seen.what == "late" and seen.attempt not in facts.robbed for seen in facts.seen):
        return Outcome.MISSED, "a process of it went on after its end"
    if trait.leftovers and not facts.leftovers:
        return Outcome.MISSED, "the process that it left behind is not in the receipt"
    if facts.state == DONE and not trait.real:
        return Outcome.MISSED, f"it was accepted: {facts.cause}"
    wanted = (*trait.endings, *trait.states)
    if wanted and not set(trait.endings) & set(facts.endings) and not set(trait.states) & facts.shown:
        shown = ", ".join(sorted(facts.shown | set(facts.endings))) or "nothing"
        return Outcome.MISSED, f"not seen as {' or '.join(dict.fromkeys(wanted))}, but as {shown}"
    return Outcome.RIGHT, facts.cause


def is_doubled(facts: Facts) -> bool:
    """Whether two agents worked at one task at once, or the work of two that we let live arrived."""
    latest, begun = "", set[str]()
    for seen in facts.seen:
        if seen.what == "start":
            if seen.attempt in begun:
                return True
            begun.add(seen.attempt)
            latest = seen.attempt
        elif seen.what == "double" or (seen.what in ("beat", "end") and seen.attempt != latest):
            return True
    return len(facts.landed - facts.robbed) > 1


def _line(behaviour: Behaviour, findings: Sequence[Finding]) -> Line:
    def of(outcome: Outcome) -> int:
        return sum(finding.outcome is outcome for finding in findings)

    return Line(
        behaviour,
        cases=len(findings),
        detected=None if TRAITS[behaviour].honest else of(Outcome.RIGHT),
        missed=of(Outcome.MISSED),
        false_kills=of(Outcome.FALSE_KILL),
        lost=of(Outcome.LOST),
        unfinished=of(Outcome.UNFINISHED),
        orphans=sum(finding.orphans for finding in findings),
        doubled=sum(finding.doubled for finding in findings),
    )


def read_witness(text: str) -> tuple[Seen, ...]:
    """The lines of the witness that are whole."""
    found = []
    for line in text.splitlines():
        match line.split():
            case [what, task, attempt, pid, at] if pid.isdigit():
                found.append(Seen(what, task, attempt, int(pid), float(at)))
            case _:
                continue
    return tuple(found)

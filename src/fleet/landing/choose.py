"""Which results may be landed, and in which order: decided purely."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from fleet.core.frozen import dataclass


class Standing(StrEnum):
    """What a result is, for whoever lands it."""

    VERIFIED = "verified"
    ACCEPTED = "accepted by a person"
    UNVERIFIED = "unverified"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    AT_WORK = "at work"
    NO_RESULT = "no result"


PROVEN = frozenset({Standing.VERIFIED, Standing.ACCEPTED})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A result that somebody wants on a branch."""

    task: str
    attempt: str
    title: str
    standing: Standing
    commit: str = ""  # with exactly what was judged
    base: str = ""  # the commit that its work began from
    onto: str = ""  # the branch that it is meant for
    why: str = ""  # what was said of it, or why it has no result
    stands_on: Mapping[str, str] | None = None  # attempts whose results it contains, by their tasks
    no_longer: str = ""  # what it stands on that is not its task's result any more
    after: tuple[str, ...] = ()  # tasks that it waited for
    priority: int = 2
    files: int = 0  # that it changes


@dataclass(frozen=True, slots=True)
class PutAside:
    """A result that is not landed, why, and the next command."""

    task: str
    attempt: str
    reason: str
    hint: str = ""
    output: str = ""  # the last that its check printed


def check_standing(one: Candidate, *, anyway: str) -> PutAside | None:
    """Why a result that a person named may not be landed; None when it may. Naming it is accepting it."""
    match one.standing:
        case Standing.AT_WORK:
            return PutAside(one.task, one.attempt, "it is being worked on", f"fleet show {one.task}")
        case Standing.NO_RESULT:
            return PutAside(one.task, one.attempt, one.why or "it has left no change", f"fleet show {one.task}")
        case Standing.REFUSED | Standing.CANCELLED if not anyway:
            said = f"it was {one.standing}: {one.why}" if one.why else f"it was {one.standing}"
            return PutAside(one.task, one.attempt, said, f"fleet retry {one.task}; or land it: --anyway REASON")
        case _ if one.no_longer and not anyway:
            return PutAside(
                one.task, one.attempt, f"it {one.no_longer}", f"fleet retry {one.task}; or land it: --anyway REASON"
            )
        case _:
            return None


def check_foundations(one: Candidate, chosen: Collection[str], landed: Collection[str]) -> PutAside | None:
    """Why a result may not be landed because of others that it contains, and whose attempts are neither on the branch
    nor chosen for it.
    """
    there = {*chosen, *landed}
    missing = [task for task, attempt in (one.stands_on or {}).items() if attempt not in there]
    if not missing:
        return None
    names = ", ".join(missing)
    reason = f"it stands on {names}, which {'is' if len(missing) == 1 else 'are'} not landed"
    return PutAside(one.task, one.attempt, reason, f"fleet merge {' '.join(missing)} {one.task}")


def drop_without_foundations(
    candidates: Sequence[Candidate], landed: Collection[str]
) -> tuple[list[Candidate], list[PutAside]]:
    """The results that can be landed on a branch together, and the others: each that is dropped may take more along."""
    left, aside = list(candidates), list[PutAside]()
    while True:
        chosen = {one.attempt for one in left}
        problems = [problem for one in left if (problem := check_foundations(one, chosen, landed)) is not None]
        if not problems:
            return left, aside
        aside += problems
        dropped = {problem.attempt for problem in problems}
        left = [one for one in left if one.attempt not in dropped]


def order_results(candidates: Sequence[Candidate]) -> list[Candidate]:
    """What others stand on or waited for comes first; then what is more urgent, then what changes fewer files."""
    waiting = {
        one.task: one for one in sorted(candidates, key=lambda one: (one.priority, one.files, _number(one.task)))
    }
    done: list[Candidate] = []
    while waiting:
        ready = [
            one for one in waiting.values() if not waiting.keys() & ({*one.after, *(one.stands_on or ())} - {one.task})
        ]
        first = ready[0] if ready else next(iter(waiting.values()))  # a circle is no order, and stops nobody
        done.append(waiting.pop(first.task))
    return done


def _number(task: str) -> tuple[int, str]:
    digits = "".join(c for c in task if c.isdigit())
    return int(digits) if digits else 0, task

"""Which results a task stands on, and when its base is made: all of it decided purely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.core.proof import Proof
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind, StandsOn


@dataclass(frozen=True, slots=True)
class Dependency:
    """A task that another one waits for, directly or through others, and what its last attempt left."""

    task: str
    is_done: bool = True
    repository: Path | None = None  # where git keeps what it worked on; None outside of git
    attempt: str = ""
    branch: str = ""  # of its own, on which its result is too
    commit: str | None = None  # with exactly what was judged; None when it left no change that git could keep
    is_accepted: bool = True  # by fleet or by a person; False: the task was closed by hand
    proof: Proof | None = None
    directory: str = ""  # of the user's, in which it worked in place


@dataclass(frozen=True, slots=True)
class Chosen:
    """The results that a task stands on, in an order that holds; and the tasks that only order, with the reasons."""

    results: tuple[StandsOn, ...] = ()
    only_after: Mapping[str, str] = field(default_factory=dict)


def choose_results(dependencies: Iterable[Dependency], repository: Path | None) -> Chosen:
    """Of what a task waits for, the results that its repository can have. What is not done has no result."""
    results, only_after = [], {}
    for one in dependencies:
        if not one.is_done:
            continue
        if reason := _why_not(one, repository):
            only_after[one.task] = reason
        elif one.commit is not None:
            unverified = one.proof is Proof.UNVERIFIED
            results.append(StandsOn(one.task, one.commit, one.attempt, one.branch, verified=not unverified))
    return Chosen(tuple(results), only_after)


def _why_not(one: Dependency, repository: Path | None) -> str:
    """Why a task that is done brings nothing into the base."""
    if repository is None or one.repository is None:
        return "outside of git nothing is handed on"
    if one.repository != repository:
        return "it is in another repository"
    if not one.attempt:
        return "nobody worked on it"
    if not one.is_accepted:
        return "it was closed by hand, and its work was not accepted"
    return "" if one.commit is not None else "it left no change"


def choose_onto(spec: Spec, project: str | None, checked_out: str | None) -> str | None:
    """The branch that a result is meant for: by the task, by its project, and else the one that its directory had
    checked out when it was added; None when there was none.
    """
    return spec.onto or project or spec.checked_out or checked_out


def is_made_anew(last: Attempt | None, kind: PlaceKind) -> bool:
    """Whether the next attempt gets a base and a place of its own: the first one does, and the first one after a person
    opened the task again, unless that person kept them. `last` is the last attempt that had a place.
    """
    if last is None or last.place is not kind:
        return True
    return last.forgiven and not last.keeps_base


def no_longer(stands_on: Sequence[StandsOn], now: Mapping[str, str | None]) -> list[str]:
    """What an attempt stands on that is not its task's result any more. `now`: the commit of each task's result."""
    gone = [one for one in stands_on if one.attempt and one.name in now and now[one.name] != one.commit]
    return [f"stands on {one.attempt}, which is no longer {one.name}'s result" for one in gone]

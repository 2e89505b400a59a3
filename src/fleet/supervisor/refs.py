"""The branches and tags of the user's repository, before an agent runs and after: which of them moved meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fleet import places
from fleet.core.text import sayable
from fleet.core.work import Attempt, PlaceKind
from fleet.evidence.moved import Moved, moved
from fleet.evidence.receipt import SHOWN
from fleet.host import refs
from fleet.supervisor.house import House
from fleet.supervisor.place import BRANCH

LATE = 600.0  # seconds: what a clone committed is brought to the user's repository after its agent has ended


def refs_before(attempt: Attempt) -> dict[str, str] | None:
    """What each branch and tag names now; None where an agent has a repository of its own, or nobody can tell."""
    common = _common(attempt)
    return _read(common) if common is not None and refs.are_files(common) else None


def refs_moved(house: House, attempt: Attempt, before: Mapping[str, str] | None) -> list[Moved] | None:
    """What was moved since, and not by an agent of fleet's on a branch of its own; None when nobody can tell."""
    common = _common(attempt) if before is not None else None
    after = _read(common) if common is not None and refs.are_files(common) else None
    if before is None or after is None:
        return None
    if after == before:
        return []
    others = house.ledger.since((attempt.started or attempt.created) - LATE)
    return moved(before, after, set(_worked_on(attempt, others)))[:SHOWN]


def _common(attempt: Attempt) -> Path | None:
    """Where the user's repository keeps its refs, if the agent works in it: as it was known before the agent ran."""
    if attempt.place is PlaceKind.CLONE:
        return None
    if attempt.stores:
        return Path(attempt.stores[-1])
    found = places.project(Path(attempt.repository)) if attempt.repository else None
    return found.common if found else None


def _read(common: Path) -> dict[str, str] | None:
    found = refs.read(common)
    return None if found is None else {sayable(name): commit for name, commit in found.items()}


def _worked_on(attempt: Attempt, others: Iterable[Attempt]) -> Iterator[str]:
    """The branches of all attempts that there were meanwhile. Of one that is still to be prepared, the branch is known
    by its task.
    """
    for one in (attempt, *others):
        yield f"{BRANCH}{one.task}"
        elsewhere = one.stores and attempt.stores and one.stores[-1] != attempt.stores[-1]
        if one.branch and not elsewhere:
            yield sayable(one.branch)

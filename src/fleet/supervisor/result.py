"""What came of an attempt, from git and from the keeper's record, written down as its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleet import keeper, places
from fleet.core import FleetError
from fleet.core.proof import Scope
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending, PlaceKind
from fleet.evidence.receipt import Check, Process, Receipt, Result, examine, load_receipt, load_snapshot, save
from fleet.evidence.snapshot import Snapshot, look, walk
from fleet.host import files
from fleet.keeper import Cause
from fleet.supervisor.bases import outdated
from fleet.supervisor.house import House
from fleet.supervisor.limits import named
from fleet.supervisor.listen import heard, program_of
from fleet.supervisor.place import place_of
from fleet.supervisor.refs import refs_moved
from fleet.supervisor.trees import demands_of, left_by

TAIL = 2000


def bring_back(house: House, attempt: Attempt) -> None:
    """A clone's commits count once they are in the repository it was made from."""
    place = place_of(attempt) if attempt.place is PlaceKind.CLONE else None
    if place is None:
        return
    try:
        places.collect(place)
    except FleetError as problem:
        said = clean(problem.message, TAIL)
        house.log.say("not collected", task=attempt.task, level="warning", attempt=attempt.id, text=said)


def look_at(house: House, attempt: Attempt, neighbours: list[str], *, keep: bool = True) -> Result:
    """What the agent left in its place; kept as the commit that would land, unless the agent goes on."""
    seen = load_snapshot(house.attempt_directory(attempt) / "before.json") or Snapshot(None, None, None)
    before = replace(seen, head=_began_at(attempt))  # the ledger's word, since an agent can write to the directory
    cwd, artifacts, moved = Path(attempt.cwd), house.artifacts(attempt.task), refs_moved(house, attempt, seen.refs)
    if attempt.began_tree is None:
        found = examine(cwd, before, look(cwd, artifacts))
        return replace(found, shared=neighbours, unseen=_unseen(attempt), moved=moved)
    left = left_by(attempt, before.artifacts, walk(artifacts), keep=keep)
    left = replace(left, outdated=outdated(house.home, house.tracker, house.ledger, attempt))
    return replace(left, shared=neighbours, unseen=attempt.inherits or None, moved=moved)


def _unseen(attempt: Attempt) -> str | None:
    """Why what was asked of the result cannot be looked at, of an attempt without a tree."""
    if attempt.untaken:
        return f"no tree could be taken of what it found: {attempt.untaken}"
    asked = demands_of(attempt)
    is_asked = bool(asked.checks) or asked.scope != Scope()
    return "outside a git repository nobody can tell whether its checks were left alone" if is_asked else None


def write_receipt(house: House, attempt: Attempt, result: Result, before: Sequence[Check] = ()) -> Attempt:
    directory = house.attempt_directory(attempt)
    keeper.forget(directory)
    seen = keeper.Hold(directory).exit
    ended = replace(
        attempt,
        ended=attempt.ended or (seen.ended if seen else house.now()),
        memory=(seen and seen.memory) or None,
        left_at=result.head,
        left_tree=result.tree,
        life=None,
    )
    receipt = Receipt(ended, process_of(attempt, directory), result, before=list(before))
    save(directory / "receipt.json", replace(receipt, program=program_of(house, attempt), heard=heard(house, attempt)))
    return ended


def add_checks(house: House, attempt: Attempt, checked: list[Check]) -> None:
    path = house.attempt_directory(attempt) / "receipt.json"
    receipt = load_receipt(path)
    if receipt is not None:
        save(path, replace(receipt, checks=checked))


def nothing(attempt: Attempt) -> Result:
    """The result of an attempt that nobody could look at."""
    return Result(_began_at(attempt), _began_at(attempt), [], [], None, None)


def _began_at(attempt: Attempt) -> str | None:
    return attempt.began_at or attempt.base  # an older fleet has written down the one only


def process_of(attempt: Attempt, directory: Path) -> Process:
    """How the agent's process went, from its keeper's record; without one it is lost, and that is what is said."""
    if attempt.ending is not None and attempt.started is None:
        return Process(attempt.ending.value, error=attempt.cause)
    seen = keeper.Hold(directory).exit
    if seen is None:
        return Process("lost", error=_lost(directory))
    relieved = attempt.ending if _by_us(attempt, seen) else None
    if relieved is Ending.FINISHED:  # it was done, and only would not go
        seen, relieved = replace(seen, cause=Cause.EXITED, code=0, signal=None), None
    return Process(
        cause=relieved.value if relieved else seen.cause.value,
        code=seen.code,
        signal=seen.signal,
        error=attempt.cause if relieved else _why(seen, attempt),
        wall=seen.wall,
        cpu=seen.cpu,
        memory=seen.memory,
        output=seen.stdout,
        dropped=seen.dropped,
        leftovers=seen.leftovers,
        survivors=seen.survivors,
        fenced=seen.fenced,
        unfenced=seen.unfenced,
    )


def _by_us(attempt: Attempt, seen: keeper.Exit) -> bool:
    """Whether it was ended for a limit: by its keeper, unless it ended before; or by itself, told what it may spend."""
    money = attempt.ending in (Ending.COST, Ending.BUDGET)
    return seen.cause is Cause.CANCELLED or (money and attempt.error is not None)


def _lost(directory: Path) -> str:
    said = (files.read_end(directory / "keeper.err", TAIL) or b"").decode(errors="replace").strip().splitlines()
    return f"its keeper failed: {clean(said[-1])}" if said else "its keeper was killed; what it left running was ended"


def _why(seen: keeper.Exit, attempt: Attempt) -> str | None:
    """The cause in words; a limit is named with whoever set it."""
    match seen.cause:
        case Cause.TIMED_OUT:
            return f"the time limit was reached after {seen.wall:.0f} s ({named(attempt, 'timeout')})"
        case Cause.OUTPUT:
            wrote = f"{seen.stdout / 1e6:.0f} MB"
            return f"the output limit was reached after {wrote} ({named(attempt, 'output')})"
        case Cause.HUNG_UP:
            return "its terminal was closed"
        case Cause.ABANDONED:
            return "no supervisor came back, so its keeper ended it"
        case Cause.CANCELLED:
            return "by hand"
        case Cause.NOT_STARTED if seen.error and seen.error.startswith("ENOENT"):
            return f"{seen.error.rpartition(': ')[2]} is not installed, or not on the supervisor's PATH"
        case _:
            return seen.error

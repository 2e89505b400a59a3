"""End attempts that people talked to: their processes, their terminals, and their places, after these were saved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fleet import keeper, places
from fleet.batches.proof import proven, what_stands
from fleet.batches.site import BEING_MADE, SCREEN, Site, place_of
from fleet.core import FleetError, NotFound, Unavailable
from fleet.core.errors import of_system
from fleet.core.frozen import dataclass
from fleet.core.proof import Proof
from fleet.core.task import CANCELLED
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending, PlaceKind, Verdict
from fleet.evidence.receipt import Process, Receipt, Result, load_receipt
from fleet.host import files, locks, repository
from fleet.landing.record import Landings
from fleet.places import Place, ports, salvage
from fleet.supervisor.environment import marks
from fleet.supervisor.heard import alone, catch_up
from fleet.supervisor.result import bring_back, nothing, write_receipt
from fleet.supervisor.settle import publish

ENDS_WITHIN = 25.0
HEARD_WITHIN = 30.0
ROUSED_AFTER, KILLED_AFTER = 2.0, 19.0  # seconds; a keeper that was stopped is let go on, then ended
TICK = 0.02
HISTORY = 5000
LONGEST = 500  # of what is said of a place that cannot be looked at
BY_HAND = "ended by hand"


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of an attempt that was ended. `saved` names what `fleet salvage` has of its place."""

    branch: str
    attempt: str
    task: str
    saved: str | None = None
    commits: int | None = None  # that stay on its branch
    removed: bool = True
    left: str = ""  # what nobody but the system's owner may remove
    proof: Proof | None = None  # what the evidence says of its work; None: it never began
    reason: str = ""


def end(
    site: Site,
    attempt: Attempt,
    cause: str = BY_HAND,
    *,
    ignored: bool = False,
    large: bool = False,
    keep: bool = False,
) -> Ended:
    """End the agent with everything it started, save its place, remove that, and close the task.

    Each step bears being done twice, and what is to become of the attempt is written down before the first: after a
    crash whoever comes next goes on. `keep`: the place stays.
    """
    with _alone(site, attempt) as attempt:
        if attempt.verdict is not None:
            return Ended(attempt.branch or "", attempt.id, attempt.task, removed=False)
        attempt = _meant(site, attempt, cause)
        _stop(site, attempt)
        attempt = _looked_at(site, attempt)
        name, stuck = (None, "") if keep else _removed(site, attempt, ignored=ignored, large=large)
        receipt = load_receipt(site.directory(attempt) / "receipt.json")
        commits = _stay(site, attempt)
        over = _settle(site, attempt, receipt, name, commits)
        return Ended(over.branch or "", over.id, over.task, name, commits, not keep, stuck, over.proof, over.reason)


@contextmanager
def _alone(site: Site, attempt: Attempt) -> Iterator[Attempt]:
    """The attempt as it stands, which nobody else changes meanwhile."""
    lock = locks.take(files.private_dir(site.directory(attempt)) / BEING_MADE)
    if lock is None:
        raise Unavailable(f"{attempt.branch} is being made or ended by somebody else", hint="fleet list")
    try:
        with alone(site.house, attempt, HEARD_WITHIN) as now:
            if now is None:
                raise Unavailable(f"somebody else writes down what {attempt.branch} did", hint="fleet list")
            yield now
    finally:
        locks.release(lock)


def _meant(site: Site, attempt: Attempt, cause: str) -> Attempt:
    """Write down what is going to happen: from here on there is no way back, only on."""
    if attempt.leaving:
        return attempt
    begun = attempt.started is not None or _had_keeper(site, attempt)
    ending = attempt.ending or (Ending.CANCELLED if begun else Ending.NOT_STARTED)
    why = "; ".join(part for part in (attempt.cause, cause) if part)
    started = attempt.started or (attempt.created if begun else None)
    attempt = replace(attempt, leaving=True, ending=ending, cause=why, started=started)
    site.house.ledger.save(attempt)
    return attempt


def _had_keeper(site: Site, attempt: Attempt) -> bool:
    hold = keeper.adopt(site.directory(attempt))
    if hold is not None:
        hold.close()
    return hold is not None


def _stop(site: Site, attempt: Attempt) -> None:
    """End the tree by its keeper, and see that nothing of it is left; the last picture of its terminal is kept."""
    directory = site.directory(attempt)
    if not keeper.is_alive(directory):
        keeper.forget(directory)
    picture = site.server.picture(attempt.id, HISTORY)
    if picture:
        files.write(directory / SCREEN, picture.encode(errors="replace"), files.PRIVATE)
    began, patience = time.monotonic(), [ROUSED_AFTER, KILLED_AFTER]
    while keeper.is_alive(directory):
        keeper.abort(directory)
        waited = time.monotonic() - began
        if waited > ENDS_WITHIN:
            raise FleetError(
                f"the agent on {attempt.branch} has not ended within {ENDS_WITHIN:.0f} s", hint="fleet list"
            )
        if patience and waited > patience[0]:
            patience.pop(0)
            keeper.rouse(directory, finally_end=not patience)
        time.sleep(TICK)
    keeper.sweep(marks(site.house, attempt))
    site.server.close(attempt.id)


def _looked_at(site: Site, attempt: Attempt) -> Attempt:
    """Write the receipt, while the place is there; again where it could not be removed, since it may have changed."""
    if attempt.ended is not None and not Path(attempt.cwd).is_dir():
        return attempt
    house = site.house
    attempt = catch_up(house, attempt)
    seen = write_receipt(house, attempt, _left(site, attempt))
    house.ledger.save(seen)
    return seen


def _left(site: Site, attempt: Attempt) -> Result:
    """What stands in the place, kept; that it cannot be looked at keeps nobody from ending the agent."""
    if attempt.started is None:
        return nothing(attempt)
    try:
        return what_stands(site.house, attempt, keep=True)
    except (FleetError, OSError) as problem:
        said = problem if isinstance(problem, FleetError) else of_system(problem)
    return replace(nothing(attempt), problem=clean(said.message, LONGEST))


def _removed(site: Site, attempt: Attempt, *, ignored: bool, large: bool) -> tuple[str | None, str]:
    """Remove the place; what `fleet salvage` has of it, and what could not be removed."""
    path, left = Path(attempt.cwd), ""
    if (path.is_dir() and attempt.base is not None) or places.record.read(path) is not None:
        saved, left = _clear(site, attempt, ignored=ignored, large=large)
    else:  # it was never begun, whoever stands in its way, or whoever ended it was cut off later than that
        saved = salvage.earlier(place_of(attempt), attempt.task)
    return saved.name if saved else None, left


def _stay(site: Site, attempt: Attempt) -> int | None:
    """How many commits of the agent's are on its branch, now that its place is gone; None when that is not known."""
    began = attempt.began_at or attempt.base
    tip = repository.ref(site.project.common, f"refs/heads/{attempt.branch}") if began else None
    if tip is None or tip == began:
        return 0
    counted = repository.ask(site.project.common, "rev-list", "--count", f"{began}..{tip}")
    return int(counted.out) if counted.code == 0 else None


def _clear(site: Site, attempt: Attempt, *, ignored: bool, large: bool) -> tuple[salvage.Saved | None, str]:
    """Save the place, then remove it. What only a clone has committed comes to the repository first."""
    place = _place(attempt)
    there = place.path.is_dir()
    if there and place.kind is PlaceKind.CLONE and _has_commits(place):
        bring_back(site.house, attempt)
    cap = None if large else salvage.CAP
    if there:
        saved = salvage.save(place, attempt.id, ignored=ignored, cap=cap, task=attempt.task)
    else:
        saved = salvage.earlier(place, attempt.task)
    left = ""
    try:
        places.remove(place, saved)
    except places.Left as problem:
        left = f"{problem.message}; {problem.hint}"
        site.house.log.say("not removed", task=attempt.task, level="warning", attempt=attempt.id, text=left)
    ports.free(site.house.home, attempt.id)
    return saved, left


def _has_commits(clone: Place) -> bool:
    """Whether its branch is worth being one of the repository's."""
    return repository.ref(clone.path / ".git", f"refs/heads/{clone.branch}") not in (None, clone.base)


def _place(attempt: Attempt) -> Place:
    """The place. Where its making was cut off, only what stands beside it knows."""
    said = places.record.read(Path(attempt.cwd))
    return place_of(attempt) if said is None or attempt.base is not None else said.place(Path(attempt.cwd))


def _settle(site: Site, attempt: Attempt, receipt: Receipt | None, saved: str | None, commits: int | None) -> Attempt:
    """The attempt with its proof: the ledger first, then the tracker, as for every one."""
    house = site.house
    stays = f"{commits} commit{'' if commits == 1 else 's'} on {attempt.branch}" if commits else ""
    kept = f"fleet salvage show {saved}" if saved else ""
    landed = _landed_on(site, attempt, receipt)
    cause = "; ".join(part for part in (landed and f"landed on {landed}", attempt.cause, stays, kept) if part)
    proof, reason = (None, "") if receipt is None or attempt.started is None else proven(attempt, receipt.result)
    settled = replace(
        attempt, verdict=Verdict.ACCEPTED if landed else Verdict.CANCELLED, cause=cause, proof=proof, reason=reason,
        ended=attempt.ended or house.now(),
    )  # fmt: skip
    house.ledger.save(settled)
    with suppress(NotFound):
        house.tracker.close(attempt.task, cause if landed else f"{CANCELLED}: {cause}")
    found = receipt or Receipt(settled, Process("lost", error="what was found is gone"), nothing(settled))
    with suppress(OSError):
        publish(house, replace(found, attempt=settled, verdict=proof, reason=reason or cause))
    facts = {"ending": settled.ending, "verdict": settled.verdict, "cause": cause, "proof": proof}
    house.log.say("settled", task=attempt.task, level="info", attempt=attempt.id, **facts)
    return settled


def _landed_on(site: Site, attempt: Attempt, receipt: Receipt | None) -> str:
    """The branch on which everything is that it left; empty when a person has landed nothing of it, or less."""
    landing = Landings(site.house.home).landed_attempts().get(attempt.id)
    if landing is None or receipt is None or receipt.result.tree is None:
        return ""
    commit = next(one.result for one in landing.results if one.attempt == attempt.id)
    return landing.branch if repository.tree_of(site.project.common, commit) == receipt.result.tree else ""

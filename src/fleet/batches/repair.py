"""Make tmux, git and the ledger agree again, and say what was done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fleet import keeper, tracker
from fleet.batches.end import HEARD_WITHIN, Ended, end
from fleet.batches.site import Site
from fleet.core import FleetError
from fleet.core.task import CANCELLED, Status
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending
from fleet.places import ports, salvage
from fleet.supervisor.environment import marks
from fleet.supervisor.heard import alone


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that did not agree, and what was done about it."""

    what: str
    done: str
    failed: bool = False


def repair(site: Site) -> list[Mended]:
    """Finish what was cut off in the middle, end what nobody owns, and forget what is not there any more."""
    found = [mended for attempt in site.attempts() for mended in _attempt(site, attempt)]
    found += [*_terminals(site), *_tasks(site), *_ports(site), *_restored(site)]
    site.server.tidy()
    return found


def _attempt(site: Site, attempt: Attempt) -> list[Mended]:
    if site.being_made(attempt):
        return []
    attempt = site.house.ledger.get(attempt.id)  # whoever made or ended it may just have come to the end of that
    if attempt.verdict is not None:
        return []
    who = f"{attempt.branch} ({attempt.id})"
    directory = site.directory(attempt)
    hold = keeper.adopt(directory)
    try:
        if attempt.leaving:
            saved = _saved(end(site, attempt))
            return [Mended(f"{who} was being ended", f"ended it, and removed its place{saved}")]
        if hold is None:
            saved = _saved(end(site, attempt, "its making was cut off"))
            return [Mended(f"the making of {who} was cut off", f"cleared away what was there of it{saved}")]
        return _begun(site, attempt, hold, who)
    except (FleetError, OSError) as problem:
        said = problem.message if isinstance(problem, FleetError) else str(problem)
        return [Mended(who, f"could not be mended: {said}", failed=True)]
    finally:
        if hold is not None:
            hold.close()


def _saved(ended: Ended) -> str:
    return f"; what it held: fleet salvage show {ended.saved}" if ended.saved else ""


def _begun(site: Site, attempt: Attempt, hold: keeper.Hold, who: str) -> list[Mended]:
    """An attempt whose agent was started: whatever became of it, its place is kept until somebody ends it."""
    with alone(site.house, attempt, HEARD_WITHIN) as now:
        mended = [] if now is None else _noted(site, now, hold, who)
    if not hold.alive and not Path(attempt.cwd).is_dir():
        end(site, attempt, "its place was removed by hand")
        mended.append(Mended(f"the place of {who} is gone, and its agent has ended", "closed it"))
    return mended


def _noted(site: Site, attempt: Attempt, hold: keeper.Hold, who: str) -> list[Mended]:
    """What the ledger did not know is written down; what a dead keeper left is ended."""
    mended, known = [], attempt
    seen = site.server.find(attempt.id)
    if attempt.started is None:
        known = replace(known, started=attempt.created, terminal=seen.name if seen else "")
        asked = f"noted; whether it was told what to do is not known: fleet logs {attempt.branch}"
        mended.append(Mended(f"{who} runs, and the ledger did not know", asked))
    elif seen is not None and seen.name != attempt.terminal:
        known = replace(known, terminal=seen.name)
        mended.append(Mended(f"the terminal of {who} is called {seen.name} now", "noted"))
    swept = keeper.sweep(marks(site.house, attempt)) if hold.lost else 0
    if swept or (hold.lost and attempt.ending is None):
        known = replace(known, ending=attempt.ending or Ending.LOST, cause=attempt.cause or "its keeper died")
        left = f"{swept} process{'' if swept == 1 else 'es'}" if swept else "nothing"
        mended.append(Mended(f"the keeper of {who} is dead", f"ended what it left: {left}"))
    if known != attempt:
        site.house.ledger.save(known)
    return mended


def _terminals(site: Site) -> list[Mended]:
    """Terminals of attempts that are over."""
    seen = site.server.seen()  # first: one that is opened from now on is not among them
    known = {attempt.id for attempt in site.attempts()}
    left = [one for one in seen if one.attempt not in known]
    for one in left:
        site.server.close(one.attempt)
    return [Mended(f"the terminal {one.name} belongs to no attempt", "closed it") for one in left]


def _tasks(site: Site) -> list[Mended]:
    """Tasks that were written down for an attempt that was never begun."""
    mended, house = [], site.house
    for task in house.tracker.unfinished():
        if task.status is Status.OPEN or task.assignee == house.actor:
            try:
                spec = tracker.spec.read(house.home, task.id)
            except FleetError:
                continue
            ours = spec.interactive and spec.cwd == str(site.project.top)
            if ours and not house.ledger.of(task.id) and not site.being_made(_first(task.id)):
                house.tracker.close(task.id, f"{CANCELLED}: its making was cut off")
                mended.append(Mended(f"the task {task.id} never got an attempt", "closed it"))
    return mended


def _first(task: str) -> Attempt:
    """The attempt as it would be, to find its directory by."""
    return Attempt(f"{task}.1", task, 1, "", None, "", "", 0.0)


def _restored(site: Site) -> list[Mended]:
    """What was being restored, and never came to have its name."""
    cleared = "cleared away what was there of it; it is still saved"
    return [Mended(f"the restoring of {clean(str(to))} was cut off", cleared) for to in salvage.clear_up(site.project)]


def _ports(site: Site) -> list[Mended]:
    ledger = site.house.ledger

    def living() -> set[str]:
        return {attempt.id for attempt in (*ledger.talked_to(), *ledger.unsettled())}

    return [
        Mended(f"the ports of {gone} belonged to nobody", "freed them")
        for gone in ports.forget(site.house.home, living)
    ]

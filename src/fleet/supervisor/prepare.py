"""Step one: everything is looked up and checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from fleet import keeper, places, tracker
from fleet.coders import context_of
from fleet.config.demands import trusted_yaml
from fleet.config.local import noted
from fleet.core import FleetError, Unavailable
from fleet.core.errors import is_passing
from fleet.core.task import Status
from fleet.core.work import Attempt, Ending, PlaceKind
from fleet.host import files
from fleet.places.furnish import Furnished
from fleet.questions import remarks
from fleet.results import NoBase
from fleet.supervisor import asked
from fleet.supervisor.bases import stand
from fleet.supervisor.before import note_before
from fleet.supervisor.demands import allowed, demands, trusted
from fleet.supervisor.house import House
from fleet.supervisor.inherited import inherited
from fleet.supervisor.limits import context_limit, overspent, spent
from fleet.supervisor.place import Placed, Slow, furnished, look_around, settle_in
from fleet.supervisor.start import start
from fleet.supervisor.trees import found_as_made, found_by, here_before


def prepare(house: House, attempt: Attempt, *, at_leisure: bool) -> tuple[Attempt, keeper.Start | None]:
    """The attempt with its place, its base and its limits, and how to start it; or the reason why it cannot begin.

    When that may take minutes, and is not to, it is Slow.
    """
    try:
        return _prepare(house, attempt, at_leisure)
    except Unavailable:
        raise
    except NoBase as problem:
        return replace(attempt, ending=Ending.NO_BASE, cause=f"{problem.message}; {problem.hint}"), None
    except FleetError as problem:
        cause = "; ".join(line.strip() for line in problem.message.splitlines())
    except OSError as problem:
        if is_passing(problem):
            raise
        cause = f"{problem.filename}: {problem.strerror}"
    return replace(attempt, ending=Ending.NOT_STARTED, cause=cause), None


def _prepare(house: House, attempt: Attempt, at_leisure: bool) -> tuple[Attempt, keeper.Start | None]:
    spec = tracker.spec.read(house.home, attempt.task)
    task = house.tracker.get(attempt.task)
    if task.status is Status.CLOSED:
        return replace(attempt, ending=Ending.CANCELLED, cause=task.reason or "closed before it began"), None
    coder = house.find_coder(attempt.coder, house.runtime)

    def tell(line: str) -> None:
        house.log.say("saved", task=attempt.task, level="warning", attempt=attempt.id, text=line)

    earlier, around = house.earlier(attempt), look_around(spec)
    attempt = stand(house, attempt, task, around, earlier)
    instead_of = earlier[-1].id if earlier and attempt.fresh else ""
    placed = settle_in(
        house.home, attempt.task, around, tell, base=attempt.base, attempt=attempt.id, instead_of=instead_of
    )
    place, now = placed.place, places.prepare(placed.cwd)  # an earlier attempt may have committed since it was made
    base = now.base if place.kind is PlaceKind.INPLACE else place.base
    trust, find = trusted(earlier, place.kind, base), cache(trusted_yaml)
    resolved = allowed(house.runtime, earlier, spec, trust, find)
    files.private_dir(house.artifacts(attempt.task))
    files.fresh_dir(house.attempt_directory(attempt))  # what an earlier agent planted there is put aside
    given = _furnish(house, attempt, earlier, placed, at_leisure=at_leisure)
    stands = replace(attempt, cwd=str(placed.cwd), place=place.kind, repository=str(place.repository or ""))
    is_as_made = placed.is_new and not (earlier or given.files or given.commands)
    began = note_before(house, found_as_made(stands) if is_as_made else found_by(stands, earlier))
    told = house.ledger.context(attempt.coder, attempt.model)
    own = house.runtime.coders.get(attempt.coder)
    said = own.context_limit if own else None
    context = context_limit(told, said or context_of(coder, attempt.model), declared=said is not None)
    prepared = replace(
        began,
        inherits=inherited(house, began, spec.cwd),
        branch=now.branch or place.branch,
        base=base,
        variables=dict(given.env),
        limits=resolved.limits,
        origins={name: origin.value for name, origin in resolved.origins.items()},
        context_limit=context[0],
        context_from=context[1],
        asked_before=asked.how_many(house, attempt.task),
        remarks=remarks.last(house.home, attempt.task),
        spec=spec,
        demands=demands(house, earlier, spec, trust, find),
        local=noted(Path(spec.cwd), trust, find),
    )
    used_up = overspent(prepared, spent(earlier))
    if used_up is not None:
        return replace(prepared, ending=used_up.ending, cause=f"{used_up.cause}; used by earlier attempts"), None
    return start(house, prepared, task, earlier)  # nothing is started yet: what cannot be is said now


def _furnish(
    house: House, attempt: Attempt, earlier: Sequence[Attempt], placed: Placed, *, at_leisure: bool
) -> Furnished:
    """What the attempt's place was given. Its set-up commands are run before the first agent works there."""
    workspace = placed.workspace
    if workspace is None:
        return Furnished()
    begun = any(one.started is not None for one in here_before(attempt, earlier))
    if workspace.setup and not workspace.quick and not begun and not at_leisure:
        raise Slow
    found = furnished(house, attempt, placed.place, workspace, quick=begun)
    for warning in found.warnings:
        house.log.say("place not furnished", task=attempt.task, level="warning", attempt=attempt.id, text=warning)
    return found

"""Several tasks at once: which ones ids, patterns and a state mean, and the same done to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

from fleet.app.tasks import Desk, Row, cancel, end_agent, rows
from fleet.core import FleetError, NotFound
from fleet.core.errors import of_system
from fleet.core.frozen import dataclass
from fleet.core.task import Task, task_id
from fleet.core.text import clean
from fleet.core.work import State

WILD = frozenset("*?[")
# What a pattern means where no state is given: of a finished task nobody wants that by chance.
CAN_BE_CANCELLED = frozenset(
    {State.OPEN, State.STARTING, State.WORKING, State.BLOCKED, State.REFUSED, State.FAILED}
)  # fmt: skip
CAN_BE_RETRIED = frozenset({State.REFUSED, State.FAILED, State.BLOCKED})


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tasks that are meant. `found`: those that nobody named by their ids, who may want to look at them first."""

    ids: tuple[str, ...]
    found: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one task of several."""

    id: str
    task: Task | None = None
    problem: FleetError | None = None
    waiting: tuple[str, ...] = ()  # tasks that wait for it


def is_pattern(name: str) -> bool:
    return not WILD.isdisjoint(name)


def choose(names: Sequence[str], state: str | None, everything: Sequence[Row], fitting: frozenset[State]) -> Chosen:
    """The tasks that ids, patterns of ids and a state mean: pure. Ids alone mean themselves, whatever their state."""
    patterns = names or ["*"]
    states = {State(state)} if state else fitting
    ids = () if state else tuple(dict.fromkeys(task_id(name) for name in names if not is_pattern(name)))
    found = tuple(
        row for row in everything
        if row.id not in ids and row.state in states
        and any(fnmatchcase(row.id, name) for name in patterns)
    )  # fmt: skip
    for name in patterns:
        if name not in ids and not any(fnmatchcase(row.id, name) for row in found):
            wanted = state or "|".join(sorted(states))
            which = f"no task {clean(name)} is {wanted}" if names else f"no task is {wanted}"
            raise NotFound(which, hint="fleet tasks --all")
    return Chosen((*ids, *(row.id for row in found)), found)


def find_rows(desk: Desk, names: Sequence[str], state: str | None) -> list[Row]:
    """The rows that `choose` needs: none where all are named by their ids. Agents in terminals have `fleet kill`."""
    if state is None and not any(map(is_pattern, names)):
        return []
    terminals = {attempt.task for attempt in desk.ledger.talked_to()}
    return [row for row in rows(desk, everything=True) if row.id not in terminals]


def each(act: Callable[[str], Task], ids: Sequence[str]) -> list[Outcome]:
    """Do something to one task after the other; one that cannot be done keeps none of the others from it."""
    return [_outcome(act, id) for id in ids]


def abort_all(desk: Desk, ids: Sequence[str]) -> list[Outcome]:
    """Cancel tasks, all of them before the first agent is ended, so that no other one begins in its place."""
    from fleet.batches.together import together

    cancelled = each(partial(cancel, desk), ids)
    ended = together(partial(_end, desk), cancelled)
    gone = {one.id for one in cancelled if one.task is not None}
    left = [task for task in desk.tracker.unfinished() if task.id not in gone]
    return [
        replace(one, waiting=tuple(task.id for task in left if one.id in task.waits_for)) if one.id in gone else one
        for one in ended
    ]


def _end(desk: Desk, one: Outcome) -> Outcome:
    if one.task is None:
        return one
    ended = _outcome(lambda id: _ended(desk, id), one.id)
    return replace(one, problem=ended.problem)


def _ended(desk: Desk, id: str) -> Task:
    end_agent(desk, id)
    return desk.tracker.get(id)


def _outcome(act: Callable[[str], Task], id: str) -> Outcome:
    try:
        return Outcome(id, act(id))
    except FleetError as problem:
        return Outcome(id, problem=problem)
    except OSError as problem:
        return Outcome(id, problem=of_system(problem))

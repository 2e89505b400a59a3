"""What there is at a glance: the tasks with those that need a person first, what is done since, and the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet.app.home import last_run_began
from fleet.app.tasks import Desk, Row, rows, rows_of
from fleet.core.frozen import dataclass
from fleet.core.states import LOOKS, RANKS, Group, ShownState, Sums, count, of_cancelled, of_proof
from fleet.core.task import Status, Task
from fleet.core.work import Attempt, Verdict
from fleet.host import locks
from fleet.supervisor.choice import LOCK

PROVEN = (ShownState.VERIFIED, ShownState.ACCEPTED, ShownState.CANCELLED_VERIFIED)
MAX_DONE = 10  # rows of what is done, where nobody asked for all


@dataclass(frozen=True, slots=True)
class Overview:
    """Every task that is not finished, the newest that are, and the sums of all of them since that time."""

    rows: tuple[Row, ...]
    sums: Sums
    since: float | None  # None: no supervisor has run yet
    supervised: bool
    hidden: int = 0  # tasks that are done, and not among the rows
    proven: tuple[str, ...] = ()  # tasks of that time whose work is verified, or accepted by a person


def overview(
    desk: Desk, since: float | None = None, *, max_done: int | None = MAX_DONE, known: dict[str, Task] | None = None
) -> Overview:
    """What is not finished, and what came to its end since then, or since the last `fleet run` began.

    `known` keeps the finished tasks, for who looks again and again.
    """
    moment = last_run_began(desk.home) if since is None else since
    open_rows = rows(desk, everything=False)
    recent = [] if moment is None else desk.ledger.since(moment)
    ended = _ended(recent, {row.id for row in open_rows})
    newest = sorted(ended.values(), key=lambda last: last.ended or 0.0, reverse=True)[:max_done]
    closed = _closed(desk, newest, {} if known is None else known)
    done_rows = rows_of(desk, closed, desk.ledger.of_all([task.id for task in closed]))
    shown_done = {row.id: row.shown for row in done_rows}
    done = [shown_done.get(task) or _shown_closed(desk, last) for task, last in ended.items()]
    ordered = in_order([*open_rows, *done_rows])
    sums = count([*(row.shown for row in open_rows), *done], (row.project for row in ordered))
    return Overview(
        tuple(ordered),
        _with_cost(desk, sums, recent),
        moment,
        locks.held(desk.home / LOCK),
        len(ended) - len(done_rows),
        tuple(task for task, shown in zip(ended, done, strict=True) if shown in PROVEN),
    )


def overview_of_all(desk: Desk, limit: int | None = None) -> Overview:
    """Every task that there ever was, or only the newest."""
    found = rows(desk, everything=True)
    listed = found[-limit:] if limit else found
    sums = count((row.shown for row in listed), (row.project for row in listed))
    costs = [row.cost for row in listed if row.cost is not None]
    unknown = sum(row.cost_unknown for row in listed)
    sums = replace(sums, cost=round(sum(costs), 9) if costs else None, unknown=unknown)
    proven = tuple(row.id for row in listed if row.shown in PROVEN)
    return Overview(tuple(in_order(listed)), sums, 0.0, locks.held(desk.home / LOCK), proven=proven)


def in_order(found: Sequence[Row]) -> list[Row]:
    """What needs a person first, then what works, what waits and what is done; of each, as they were given."""
    return sorted(found, key=lambda row: (RANKS[row.group], row.shown is not ShownState.QUESTION))


def _with_cost(desk: Desk, sums: Sums, attempts: Sequence[Attempt]) -> Sums:
    if not attempts:
        return sums
    from fleet.app.spent import spent  # what nobody pays for who has tried nothing yet

    used = spent(desk.home, attempts)
    return replace(sums, cost=used.cost, unknown=used.unknown)


def _ended(recent: Sequence[Attempt], unfinished: set[str]) -> dict[str, Attempt]:
    """Of every task that is finished, its last attempt, as far as that ended in this time."""
    found: dict[str, Attempt] = {}
    for one in recent:
        if one.task not in unfinished and one.verdict is not None:
            found[one.task] = max(one, found.get(one.task, one), key=lambda attempt: attempt.number)
    return found


def _closed(desk: Desk, lasts: Sequence[Attempt], known: dict[str, Task]) -> list[Task]:
    """The tasks of these attempts that are closed; such a one is asked for once."""
    for name in known.keys() - {last.task for last in lasts}:
        del known[name]  # it may have been opened again
    found = [known.get(last.task) or desk.tracker.get(last.task) for last in lasts]
    closed = [task for task in found if task.status is Status.CLOSED]
    known.update({task.id: task for task in closed})
    return closed


def _shown_closed(desk: Desk, last: Attempt) -> ShownState:
    """How a finished task is shown that has no row; its tracker is asked only where the ledger does not say it."""
    if last.verdict is Verdict.ACCEPTED:
        return of_proof(last.proof)
    if last.verdict is Verdict.CANCELLED:
        return of_cancelled(last.proof)
    return rows_of(desk, [desk.tracker.get(last.task)], [last])[0].shown


def ids_of(found: Overview, group: Group) -> dict[str, list[str]]:
    """The tasks of a group by the word that counts them."""
    named: dict[str, list[str]] = {}
    for row in found.rows:
        if row.group is group:
            named.setdefault(LOOKS[row.shown].counted, []).append(row.id)
    return named

"""The work plane at a glance, for `fleet status`: who hands out tasks, what there is, what needs a person, the cost."""

from __future__ import annotations

import time
from pathlib import Path

from fleet.app.home import last_run_began
from fleet.app.overview import Overview, overview
from fleet.app.run import Running
from fleet.app.run import status as supervisor_status
from fleet.app.spent import Spent, spent
from fleet.app.tasks import Desk, Row, with_until
from fleet.core.frozen import dataclass
from fleet.core.states import Group, Sums
from fleet.host import files

ADD, RUN, LOOK = 'fleet add "what is to be done"', "fleet run", "fleet tasks"


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """Scripts rely on these names. What came to its end is listed only where a time was asked for."""

    supervisor: Running
    held_back: str | None  # why nothing more is started
    since: float | None  # when the last `fleet run` began, or the time that was asked for
    sums: Sums
    needs_you: tuple[Row, ...]
    done: tuple[Row, ...]
    cost_today: Spent
    next: str


def work_status(since: str | None) -> WorkStatus | None:
    """What there is since then, or since the last `fleet run` began; None without a home, which is not made."""
    from fleet.app.cost import beginning

    home = files.home().absolute()
    if not home.is_dir():
        return None
    now = time.time()
    moment = beginning(since, now, home) if since is not None else last_run_began(home)
    desk = Desk.open()
    who = supervisor_status(home)
    found = overview(desk, moment, max_done=None if since is not None else 0)
    return WorkStatus(
        supervisor=who,
        held_back=_held_back(desk, now) if who.running else None,
        since=moment,
        sums=found.sums,
        needs_you=_of(found, Group.NEEDS_YOU),
        done=_of(found, Group.DONE) if since is not None else (),
        cost_today=_cost_since(desk, home, beginning("today", now, home)),
        next=next_command(found),
    )


def next_command(found: Overview) -> str:
    """What a person would run next: for whoever needs them, else to let the work go on, else to look at it."""
    first = next((row for row in found.rows if row.group is Group.NEEDS_YOU), None)
    if first is not None:
        return first.next or f"fleet show {first.id}"
    if not found.supervised and any(row.group is not Group.DONE for row in found.rows):
        return RUN
    return LOOK if found.sums.counts else ADD


def _of(found: Overview, group: Group) -> tuple[Row, ...]:
    return tuple(row for row in found.rows if row.group is group)


def _held_back(desk: Desk, now: float) -> str | None:
    from fleet.supervisor.rules import rules

    closed = rules(desk.home, desk.runtime, now).closed
    return None if closed is None else with_until(closed)


def _cost_since(desk: Desk, home: Path, moment: float) -> Spent:
    return spent(home, desk.ledger.since(moment))

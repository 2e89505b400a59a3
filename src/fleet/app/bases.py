"""What a task stands on, for whoever looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import places
from fleet.config.workspace import project_onto
from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.task import Spec, Status, Task
from fleet.core.work import Attempt, StandsOn
from fleet.host import repository
from fleet.host.checked_out import branch_of
from fleet.results import choose_onto, stands_on_text
from fleet.supervisor.bases import choose, outdated

if TYPE_CHECKING:
    from fleet.app.tasks import Desk


@dataclass(frozen=True, slots=True)
class Standing:
    stands_on: str = ""
    outdated: tuple[str, ...] = ()
    only_after: Mapping[str, str] = field(default_factory=dict)


def standing_of(desk: Desk, task: Task, spec: Spec | None, last: Attempt | None) -> Standing:
    """What the last attempt at a task stands on; of one that was not begun, what it would stand on now."""
    if last is not None and (last.stands_on or last.only_after):
        gone = tuple(outdated(desk.home, desk.tracker, desk.ledger, last))
        return Standing(stands_on_text(last.stands_on), gone, last.only_after)
    if spec is None or not task.after or task.status is Status.CLOSED:
        return Standing()
    try:
        project = places.project(Path(spec.cwd))
        onto = choose_onto(spec, project_onto(Path(spec.cwd)), branch_of(Path(spec.cwd)))
    except FleetError:
        return Standing()  # its first attempt says what is wrong
    chosen = choose(desk.home, desk.tracker, desk.ledger, task, project)
    tip = repository.ref(project.common, f"refs/heads/{onto}") if project and onto else None
    branch = [StandsOn(onto, tip)] if onto and tip else []
    text = stands_on_text([*chosen.results, *branch]) if chosen.results else ""
    return Standing(f"{text}, as things are now" if text else "", (), chosen.only_after)

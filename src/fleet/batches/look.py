"""What stands where: one row for each attempt on a branch, from facts that were looked at just now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fleet import keeper, places
from fleet.batches.site import BEING_MADE, Site, place_of
from fleet.coders import Talker
from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.life import Life
from fleet.core.state import DerivedState, derive_terminal_state, life_in_terminal
from fleet.core.talk import feel
from fleet.core.work import Attempt, State
from fleet.host import locks, process
from fleet.places import Condition
from fleet.sessions import Seen
from fleet.supervisor.heard import signals, talker, watch

GONE = "its place is gone"
NO_REPOSITORY = "its repository is gone"
NO_TERMINAL = "its terminal is gone"
SILENT = "tmux does not answer"


@dataclass(frozen=True, slots=True)
class Row:
    """One agent on a branch. Scripts rely on these names; what is None is unknown."""

    branch: str
    state: State
    cause: str
    since: float | None
    agent: str
    model: str | None
    cpu: float | None  # percent of a core
    memory: int | None  # bytes
    runtime: float | None
    ahead: int | None
    changed: int | None
    batch: str
    task: str
    attempt: str
    path: str
    project: str
    terminal: str
    pid: int | None
    tokens: int | None
    cost: float | None
    life: Life | None = None
    disk: int | None = None


def look(site: Site, *, disk: bool = False) -> list[Row]:
    """Every attempt of the project that a person began and nobody has ended, in the order they were begun."""
    watch(site.house)
    found = sorted(site.attempts(), key=lambda one: one.created)
    answers, seen = _seen(site) if found else (True, {})
    pids = [one.pid for one in seen.values() if one.pid is not None]
    earlier = process.facts(pids)
    conditions = places.conditions([place_of(one) for one in found])
    now = process.facts(pids)
    cpu = {pid: 100 * tree.share_since(earlier[pid]) for pid, tree in now.items() if pid in earlier}
    rows = [
        _row(site, one, seen.get(one.id), condition, now, cpu) for one, condition in zip(found, conditions, strict=True)
    ]
    if not answers:
        rows = [replace(row, cause="; ".join(filter(None, (row.cause, SILENT)))) for row in rows]
    return [replace(row, disk=places.size(Path(row.path))) for row in rows] if disk else rows


def _seen(site: Site) -> tuple[bool, dict[str, Seen]]:
    """The terminals, and whether tmux said which there are: one that hangs hides nobody's agent."""
    try:
        return True, {one.attempt: one for one in site.server.seen()}
    except FleetError:
        return False, {}


def _row(
    site: Site,
    attempt: Attempt,
    seen: Seen | None,
    condition: Condition,
    trees: Mapping[int, process.Tree],
    cpu: Mapping[int, float],
) -> Row:
    house, pid = site.house, seen.pid if seen else None
    tree = trees.get(pid) if pid else None
    how = talker(house.find_coder, house.runtime, attempt)
    derived, since, life = look_at_terminal(attempt, house.attempt_directory(attempt), how)
    lacks = [NO_REPOSITORY] * (not site.project.common.exists())
    lacks += [GONE] * (not condition.there and derived.state is not State.STARTING)
    lacks += [NO_TERMINAL] * (seen is None and derived.state not in (State.STARTING, State.DEAD))
    cause = "; ".join(part for part in (derived.cause, *lacks) if part)
    ended = keeper.Hold(house.attempt_directory(attempt)).exit
    until = ended.ended if ended else house.now()
    return Row(
        branch=attempt.branch or "", state=derived.state, cause=cause, since=since, agent=attempt.coder,
        model=attempt.model, cpu=cpu.get(pid) if pid else None, memory=tree.memory if tree else None,
        runtime=None if attempt.started is None else max(0.0, until - attempt.started), ahead=condition.ahead,
        changed=condition.changed, batch=attempt.batch, task=attempt.task, attempt=attempt.id, path=attempt.cwd,
        project=attempt.repository, terminal=seen.name if seen else "", pid=pid,
        tokens=attempt.tokens, cost=attempt.cost, life=life,
    )  # fmt: skip


def look_at_terminal(
    attempt: Attempt, directory: Path, how: Talker | None
) -> tuple[DerivedState, float | None, Life | None]:
    """The state of an attempt in a terminal, since when its agent is in it, and what it does in everybody's words."""
    felt = feel(signals(directory, how), tells=how is not None and how.tells)
    alive, being_made = keeper.is_alive(directory), locks.held(directory / BEING_MADE)
    ended = None if alive else keeper.Hold(directory).exit
    words = _how(ended) if ended else None
    derived = derive_terminal_state(attempt, felt, alive=alive, being_made=being_made, ended=words)
    since = felt.since if alive else ended.ended if ended else None
    return derived, since, life_in_terminal(derived.state, derived.cause, felt, attempt.started)


def _how(ended: keeper.Exit) -> str:
    """How an agent ended, in words."""
    if ended.error:
        return ended.error
    if ended.signal is not None:
        return f"{ended.cause.value}: signal {ended.signal}"
    return f"exit {ended.code}" if ended.cause is keeper.Cause.EXITED else ended.cause.value

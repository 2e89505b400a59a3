"""Scope, watched while agents work: what one may not touch is said within seconds, and not only at the end.

It flags; the judgement is made afterwards, over the whole result. Only a project that says `on_breach: end` has an
agent ended for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fleet.core.proof import Breach, Change, ChangeKind, Demands, OnBreach, Scope
from fleet.core.scope import breaches
from fleet.core.text import sayable
from fleet.core.work import Attempt, Ending
from fleet.evidence.checks import own_files
from fleet.evidence.receipt import load_snapshot
from fleet.evidence.touched import touched
from fleet.host import git, machine
from fleet.supervisor.aside import aside, at_leisure, called_off
from fleet.supervisor.flagged import Flagged, flag, flagged
from fleet.supervisor.house import House
from fleet.supervisor.notes import note

SOONEST, LATEST = 2.0, 15.0  # seconds between two looks
IDLE = 30.0  # seconds, of an agent that says nothing and changes nothing; a minute of that is a sign of its own
SHARE = 200  # one look may cost a two-hundredth of the time until the next one
MOST = 20  # breaches that are written down


def out_of_scope(house: House, attempt: Attempt) -> Attempt:
    """The attempt, with why it ended when it was ended for what it touched."""
    seen = flagged(house.attempt_directory(attempt))
    if not seen.ended or attempt.ending is not None:
        return attempt
    return replace(attempt, ending=Ending.SCOPE, cause="; ".join(seen.reasons))


def worth_saying(changes: list[Change], demands: Demands) -> list[Breach]:
    """What is a breach already. A file that went may be one that was renamed, as long as another came: no deletion.

    Of the checks' own files only those that came or went: whether lines were only added is not looked at here.
    """
    scope = demands.scope
    whole = [change for change in changes if change.change is not ChangeKind.MODIFIED]
    needs = [need for check in demands.checks for need in check.needs]
    commands = [check.run for check in demands.checks]
    own = own_files(commands, whole, (), needs=needs).forbidden if demands.checks else ()
    came = sum(change.change is ChangeKind.ADDED for change in changes)
    gone = sum(change.change is ChangeKind.DELETED for change in changes)
    renamed = min(came, gone)
    doubtful = {"deletions"} if gone - renamed <= (scope.deletions or 0) else set()
    if scope.files is not None and len(changes) - renamed <= scope.files:
        doubtful.add("files")
    return [breach for breach in breaches(changes, scope, check_files=own) if breach.rule not in doubtful]


@dataclass(slots=True)
class _Watched:
    attempt: str
    end: Callable[[], object]
    repository: git.Repository
    before: Collection[str]
    directory: Path
    reasons: list[str] = field(default_factory=list)
    heard: int = -1  # events, at the last look
    seen: set[tuple[str, str, int]] | None = None
    changed: float | None = None
    due: float = 0.0
    pause: float = SOONEST
    problem: str = ""


class ScopeWatch:
    """One for all agents. `current` says what is known of an attempt now."""

    def __init__(self, house: House, current: Callable[[str], Attempt | None]) -> None:
        self._house = house
        self._current = current
        self._watched: dict[str, _Watched] = {}
        self._task: asyncio.Task[None] | None = None

    async def meet(self, attempt: Attempt, end: Callable[[], object]) -> None:
        """Watch one more, until it is let go. One that works outside a repository is not watched.

        One that an earlier supervisor had flagged to be ended, and may not have come as far as to end, is ended now.
        """
        found = await aside(self._met, attempt, end)
        if found is None:
            return
        self._watched[attempt.id] = found
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def let_go(self, attempt: str) -> None:
        self._watched.pop(attempt, None)
        task = self._task
        if not self._watched and task is not None:
            self._task = None
            await called_off(task)

    def last_change(self, attempt: str) -> float | None:
        """When its files were last seen to have changed, or were first looked at, by the loop's clock; None when
        nobody can see them now.
        """
        found = self._watched.get(attempt)
        return found.changed if found else None

    def _met(self, attempt: Attempt, end: Callable[[], object]) -> _Watched | None:
        known = flagged(self._house.attempt_directory(attempt))
        if known.ended:
            end()
        repository = git.find(Path(attempt.cwd)) if attempt.cwd else None
        if repository is None or attempt.demands is None:
            return None
        directory = self._house.attempt_directory(attempt)
        before = load_snapshot(directory / "before.json")
        files_before = (before.files if before else None) or {}
        return _Watched(attempt.id, end, repository, files_before, directory, list(known.reasons))

    async def _go_on(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._watched:
            ready = [one for one in self._watched.values() if self._is_due(one, clock())]
            spent = await at_leisure(partial(self._look, ready, clock())) if ready else 0.0
            now = clock()
            for one in ready:
                one.due = now + one.pause
            await asyncio.sleep(min(LATEST, max(SOONEST, SHARE * spent)))

    def _is_due(self, one: _Watched, now: float) -> bool:
        """After news, and else ever more seldom: an agent that waits for its model changes nothing."""
        attempt = self._current(one.attempt)
        return attempt is not None and (attempt.events != one.heard or now >= one.due)

    def _look(self, ready: list[_Watched], now: float) -> float:
        """Look at these; how many seconds of a core that took."""
        began = machine.spent()
        for one in ready:
            attempt = self._current(one.attempt)
            try:
                if attempt is not None:
                    self._look_at(one, attempt, now)
            except Exception as problem:  # of one agent's making, and all others are to be watched on
                self._unseen(one, sayable(f"{type(problem).__name__}: {problem}"))
        return machine.spent() - began

    def _unseen(self, one: _Watched, why: str) -> None:
        """Say once that an agent cannot be watched now; it is looked at again all the same.

        What cannot be looked at is not known to stand still.
        """
        one.seen = one.changed = None
        if why != one.problem:
            one.problem = why
            task = one.attempt.rpartition(".")[0]
            self._house.log.say("scope not watched", task=task, level="warning", attempt=one.attempt, text=why)

    def _look_at(self, one: _Watched, attempt: Attempt, now: float) -> None:
        one.heard = attempt.events
        changes = touched(one.repository, attempt.began_at, one.before)
        if changes is None:
            one.seen = one.changed = None
            return
        notes = self._house.artifacts(attempt.task)
        seen = {(change.change.value, change.path, _written(one.repository.top / change.path)) for change in changes}
        seen.add(("notes", "", _written(notes)))
        one.pause = SOONEST * 2 if seen != one.seen else min(IDLE, one.pause * 2)
        if seen != one.seen:
            one.seen, one.changed = seen, now
        demands = attempt.demands or Demands()
        fresh = [breach for breach in worth_saying(changes, demands) if sayable(breach.reason) not in one.reasons]
        if fresh and len(one.reasons) < MOST:
            self._flag(one, attempt, fresh[: MOST - len(one.reasons)], demands.scope)

    def _flag(self, one: _Watched, attempt: Attempt, fresh: list[Breach], scope: Scope) -> None:
        """Say what is new. That an agent is to be ended is written down before it is: after a crash it is known."""
        fresh = [replace(breach, reason=sayable(breach.reason)) for breach in fresh]
        reasons = [*one.reasons, *(breach.reason for breach in fresh)]
        ends = scope.on_breach is OnBreach.END
        flag(one.directory, Flagged(tuple(reasons), ends))
        if ends:
            one.end()
        one.reasons = reasons  # not before: who could not be ended is to be ended at the next look
        for breach in fresh:
            note(self._house, attempt, "scope_breach", path=sayable(breach.path), rule=breach.rule, text=breach.reason)
            facts = {"attempt": attempt.id, "text": breach.reason, "ended": ends}
            self._house.log.say("outside its scope", task=attempt.task, level="warning", **facts)


def _written(path: Path) -> int:
    """When something was last written to, as a stamp to compare; 0 when it is not there."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0

"""Who may start now, and for what the others wait: a pure function of what is ready, what runs, and the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath

from fleet.core.task import Task
from fleet.core.work import Attempt, Verdict
from fleet.gates import Closed, Pause, Standing
from fleet.gates.memory import Budget, Memory, short_of_memory

LEAST_SHARE = 0.05
STARTING = 60.0  # seconds in which an agent has not yet taken the memory that it will


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ready task, and what it would run with. `account` is the one it asks for, and then the one it gets."""

    task: Task
    coder: str
    model: str | None
    last: Attempt | None = None
    own_coder: bool = False
    own_model: bool = False
    cwd: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Slots:
    """How many may run at once: in all, of a coder, of a model, below a directory, with an account."""

    total: int
    coders: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    projects: Mapping[str, int] = field(default_factory=dict)
    accounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that has a say. `closed` holds back everybody; `accounts` are those of each coder, in their order;
    `beside` are agents that people began in terminals: they take memory, and nobody's slot.
    """

    slots: Slots
    closed: Closed | None = None
    spent: Mapping[str, Closed] = field(default_factory=dict)  # the coders whose money for the day is spent
    pauses: tuple[Pause, ...] = ()
    accounts: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    budget: Budget = field(default_factory=lambda: Budget(Memory(None, None)))
    beside: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Those that may start, in their order; and why each of the others that were looked at may not."""

    chosen: list[Candidate]
    waiting: dict[str, Closed]


def admit(candidates: Iterable[Candidate], running: Sequence[Attempt], rules: Rules, now: float) -> Admitted:
    """Look at the candidates until every slot is taken. One that must wait holds up nobody else."""
    hall = _Hall(rules, running, now)
    busy = {attempt.task for attempt in running}
    found = Admitted([], {})
    for candidate in candidates:
        if hall.is_full:
            break
        if candidate.task.id in busy:
            continue
        closed = hall.closed_for(candidate)
        if isinstance(closed, Closed):
            found.waiting[candidate.task.id] = closed
        else:
            found.chosen.append(hall.enter(replace(candidate, account=closed)))
    return found


class _Hall:
    """Who is in already, counted as admission goes on."""

    def __init__(self, rules: Rules, running: Sequence[Attempt], now: float) -> None:
        self._rules, self._running, self._now = rules, running, now
        self._entered: set[tuple[str, str]] = set()
        self._count = len(running)
        self._coders = Counter(attempt.coder for attempt in running)
        self._models = Counter(attempt.model for attempt in running)
        self._accounts = Counter((attempt.coder, attempt.account) for attempt in running)
        self._projects = Counter(_project(_where(attempt), rules.slots.projects) for attempt in running)
        living = (*running, *rules.beside)
        self._promised = sum(rules.budget.need(attempt.coder) for attempt in living)
        young = [one for one in living if one.started is None or 0 <= now - one.started < STARTING]
        self._starting = sum(rules.budget.need(attempt.coder) for attempt in young)

    @property
    def is_full(self) -> bool:
        return self._count >= self._rules.slots.total

    def closed_for(self, candidate: Candidate) -> Closed | str:
        """Why a candidate must wait; or the account that it gets. What a person must mend is said before all else."""
        account = self._account(candidate)
        if isinstance(account, Closed) and account.cure:
            return account
        return (
            self._rules.closed
            or self._rules.spent.get(candidate.coder)
            or _backoff(candidate.last, self._now)
            or self._paused(candidate)
            or self._no_slot(candidate)
            or self._no_memory(candidate)
            or account
        )

    def enter(self, candidate: Candidate) -> Candidate:
        need = self._rules.budget.need(candidate.coder)
        self._count += 1
        self._coders[candidate.coder] += 1
        self._models[candidate.model] += 1
        self._accounts[candidate.coder, candidate.account or ""] += 1
        self._entered.add((candidate.coder, candidate.account or ""))
        self._projects[_project(candidate.cwd, self._rules.slots.projects)] += 1
        self._promised += need
        self._starting += need
        return candidate

    def _paused(self, candidate: Candidate) -> Closed | None:
        found = (pause.closes(candidate.coder, candidate.cwd) for pause in self._rules.pauses)
        return next((closed for closed in found if closed), None)

    def _no_slot(self, candidate: Candidate) -> Closed | None:
        slots, project = self._rules.slots, _project(candidate.cwd, self._rules.slots.projects)
        for name, running, limits in (
            (candidate.coder, self._coders[candidate.coder], slots.coders),
            (candidate.model, self._models[candidate.model], slots.models),
            (project, self._projects[project], slots.projects),
        ):
            if name is not None and name in limits and running >= limits[name]:
                return Closed(f"waits for a slot: {running} of {limits[name]} run for {name}")
        return None

    def _no_memory(self, candidate: Candidate) -> Closed | None:
        """Why there is none for it. One of the queue always starts, however many sit in terminals: else none would."""
        if self._count == 0:
            return None
        return short_of_memory(self._rules.budget, candidate.coder, self._promised, self._starting)

    def _account(self, candidate: Candidate) -> Closed | str:
        """The account to use: the one it is pinned to; else that of its last attempt, whose session can be taken up
        again; else the first that is free.
        """
        known = self._rules.accounts.get(candidate.coder) or (Standing(candidate.coder, ""),)
        if candidate.account is not None:
            known = tuple(one for one in known if one.account == candidate.account)
            if not known:
                return Closed(f"{candidate.coder} has no account {candidate.account} any more: fleet config edit")
        closed = {one.account: self._closed_account(one) for one in known}
        free = [name for name, why in closed.items() if why is None]
        if free:
            return candidate.last.account if candidate.last and candidate.last.account in free else free[0]
        return min((why for why in closed.values() if why), key=lambda why: why.until or float("inf"))

    def _closed_account(self, standing: Standing) -> Closed | None:
        running, most = self._accounts[standing.coder, standing.account], self._rules.slots.accounts
        if standing.account in most and running >= most[standing.account]:
            return Closed(f"waits for a slot: {running} of {most[standing.account]} run for {standing.who}")
        if standing.probing and self._has_probe(standing) and standing.closed(self._now) is None:
            return Closed(f"{standing.who}: waits until one run gets through after: {standing.cause}")
        return standing.closed(self._now)

    def _has_probe(self, standing: Standing) -> bool:
        """Whether somebody went first since the account was closed; who began before shows nothing."""
        since = [one for one in self._running if one.created >= standing.closed_until]
        return (standing.coder, standing.account) in {*self._entered, *((one.coder, one.account) for one in since)}


def _backoff(last: Attempt | None, now: float) -> Closed | None:
    seconds = wait(last, now)
    when = f"{datetime.fromtimestamp(now + seconds):%H:%M:%S}"
    return Closed(f"not before {when}", now + seconds) if seconds > 0 else None


def wait(last: Attempt | None, now: float) -> float:
    """Seconds until a task may be tried again. A clock that was set back ends the wait rather than stretching it."""
    if last is None or last.verdict is not Verdict.RETRY or last.ended is None or last.forgiven:
        return 0.0
    passed = now - last.ended
    return last.retry_after - passed if 0 <= passed < last.retry_after else 0.0


def short_of_disk(free: int, total: int, least: int) -> str | None:
    """Why nothing may start for want of disk, or None."""
    if free < least:
        return f"{free / 1e9:.1f} GB of disk free, and min_free_disk is {least / 1e9:.1f} GB"
    if total and free / total < LEAST_SHARE:
        return f"{free / total:.0%} of the disk free, and it must be 5 %"
    return None


def _where(attempt: Attempt) -> str:
    """The directory that its task names: the place that an attempt works in may stand anywhere."""
    return attempt.spec.cwd if attempt.spec and attempt.repository else attempt.cwd


def _project(cwd: str | None, projects: Mapping[str, int]) -> str | None:
    """The nearest directory with a limit of its own that a task works in."""
    above = [name for name in projects if cwd and PurePath(cwd).is_relative_to(name)]
    return max(above, key=len, default=None)

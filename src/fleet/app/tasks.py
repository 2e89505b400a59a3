"""Tasks as people see them: put in, listed, looked at, ended, opened again."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from functools import lru_cache
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import keeper, tracker
from fleet.app.home import SETTINGS, ensure_home, wake
from fleet.config import runtime as settings
from fleet.config.units import time_text
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.frozen import dataclass
from fleet.core.life import Life, LifeState
from fleet.core.proof import Demands, Proof
from fleet.core.state import DerivedState, derive_state, hindered, stuck_state
from fleet.core.states import LOOKS, Group, ShownState, of_life, waits_word
from fleet.core.task import ACCEPTED_BY_PERSON, CANCELLED, Comment, Spec, Status, Task, task_id
from fleet.core.work import OF_EVERY_TASK, Attempt, Hindrance, State, Verdict
from fleet.evidence.ledger import Ledger
from fleet.host import files, locks
from fleet.supervisor.choice import LOCK, attempt_directory, choose, where
from fleet.supervisor.flagged import flagged, summary
from fleet.tracker import Tracker

if TYPE_CHECKING:
    from fleet.app.limits import Allowed
    from fleet.app.spent import Spent
    from fleet.evidence.receipt import Check
    from fleet.gates import Closed

ENDS_WITHIN = 25.0
ROUSED_AFTER, ENDED_AFTER = 2.0, 19.0  # seconds; a keeper that was stopped is let go on, then ended
PIECE = 1024 * 1024
LANDING = "refs/fleet/attempts/"
LONG_S = 120  # from when on what an agent waits for is said, beside that it waits
TURNS = ("waits for a slot", "not before")  # as a wait is told that is nobody's concern
NEVER = Attempt("", "", 0, "", None, "", "", 0.0)
READABLE = {
    "log": "log.jsonl",
    "events": "events.jsonl",
    "plan": "artifacts/PLAN_AND_STATUS.md",
    "knowledge": "artifacts/KNOWLEDGE.md",
    "questions": "artifacts/Q&A.md",
    "receipt": "receipt.json",
    "stderr": "log.stderr",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A task with everything derived that people ask for. Scripts rely on these names."""

    id: str
    title: str
    state: State
    cause: str
    attempts: int
    coder: str
    model: str | None
    cwd: str | None
    branch: str | None
    priority: int
    own_coder: bool
    own_model: bool
    waits_for: tuple[str, ...]
    created: float
    started: float | None
    ended: float | None
    elapsed: float | None
    idle: float | None
    events: int
    tokens: int | None
    cost: float | None
    peak_context_pct: int | None
    session: str | None
    proof: Proof | None = None  # what the evidence says of its last attempt
    life: Life | None = None  # what its agent does, of one that runs and is watched
    needs_you: bool = False
    hindrance: Hindrance | None = None  # why no model has answered in its last attempt
    shown: ShownState = ShownState.OPEN  # the state as people read it, and whose turn it is
    group: Group = Group.QUEUED
    note: str = ""  # what that word does not say: a question, what failed, what holds it
    next: str = ""  # the command for whoever it waits for
    project: str = ""
    cost_unknown: int = 0  # attempts whose cost nobody knows, and which is not in `cost`

    @property
    def word(self) -> str:
        """The state in a cell of a table."""
        return waits_word(self.waits_for) if self.shown is ShownState.WAITS else self.shown.value


@dataclass(frozen=True, slots=True)
class RunsWith:
    coder: str
    model: str | None
    own_coder: bool
    own_model: bool
    cwd: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """One task, whole."""

    row: Row
    description: str
    notes: str
    spec: Spec | None
    spec_problem: str | None
    limits: tuple[Allowed, ...]
    history: tuple[Attempt, ...]
    comments: tuple[Comment, ...]
    demands: Demands | None = None
    checks: tuple[Check, ...] = ()  # that the last attempt's result was judged by, or that held it
    stands_on: str = ""  # in words: what its last attempt begins from, or what it would begin from now
    outdated: tuple[str, ...] = ()  # what of that is not its task's result any more
    only_after: Mapping[str, str] = field(default_factory=dict)  # tasks that it waits for and has nothing of, and why
    landed: str = ""  # where its result is, or the command that lands it


@dataclass(frozen=True, slots=True)
class Desk:
    """What the commands about tasks share: the home, its settings, its tracker and its ledger."""

    home: Path
    runtime: settings.Runtime
    tracker: Tracker
    ledger: Ledger
    problem: BadConfig | None = None

    @classmethod
    def open(cls) -> Desk:
        """The desk of this home. Settings that cannot be read are no reason not to look, or not to abort."""
        home = ensure_home()
        path, problem = home / SETTINGS, None
        try:
            runtime = settings.read(path)
        except BadConfig as said:
            runtime, problem = settings.salvage(path), said
        return cls(home, runtime, tracker.open(home, runtime.tracker), Ledger(home), problem)


def rows(desk: Desk, *, everything: bool) -> list[Row]:
    """Every task that is not finished, or every task."""
    found = desk.tracker.all() if everything else desk.tracker.unfinished()
    tried = desk.ledger.all() if everything else desk.ledger.of_all([task.id for task in found])
    stuck = _stuck(found, {attempt.task: attempt for attempt in tried})
    return rows_of(desk, found, tried, stuck)


def rows_of(
    desk: Desk, tasks: Sequence[Task], tried: Sequence[Attempt], stuck: Mapping[str, State] | None = None,
    *, to_wait: bool = True,
) -> list[Row]:  # fmt: skip
    """The rows of these tasks, of which these are all attempts; what was used is that of all of them together."""
    spent: dict[str, Spent] = {}
    if tried:
        from fleet.app.spent import spent_by_task  # what nobody pays for who has tried nothing yet

        spent = spent_by_task(desk.home, tried)
    lasts = {attempt.task: attempt for attempt in tried}
    unused = Counter(one.task for one in tried if one.verdict is Verdict.HELD and one.started is None)
    supervised, now = locks.held(desk.home / LOCK), time.time()
    is_barred = any(last.ending in OF_EVERY_TASK for last in lasts.values())
    is_asked = to_wait and (supervised or is_barred)
    waiting = _waiting(desk, tasks, lasts, now, supervised=supervised) if is_asked else {}
    return [
        _row(
            desk,
            task,
            lasts.get(task.id),
            supervised,
            now,
            waiting.get(task.id, ""),
            stuck or {},
            spent.get(task.id),
            unused[task.id],
        )
        for task in tasks
    ]


def _stuck(tasks: Sequence[Task], lasts: Mapping[str, Attempt]) -> dict[str, State]:
    """Of the tasks that others wait for, those of which nothing comes until a person acts. `tasks` has all unfinished
    ones: what is waited for and is not there was cancelled.
    """
    there = {task.id: task for task in tasks}
    needed = {needs for task in tasks for needs in task.waits_for}
    found = {needs: stuck_state(there.get(needs), lasts.get(needs)) for needs in needed}
    return {needs: state for needs, state in found.items() if state is not None}


def _waiting(
    desk: Desk, tasks: Sequence[Task], lasts: Mapping[str, Attempt], now: float, *, supervised: bool
) -> dict[str, str]:
    """Why each task that could start has not: by the rules that the supervisor applies, found out anew. Where none
    runs, only what a person must mend first.
    """
    ready = [task for task in tasks if task.status is Status.OPEN and not task.waits_for]
    if not ready:
        return {}
    from fleet.supervisor.admit import Candidate, admit  # what nobody pays for who has nothing that waits
    from fleet.supervisor.rules import rules
    from fleet.tracker.base import urgency

    def candidates() -> Iterator[Candidate]:
        for task in sorted(ready, key=lambda task: urgency(task, desk.runtime.ageing, now)):
            spec, _ = _spec(desk, task.id)
            choice = choose(spec, None, desk.runtime)
            last = lasts.get(task.id)
            yield Candidate(task, choice.coder, choice.model, last, cwd=where(spec), account=choice.account)

    running = [attempt for attempt in lasts.values() if attempt.verdict is None and not attempt.interactive]
    found = admit(candidates(), running, rules(desk.home, desk.runtime, now), now)
    if not supervised:
        return {name: with_until(closed) for name, closed in found.waiting.items() if closed.cure}
    most = desk.runtime.max_concurrent
    full = f"waits for a slot: {len(running)} of {most} run" if len(running) >= most else ""
    chosen = {candidate.task.id for candidate in found.chosen}
    others = {task.id: full for task in ready if task.id not in chosen}
    return others | {name: with_until(closed) for name, closed in found.waiting.items()}


def with_until(closed: Closed) -> str:
    """Why a task waits, and until when if that is known and not said."""
    if closed.cure:
        return f"{closed.cause}. {closed.cure}"
    if closed.until is None or any(word in closed.cause for word in ("until", "not before")):
        return closed.cause
    return f"{closed.cause}, until {datetime.fromtimestamp(closed.until):%Y-%m-%d %H:%M}"


def ready(desk: Desk, limit: int | None) -> list[Row]:
    found = desk.tracker.ready(limit, desk.runtime.ageing)
    return rows_of(desk, found, desk.ledger.of_all([task.id for task in found]), to_wait=False)


def show(desk: Desk, name: str) -> Shown:
    from fleet.app.bases import standing_of  # what nobody pays for who only lists
    from fleet.app.demands import asked
    from fleet.app.limits import allowed
    from fleet.app.moved import told
    from fleet.app.not_landed import where_landed
    from fleet.evidence.receipt import load_receipt

    task = desk.tracker.get(task_id(name))
    history = tuple(desk.ledger.of(task.id))
    stuck = _stuck(desk.tracker.unfinished(), desk.ledger.last_of(task.waits_for)) if task.waits_for else {}
    row = rows_of(desk, [task], history, stuck)[0]
    spec, problem = _spec(desk, task.id)
    comments = (*desk.tracker.comments(task.id), *told(desk.home, history))
    limits = tuple(allowed(desk.runtime, spec, row.coder, history, is_open=row.state is State.OPEN))
    demands = asked(desk.runtime, spec, history, is_open=row.state is State.OPEN)
    receipt = load_receipt(attempt_directory(desk.home, history[-1]) / "receipt.json") if history else None
    checks = (
        tuple(receipt.checks or (receipt.before if receipt.attempt.verdict is Verdict.HELD else ())) if receipt else ()
    )
    standing = standing_of(desk, task, spec, history[-1] if history else None)
    return Shown(
        row, task.description, task.notes, spec, problem, limits, history, comments, demands, checks,
        standing.stands_on, standing.outdated, standing.only_after,
        where_landed(desk, task, history[-1] if history else None),
    )  # fmt: skip


def _row(
    desk: Desk, task: Task, last: Attempt | None, supervised: bool, now: float, waiting: str,
    stuck: Mapping[str, State], spent: Spent | None, unused: int,
) -> Row:  # fmt: skip
    running = last if last is not None and last.verdict is None else None
    alive = running is not None and _is_alive(attempt_directory(desk.home, running))
    if running is not None and alive and running.asking is None:
        last = replace(running, asking=_asking(desk, running))
    derived, life = derive_state(task, last, alive=alive, supervised=supervised, stuck=stuck), None
    if running is not None and running.interactive:
        derived, life = _in_terminal(desk, running)
    elif running is not None and alive:
        life = running.life if supervised else None
        derived = _with_life(derived, running, life, summary(flagged(attempt_directory(desk.home, running))), now)
    elif waiting:
        derived = _held(derived, last, waiting)
    runs = _runs_with(desk, task, last, derived.state)
    seen = last or NEVER
    if derived.state is State.CANCELLED and not alive and seen.ended is None:
        seen = replace(seen, started=None)  # it has ended, and nobody has looked yet when that was
    return Row(
        id=task.id,
        title=task.title,
        state=derived.state,
        cause=derived.cause,
        attempts=seen.number - unused,  # one that was held before its agent began is no try
        coder=runs.coder,
        model=runs.model,
        cwd=runs.cwd,
        branch=seen.branch,
        priority=task.priority,
        own_coder=runs.own_coder,
        own_model=runs.own_model,
        waits_for=task.waits_for,
        created=task.created,
        started=seen.started,
        ended=seen.ended,
        elapsed=None if seen.started is None else max(0.0, (seen.ended or now) - seen.started),
        idle=_idle(seen, now),
        events=seen.events,
        tokens=spent.tokens if spent else None,
        cost=spent.cost if spent else None,
        peak_context_pct=seen.context_share,
        session=seen.session,
        proof=seen.proof,
        life=life,
        needs_you=life is not None and seen.needs_you,
        hindrance=seen.hindrance,
        shown=derived.shown,
        group=LOOKS[derived.shown].group,
        note=derived.note,
        next=derived.next,
        project=project_name((last.repository if last else "") or runs.cwd or ""),
        cost_unknown=spent.unknown if spent else 0,
    )


@lru_cache(maxsize=1024)
def project_name(directory: str) -> str:
    """The name of the repository that a directory is in; else its own."""
    path = Path(directory)
    return next((one.name for one in (path, *path.parents) if os.path.lexists(one / ".git")), path.name)


def _with_life(derived: DerivedState, attempt: Attempt, life: Life | None, flag: str, now: float) -> DerivedState:
    """The state of an agent that lives, with what it is seen to do and to touch."""
    does = _doing(attempt, life, now)
    cause = "; ".join(part for part in (*does, derived.cause, flag) if part)
    note = "; ".join(part for part in (*does, derived.note, flag) if part)
    if life is None or attempt.asking is not None:
        return replace(derived, cause=cause, note=note)
    if attempt.needs_you:
        following = f"fleet attach {attempt.task} · abort"
        return replace(derived, cause=f"needs you: {cause}", note=note, shown=ShownState.STUCK, next=following)
    shown = of_life(life) if derived.state is State.WORKING else derived.shown
    return replace(derived, cause=cause, note=note, shown=shown)


def _held(derived: DerivedState, last: Attempt | None, waiting: str) -> DerivedState:
    """The state of a task that could start and does not: it waits for its turn, or something holds it. What keeps its
    whole coder from working is said once, with all that its agent was told of it.
    """
    cause = "; ".join(part for part in (derived.cause, waiting) if part)
    if waiting.startswith(TURNS):
        note = derived.note and "; ".join((derived.note, waiting))
        return replace(derived, cause=cause, note=note)
    if last is not None and last.ending in OF_EVERY_TASK:
        what, _, cure = waiting.partition(". ")
        cause = waiting = f"{last.cause}. {cure}" if last.cause.startswith(what) else f"{last.cause}; {waiting}"
    return replace(derived, cause=cause, note=waiting, shown=ShownState.HELD)


def _asking(desk: Desk, attempt: Attempt) -> str | None:
    from fleet.questions import file as questions  # what nobody pays for who has no agent at work

    return questions.waiting(desk.home / "tasks" / attempt.task / "artifacts", attempt.asked_before)


def _doing(attempt: Attempt, life: Life | None, now: float) -> list[str]:
    """What its agent does, since when and why; nothing where the word of its state says it all."""
    if life is None or attempt.asking is not None or life.state in (LifeState.WORKING, LifeState.STARTING):
        return []
    seconds = round(max(0.0, now - life.since))
    begun = "" if attempt.dispatched is not None else hindered(attempt)
    late = seconds >= LONG_S or attempt.needs_you
    if life.state is LifeState.MODEL:
        return [f"no answer from the model for {time_text(seconds)}" if late else "", begun]
    if life.state is LifeState.TOOL:
        return [f"running {time_text(seconds)}: {life.why}" if late else "", begun]
    return [f"{life.state} for {time_text(seconds)}: {life.why}", begun]


def _in_terminal(desk: Desk, attempt: Attempt) -> tuple[DerivedState, Life | None]:
    """The state of an attempt that a person began."""
    from fleet.batches.look import look_at_terminal
    from fleet.coders.known import find_coder  # what nobody pays for who has none of those
    from fleet.supervisor.heard import talker

    how = talker(find_coder, desk.runtime, attempt)
    derived, _, life = look_at_terminal(attempt, attempt_directory(desk.home, attempt), how)
    return derived, life


def _is_alive(directory: Path) -> bool:
    return keeper.is_alive(directory) or keeper.is_alive(directory / "handover")


def _runs_with(desk: Desk, task: Task, last: Attempt | None, state: State) -> RunsWith:
    """What a task ran with, from its last attempt; what an open one will run with, from what is set now."""
    if last is not None and last.cwd and state is not State.OPEN:
        return RunsWith(last.coder, last.model, last.own_coder, last.own_model, last.cwd)
    spec, _ = _spec(desk, task.id)
    choice = choose(spec, None, desk.runtime)
    return RunsWith(choice.coder, choice.model, choice.own_coder, choice.own_model, spec.cwd if spec else None)


def _idle(attempt: Attempt, now: float) -> float | None:
    """Seconds since the agent was last heard of, while it runs."""
    if attempt.started is None or attempt.ended is not None:
        return None
    return max(0.0, now - (attempt.last_event or attempt.started))


def _spec(desk: Desk, task: str) -> tuple[Spec | None, str | None]:
    try:
        return tracker.spec.read(desk.home, task), None
    except FleetError as problem:
        return None, problem.message


def cancel(desk: Desk, name: str) -> Task:
    """Cancel a task, so that nobody begins it; its agent lives until `end_agent`, but for one in a terminal."""
    task = desk.tracker.get(task_id(name))
    last = desk.ledger.last_of([task.id]).get(task.id)
    if task.status is Status.CLOSED and (last is None or last.verdict is not None):
        raise FleetError(f"{task.id} is closed already: {task.reason or 'done'}", hint=f"fleet show {task.id}")
    if last is not None and last.interactive and last.verdict is None:
        from fleet.app.agents import stop

        stop(last)
        return desk.tracker.get(task.id)
    desk.tracker.close(task.id, f"{CANCELLED}: by hand")
    wake(desk.home)
    return desk.tracker.get(task.id)


def end_agent(desk: Desk, task: str) -> None:
    """End the agent of a cancelled task with everything it started: by its keeper, so no supervisor is needed. Wait
    until none lives; one that is only being started is caught when it is there.
    """
    deadline, patience = time.monotonic() + ENDS_WITHIN, [ROUSED_AFTER, ENDED_AFTER]
    while time.monotonic() < deadline:
        last = desk.ledger.last_of([task]).get(task)
        if last is None or last.verdict is not None:
            return
        directory = attempt_directory(desk.home, last)
        parts = (directory, directory / "handover", *directory.glob("check*"))
        living = [one for one in parts if keeper.is_alive(one)]
        for one in living:
            keeper.abort(one)
        if patience and time.monotonic() > deadline - ENDS_WITHIN + patience[0]:
            patience.pop(0)
            for one in living:
                keeper.rouse(one, finally_end=not patience)
        if not living and not locks.held(desk.home / LOCK):
            return
        time.sleep(0.05)
    raise FleetError(f"the agent of {task} has not ended within {ENDS_WITHIN:.0f} s", hint=f"fleet show {task}")


def comment(desk: Desk, name: str, text: str) -> None:
    desk.tracker.comment(task_id(name), text, getuser())


def block(desk: Desk, name: str, reason: str) -> Task:
    """Set a task aside that nobody works on."""
    task = desk.tracker.get(task_id(name))
    last = desk.ledger.last_of([task.id]).get(task.id)
    if last is not None and last.verdict is None:
        raise _unsettled(desk, last)
    if task.status is Status.CLOSED:
        raise FleetError(f"{task.id} is closed: {task.reason or 'done'}", hint=f"fleet retry {task.id}")
    desk.ledger.forgive(task.id)
    desk.tracker.block(task.id, reason)
    return desk.tracker.get(task.id)


def _unsettled(desk: Desk, last: Attempt) -> FleetError:
    """Why nothing else can become of a task now, and what helps."""
    if _is_alive(attempt_directory(desk.home, last)) or locks.held(desk.home / LOCK):
        return FleetError(f"{last.task} is being worked on (attempt {last.number})", hint=f"fleet abort {last.task}")
    return FleetError(f"{last.id} is not settled yet, and no supervisor runs", hint="fleet run")


def retry(desk: Desk, name: str, *, keep_base: bool = False) -> Task:
    """Open a task again, with its failures forgotten. Its next attempt gets a base and a place anew, unless they are
    to be kept.
    """
    task = desk.tracker.get(task_id(name))
    last = desk.ledger.last_of([task.id]).get(task.id)
    if last is not None and last.interactive:
        raise FleetError(
            f"{task.id} was begun in a terminal, and is not handed out", hint=f"fleet create {last.branch}"
        )
    if last is not None and last.verdict is None:
        raise _unsettled(desk, last)
    desk.ledger.forgive(task.id, keep_base=keep_base)
    desk.tracker.open(task.id)
    wake(desk.home)
    return desk.tracker.get(task.id)


@dataclass(frozen=True, slots=True)
class NextBase:
    """What the next attempt at a task begins from."""

    kind: str  # "anew", "kept", or "in place"
    text: str = ""


def next_base(desk: Desk, task: str, *, keep_base: bool) -> NextBase:
    """By the last attempt at a task that had a place."""
    last = next((one for one in reversed(desk.ledger.of(task)) if one.base is not None), None)
    if last is None:
        return NextBase("anew")
    if not last.repository:
        return NextBase("in place", f"it goes on in {last.cwd}, as that is now")
    if keep_base:
        from fleet.results import stands_on_text

        stands_on = f", which stands on {stands_on_text(last.stands_on)}" if last.stands_on else ""
        return NextBase("kept", f"it goes on in the place of {last.id}{stands_on}")
    onto = f"{last.onto} and what it waits for, as they are then" if last.onto else "what is checked out then"
    left = f"what {last.id} left stays (fleet salvage list, {LANDING}{last.id})"
    return NextBase("anew", f"it begins anew from {onto}; {left}")


def accept(desk: Desk, name: str) -> Task:
    """Close a task whose work fleet did not verify, because a person has looked at it. What fleet says of it stays."""
    from fleet.evidence.receipt import load_receipt  # what nobody pays for who only lists
    from fleet.supervisor.result_branch import name_result

    task = desk.tracker.get(task_id(name))
    last = desk.ledger.last_of([task.id]).get(task.id)
    if last is None or last.verdict is None or last.proof is None or task.status is Status.CLOSED:
        why = "is closed already" if task.status is Status.CLOSED else "has left no work that could be accepted"
        raise FleetError(f"{task.id} {why}", hint=f"fleet show {task.id}")
    begun = FleetError(f"{task.id} is being worked on again", hint=f"fleet show {task.id}, or fleet abort {task.id}")
    # Whoever holds an open task is the only one to begin it: a supervisor that was quicker goes on.
    if task.status is not Status.BLOCKED and not desk.tracker.claim(task.id, f"{getuser()}, who accepts it"):
        raise begun
    receipt = load_receipt(attempt_directory(desk.home, last) / "receipt.json")
    with suppress(FleetError):  # `fleet show` says where its branch is
        name_result(last, receipt.result.landing if receipt else None)
    desk.ledger.note_accepted(last.id)
    desk.tracker.close(task.id, f"{ACCEPTED_BY_PERSON} what was {last.proof}: {last.reason or last.cause}")
    wake(desk.home)
    if desk.ledger.last_of([task.id])[task.id].id != last.id:
        raise begun
    return desk.tracker.get(task.id)


def readable(desk: Desk, name: str, what: str) -> Path:
    """The file a task left under this name; nothing outside the task's own directory is ever read."""
    task = desk.tracker.get(task_id(name))
    directory = desk.home / "tasks" / task.id
    path = directory / READABLE[what]
    if path.parent.resolve() not in (directory.resolve(), directory.resolve() / "artifacts"):
        raise FleetError(f"{path.parent} leads somewhere else, and is not read")
    if not os.path.lexists(path):
        raise NotFound(f"{task.id} has left no {what} yet", hint=f"fleet show {task.id}")
    return path


def is_going_on(desk: Desk, name: str) -> bool:
    """Whether more may still come of a task."""
    last = desk.ledger.last_of([name]).get(name)
    return (last is not None and last.verdict is None) or desk.tracker.get(name).status is not Status.CLOSED


def content(path: Path, start: int) -> bytes:
    """A piece of a file that an agent may have put there, from an offset on; only a plain file is read."""
    found = files.read_from(path, start, PIECE)
    if found is None:
        raise FleetError(f"{path} is not a plain file, and is not read", hint=f"ls -la {path}")
    return found

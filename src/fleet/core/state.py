"""What people are told of a task: derived from what its tracker says and from its last attempt, never stored."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.core.frozen import dataclass
from fleet.core.life import Life, LifeState
from fleet.core.talk import Felt, Mood
from fleet.core.task import Status, Task, is_cancelled
from fleet.core.work import Attempt, Ending, Hindrance, State, Verdict


@dataclass(frozen=True, slots=True)
class Told:
    state: State
    cause: str


def tell(
    task: Task, last: Attempt | None, *, alive: bool, supervised: bool, stuck: Mapping[str, State] | None = None
) -> Told:
    """The state of a task and why. `alive`: the keeper of its last attempt lives; `supervised`: a supervisor runs;
    `stuck`: of the tasks that it may wait for, those of which nothing comes until a person acts.
    """
    if last is not None and last.verdict is None and (alive or task.status is not Status.CLOSED):
        return _running(task, last, alive, supervised)
    match task.status:
        case Status.CLOSED:
            return _closed(task, last)
        case Status.BLOCKED:
            return _blocked(task, last)
        case Status.IN_PROGRESS:
            claimed = f"claimed by {task.assignee}" if task.assignee else "claimed"
            return Told(State.STARTING if supervised else State.OPEN, claimed)
        case Status.OPEN:
            return _open(task, last, stuck or {})


MOODS = {
    Mood.STARTING: State.STARTING,
    Mood.WORKING: State.WORKING,
    Mood.WAITING: State.WAITING,
    Mood.ASKING: State.ASKS,
    Mood.UNKNOWN: State.ALIVE,
}


def tell_terminal(attempt: Attempt, felt: Felt, *, alive: bool, being_made: bool, ended: str | None) -> Told:
    """The state of an attempt in a terminal: from its keeper, from how that says it ended, and from its own signals."""
    if being_made and attempt.leaving:
        return Told(State.ENDED, "its place is being saved and removed")
    if being_made:
        return Told(State.STARTING, "its place is being made" if attempt.started is None else felt.why)
    if alive:
        return Told(MOODS[felt.mood], _join(attempt.cause, felt.why))
    if ended is not None:
        return Told(State.ENDED, _join(ended, attempt.cause))
    if attempt.started is None:
        return Told(State.DEAD, "it was never started; `fleet list --repair` clears it away")
    looks = "" if attempt.ending else "`fleet list --repair` looks"
    return Told(State.DEAD, _join("nobody saw how it ended", looks, attempt.cause))


def _running(task: Task, attempt: Attempt, alive: bool, supervised: bool) -> Told:
    """An attempt that is not settled: what it is called depends on who still lives."""
    nobody = "" if supervised else "no supervisor runs"
    if alive:
        began = attempt.dispatched is not None or (attempt.events and not attempt.nonce)  # an older fleet has no nonce
        state = State.WORKING if began else State.STARTING
        asks = f"waits for an answer: {attempt.asking}" if attempt.asking else ""
        notes = "its session writes its notes" if attempt.handover == "begun" else ""
        return Told(state, _join(asks, attempt.cause, notes, nobody))
    if attempt.started is None:
        return Told(State.STARTING if supervised else State.OPEN, _join("being prepared", nobody))
    if supervised:
        return Told(State.WORKING, "the agent has ended; the result is being looked at")
    return Told(State.OPEN, "the agent has ended; `fleet run` looks at what it did")


def _closed(task: Task, last: Attempt | None) -> Told:
    if is_cancelled(task):
        return Told(State.CANCELLED, task.reason)
    if last is not None and last.verdict is Verdict.ACCEPTED:
        return Told(State.DONE, last.cause)
    return Told(State.DONE, _join("closed by hand", task.reason))


def _blocked(task: Task, last: Attempt | None) -> Told:
    if last is not None and not last.forgiven:
        decides = f"a person decides: fleet show {task.id}, then fleet retry or fleet accept"
        if last.verdict is Verdict.REFUSED:
            return Told(State.REFUSED, _join(last.cause, hindered(last), decides))
        if last.verdict is Verdict.HELD:
            return Told(State.BLOCKED, last.cause)
        if last.verdict is Verdict.FAILED:
            return Told(State.FAILED, _join(last.cause, hindered(last)))
        if last.ending is Ending.NO_BASE:
            return Told(State.BLOCKED, last.cause)
        if last.verdict is Verdict.ASKED:
            asks = f"{last.cause}; {decides}" if last.proof is not None else f"asks: {last.cause}"
            return Told(State.BLOCKED, asks)
    return Told(State.BLOCKED, task.notes or "set aside by hand")


def _open(task: Task, last: Attempt | None, stuck: Mapping[str, State]) -> Told:
    if task.waits_for:
        return Told(State.BLOCKED, waits_for_text(task, stuck))
    if last is not None and last.verdict is Verdict.RETRY and not last.forgiven:
        return Told(State.OPEN, _join(f"attempt {last.number}: {last.cause}", hindered(last), "to be tried again"))
    return Told(State.OPEN, "")


# What became of a task that others wait for, and what a person can do about it.
STUCK = {
    State.CANCELLED: ("was cancelled", "fleet depend {task} --not {needs}, or fleet abort {task}"),
    State.REFUSED: ("was refused", "fleet show {needs}"),
    State.FAILED: ("failed", "fleet show {needs}"),
    State.ASKS: ("asks you", "fleet show {needs}"),
    State.BLOCKED: ("is set aside", "fleet retry {needs}"),
}


def stuck_state(task: Task | None, last: Attempt | None) -> State | None:
    """Why nothing comes of a task until a person acts: one of STUCK. No task was cancelled."""
    if task is None or is_cancelled(task):
        return State.CANCELLED
    if task.status is not Status.BLOCKED or (last is not None and last.verdict is None):
        return None
    asks = last is not None and last.verdict is Verdict.ASKED and not last.forgiven
    return State.ASKS if asks else _blocked(task, last).state


def waits_for_text(task: Task, stuck: Mapping[str, State]) -> str:
    """What a task waits for; and of which of these nothing comes, with the command that helps."""
    said = f"waits for {', '.join(task.waits_for)}"
    link = ", which" if len(task.waits_for) == 1 else "; {needs}"
    for needs in task.waits_for:
        if needs in stuck:
            what, command = STUCK[stuck[needs]]
            said += f"{link} {what}: {command}".format(task=task.id, needs=needs)
    return said


def hindered(attempt: Attempt) -> str:
    """Why no model has answered in an attempt, with the last of what was seen; empty when one has, or nobody knows."""
    if attempt.hindrance is None or (attempt.hindrance is Hindrance.UNKNOWN and not attempt.seen):
        return ""
    seen = f", last seen: {attempt.seen}" if attempt.seen else ""
    return f"it did not begin ({attempt.hindrance}{seen})"


LIVES = {
    Mood.STARTING: LifeState.STARTING,
    Mood.WORKING: LifeState.WORKING,
    Mood.WAITING: LifeState.INPUT,
    Mood.ASKING: LifeState.INPUT,
}


def life_in_terminal(state: State, cause: str, felt: Felt, started: float | None) -> Life | None:
    """What an agent in a terminal does, by what it tells of itself; None when it tells nothing, or is not there."""
    since = felt.since or started or 0.0
    if state is State.DEAD:
        return Life(LifeState.DEAD, since, cause, ("no keeper",))
    if state in (State.ENDED, State.ALIVE):
        return None
    return Life(LIVES.get(felt.mood, LifeState.STARTING), since, felt.why or "it says so itself", ("its own signal",))


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)

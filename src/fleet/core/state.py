"""The state of a task: derived from what its tracker says and from its last attempt, never stored."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.core.frozen import dataclass
from fleet.core.life import Life, LifeState
from fleet.core.states import ShownState, of_cancelled, of_proof
from fleet.core.talk import Felt, Mood
from fleet.core.task import ACCEPTED_BY_PERSON, Status, Task, is_cancelled
from fleet.core.work import OF_EVERY_TASK, Attempt, Ending, Hindrance, State, Verdict


@dataclass(frozen=True, slots=True)
class DerivedState:
    """The state of a task, why it is so, how it is shown, and the command for whoever it waits for.

    The cause says everything; the note is what a screen adds to the word of the state, where that is something else.
    """

    state: State
    cause: str
    shown: ShownState
    note: str = ""
    next: str = ""


def derive_state(
    task: Task, last: Attempt | None, *, alive: bool, supervised: bool, stuck: Mapping[str, State] | None = None
) -> DerivedState:
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
            return _by(supervised, claimed)
        case Status.OPEN:
            return _open(task, last, stuck or {})


MOODS = {
    Mood.STARTING: State.STARTING,
    Mood.WORKING: State.WORKING,
    Mood.WAITING: State.WAITING,
    Mood.ASKING: State.ASKS,
    Mood.LOGGED_OUT: State.LOGGED_OUT,
    Mood.UNKNOWN: State.ALIVE,
}
IN_TERMINAL = {
    State.STARTING: ShownState.STARTING,
    State.WORKING: ShownState.WORKING,
    State.WAITING: ShownState.TURN_OVER,
    State.ASKS: ShownState.LEAVE,
    State.LOGGED_OUT: ShownState.LOGGED_OUT,
    State.ALIVE: ShownState.ALIVE,
    State.ENDED: ShownState.LEFT,
    State.DEAD: ShownState.DEAD,
}
NEXT_IN_TERMINAL = {
    State.WAITING: "fleet attach {branch}",
    State.ASKS: "fleet attach {branch}",
    State.LOGGED_OUT: "fleet attach {branch}",
    State.ENDED: "fleet verify {branch} · kill",
    State.DEAD: "fleet list --repair",
}
OWN_WORDS = ("at its prompt", "its turn is over", "waits for your leave")  # that the state says already


def derive_terminal_state(
    attempt: Attempt, felt: Felt, *, alive: bool, being_made: bool, ended: str | None
) -> DerivedState:
    """The state of an attempt in a terminal: from its keeper, from how that says it ended, and from its own signals."""
    state, cause = _in_terminal(attempt, felt, alive, being_made, ended)
    note = (
        cause if state in (State.DEAD, State.ASKS, State.WAITING, State.LOGGED_OUT) and cause not in OWN_WORDS else ""
    )
    following = NEXT_IN_TERMINAL.get(state, "").format(branch=attempt.branch or attempt.task)
    return DerivedState(state, cause, IN_TERMINAL[state], note, following)


def _in_terminal(attempt: Attempt, felt: Felt, alive: bool, being_made: bool, ended: str | None) -> tuple[State, str]:
    if being_made and attempt.leaving:
        return State.ENDED, "its place is being saved and removed"
    if being_made:
        return State.STARTING, "its place is being made" if attempt.started is None else felt.why
    if alive and felt.mood is Mood.STARTING and attempt.hindrance is Hindrance.LOGIN:
        return State.LOGGED_OUT, "it asks for a login instead of a prompt"
    if alive:
        return MOODS[felt.mood], _join(attempt.cause, felt.why)
    if ended is not None:
        return State.ENDED, _join(ended, attempt.cause)
    if attempt.started is None:
        return State.DEAD, "it was never started; `fleet list --repair` clears it away"
    looks = "" if attempt.ending else "`fleet list --repair` looks"
    return State.DEAD, _join("nobody saw how it ended", looks, attempt.cause)


def _by(supervised: bool, cause: str) -> DerivedState:
    """A task that is being prepared; without a supervisor nobody goes on with that."""
    if supervised:
        return DerivedState(State.STARTING, cause, ShownState.STARTING)
    return DerivedState(State.OPEN, cause, ShownState.OPEN)


def _running(task: Task, attempt: Attempt, alive: bool, supervised: bool) -> DerivedState:
    """An attempt that is not settled: what it is called depends on who still lives."""
    nobody = "" if supervised else "no supervisor runs"
    if alive:
        return _alive(task, attempt, nobody)
    if attempt.started is None:
        return _by(supervised, _join("being prepared", nobody))
    if supervised:
        cause = "the agent has ended; the result is being looked at"
        return DerivedState(State.WORKING, cause, ShownState.WORKING, "its result is being checked")
    cause = "the agent has ended; `fleet run` looks at what it did"
    return DerivedState(State.OPEN, cause, ShownState.OPEN, cause)


def _alive(task: Task, attempt: Attempt, nobody: str) -> DerivedState:
    began = attempt.dispatched is not None or (attempt.events and not attempt.nonce)  # an older fleet has no nonce
    state = State.WORKING if began else State.STARTING
    shown = ShownState.WORKING if began else ShownState.STARTING
    if attempt.asking:
        cause = _join(f"waits for an answer: {attempt.asking}", attempt.cause, nobody)
        return DerivedState(state, cause, ShownState.QUESTION, attempt.asking, _answer(task))
    notes = "its session writes its notes" if attempt.handover == "begun" else ""
    return DerivedState(state, _join(attempt.cause, notes, nobody), shown, _join(attempt.cause, notes))


def _answer(task: Task) -> str:
    return f"fleet answer {task.id} TEXT"


def _closed(task: Task, last: Attempt | None) -> DerivedState:
    if is_cancelled(task):
        return DerivedState(State.CANCELLED, task.reason, of_cancelled(last.proof if last else None))
    if last is not None and last.verdict is Verdict.ACCEPTED:
        return DerivedState(State.DONE, last.cause, of_proof(last.proof))
    shown = ShownState.ACCEPTED if task.reason.startswith(ACCEPTED_BY_PERSON) else ShownState.CLOSED
    return DerivedState(State.DONE, _join("closed by hand", task.reason), shown)


def _blocked(task: Task, last: Attempt | None) -> DerivedState:
    if last is not None and not last.forgiven:
        found = _left_to_a_person(task, last)
        if found is not None:
            return found
    cause = task.notes or "set aside by hand"
    return DerivedState(State.BLOCKED, cause, ShownState.SET_ASIDE, task.notes)


STOPPED = {
    Verdict.REFUSED: (State.REFUSED, ShownState.REFUSED),
    Verdict.FAILED: (State.FAILED, ShownState.FAILED),
    Verdict.ASKED: (State.BLOCKED, ShownState.CHECK),
}


def _left_to_a_person(task: Task, last: Attempt) -> DerivedState | None:
    """What a person decides about: a question, a result that nothing could check, or work that was not believed."""
    has_no_base = last.ending is Ending.NO_BASE and last.verdict not in (Verdict.REFUSED, Verdict.FAILED)
    if last.verdict is Verdict.HELD or has_no_base:
        return DerivedState(State.BLOCKED, last.cause, ShownState.HELD, last.cause)
    if last.verdict is Verdict.ASKED and last.proof is None:
        return DerivedState(State.BLOCKED, f"asks: {last.cause}", ShownState.QUESTION, last.cause, _answer(task))
    if last.verdict not in STOPPED:
        return None
    state, shown = STOPPED[last.verdict]
    note = _join(last.cause, hindered(last))
    following = f"fleet show {task.id} · retry" + (" · accept" if last.proof is not None else "")
    tries = "1 try" if last.number == 1 else f"{last.number} tries"
    return DerivedState(state, f"{note}; your turn ({tries}): {following}", shown, note, following)


def _open(task: Task, last: Attempt | None, stuck: Mapping[str, State]) -> DerivedState:
    if task.waits_for:
        cause = waits_for_text(task, stuck)
        note = cause if any(needs in stuck for needs in task.waits_for) else ""
        return DerivedState(State.BLOCKED, cause, ShownState.WAITS, note)
    if last is not None and last.verdict is Verdict.RETRY and not last.forgiven:
        note = _join(f"attempt {last.number}: {last.cause}", hindered(last))
        return DerivedState(State.OPEN, _join(note, "to be tried again"), ShownState.OPEN, note)
    return DerivedState(State.OPEN, "", ShownState.OPEN)


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
    if attempt.ending in OF_EVERY_TASK:  # its cause says so
        return ""
    if attempt.hindrance is None or (attempt.hindrance is Hindrance.UNKNOWN and not attempt.seen):
        return ""
    seen = f", last seen: {attempt.seen}" if attempt.seen else ""
    return f"it did not begin ({attempt.hindrance}{seen})"


LIVES = {
    Mood.STARTING: LifeState.STARTING,
    Mood.WORKING: LifeState.WORKING,
    Mood.WAITING: LifeState.INPUT,
    Mood.ASKING: LifeState.INPUT,
    Mood.LOGGED_OUT: LifeState.INPUT,
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

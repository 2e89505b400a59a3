"""Every state in which a task is shown, with its group, glyph and colour, and the counts of one screen. All pure.

The command line shows these words; other screens take them from here, so that a state has one name everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from fleet.core.frozen import dataclass
from fleet.core.life import Life, LifeState
from fleet.core.proof import Proof

MAX_PROJECTS = 3  # named in the line of sums
MAX_IDS = 2  # of the tasks that one waits for, named in its state


class Group(StrEnum):
    """Who has to do something next. The order is that of the rows of every screen."""

    NEEDS_YOU = "needs you"
    WORKING = "working"
    QUEUED = "queued"
    DONE = "done"


class ShownState(StrEnum):
    """The state of a task as people read it; the value is the word."""

    QUESTION = "asks you"
    LEAVE = "asks leave"
    CHECK = "yours to check"
    REFUSED = "refused"
    FAILED = "failed"
    STUCK = "needs you"
    TURN_OVER = "at its prompt"
    LOGGED_OUT = "not logged in"
    LEFT = "ended"
    DEAD = "dead"

    STARTING = "starting"
    WORKING = "working"
    ALIVE = "alive"
    TOOL = "tool running"
    MODEL = "waiting for model"
    INPUT = "waiting for input"
    LIMITED = "rate limited"
    SILENT = "silent"
    LOOPING = "looping"
    LINGERING = "ended-but-alive"

    OPEN = "queued"
    WAITS = "waits"
    HELD = "held"
    SET_ASIDE = "set aside"

    VERIFIED = "done, verified"
    UNCHECKED = "done, not checked"
    DONE = "done"
    ACCEPTED = "accepted by you"
    CLOSED = "closed by you"
    CANCELLED = "ended by you"
    CANCELLED_VERIFIED = "ended by you, verified"
    CANCELLED_REFUSED = "ended by you, refused"
    CANCELLED_UNCHECKED = "ended by you, not checked"


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is drawn. `counted` is what it adds to in the line of sums."""

    group: Group
    glyph: str
    colour: str
    counted: str


ASKS, WAITS, HELD, DONE, WORKING = "asks you", "wait", "held", "done", "working"
YOURS = {
    shown: Look(Group.NEEDS_YOU, "◆", "yellow", counted)
    for shown, counted in {
        ShownState.QUESTION: ASKS, ShownState.LEAVE: ASKS, ShownState.CHECK: "to check", ShownState.STUCK: "stuck",
        ShownState.TURN_OVER: "at the prompt", ShownState.LEFT: "ended", ShownState.LOGGED_OUT: "not logged in",
    }.items()
}  # fmt: skip
FAILURES = {
    shown: Look(Group.NEEDS_YOU, "✗", "red", shown.value)
    for shown in (ShownState.REFUSED, ShownState.FAILED, ShownState.DEAD)
}
AT_WORK = {
    shown: Look(Group.WORKING, "●", colour, WORKING)
    for colour, states in {
        "green": (ShownState.STARTING, ShownState.WORKING, ShownState.ALIVE, ShownState.TOOL, ShownState.MODEL),
        "yellow": (ShownState.INPUT, ShownState.LIMITED, ShownState.SILENT, ShownState.LOOPING, ShownState.LINGERING),
    }.items()
    for shown in states
}
QUEUED = {
    shown: Look(Group.QUEUED, "○", "", counted)
    for shown, counted in {
        ShownState.OPEN: WAITS, ShownState.WAITS: WAITS, ShownState.HELD: HELD, ShownState.SET_ASIDE: "set aside",
    }.items()
}  # fmt: skip
FINISHED = {
    shown: Look(Group.DONE, "✓" if colour else "○", colour, counted)
    for (colour, counted), states in {
        ("green", DONE): (ShownState.VERIFIED, ShownState.DONE, ShownState.ACCEPTED, ShownState.CLOSED),
        ("", "ended by you"): (ShownState.CANCELLED, ShownState.CANCELLED_VERIFIED, ShownState.CANCELLED_REFUSED),
    }.items()
    for shown in states
} | {
    ShownState.UNCHECKED: Look(Group.DONE, "✓", "yellow", DONE),
    ShownState.CANCELLED_UNCHECKED: Look(Group.DONE, "○", "yellow", "ended by you"),
}
LOOKS: Mapping[ShownState, Look] = YOURS | FAILURES | AT_WORK | QUEUED | FINISHED
RANKS = {group: rank for rank, group in enumerate(Group)}  # of the rows of every screen
COUNTED = [DONE, WORKING, ASKS, *dict.fromkeys(look.counted for look in LOOKS.values())]


def of_life(life: Life) -> ShownState:
    """The state of an agent at work, by what it is seen to do."""
    return ShownState.DEAD if life.state is LifeState.DEAD else ShownState(life.state.value)


def of_proof(proof: Proof | None) -> ShownState:
    """The state of a task whose result was accepted, by what the evidence says of it."""
    match proof:
        case Proof.VERIFIED:
            return ShownState.VERIFIED
        case Proof.UNVERIFIED:
            return ShownState.UNCHECKED
        case _:
            return ShownState.DONE


def of_cancelled(proof: Proof | None) -> ShownState:
    """The state of a task that a person ended, with what the evidence says of what it left."""
    match proof:
        case Proof.VERIFIED:
            return ShownState.CANCELLED_VERIFIED
        case Proof.REFUSED:
            return ShownState.CANCELLED_REFUSED
        case Proof.UNVERIFIED:
            return ShownState.CANCELLED_UNCHECKED
        case None:
            return ShownState.CANCELLED


def waits_word(ids: Sequence[str]) -> str:
    """The state of a task that waits for others: `waits for t3`, `waits for 5 tasks`."""
    return f"{ShownState.WAITS} for {', '.join(ids) if len(ids) <= MAX_IDS else f'{len(ids)} tasks'}"


@dataclass(frozen=True, slots=True)
class Sums:
    """What there is, counted: the one line that stands on every screen. Scripts rely on these names."""

    projects: tuple[str, ...]
    counts: dict[str, int]  # by the word: done, working, asks you, refused …
    cost: float | None = None  # US dollars, since the last `fleet run` began or the time that was asked for
    unknown: int = 0  # attempts whose cost nobody knows


def count(states: Iterable[ShownState], projects: Iterable[str]) -> Sums:
    """The sums of tasks in these states."""
    found = Counter(LOOKS[shown].counted for shown in states)
    return Sums(tuple(sorted(set(projects))), {word: found[word] for word in COUNTED if found[word]})


def sums_line(sums: Sums, ids: Mapping[str, Sequence[str]] | None = None) -> str:
    """`pricer, slugger: 4 done · 4 working · 1 asks you · 6 wait · $0.42`; with ids, `1 refused (t3)`."""
    named = ", ".join(sums.projects[:MAX_PROJECTS])
    more = len(sums.projects) - MAX_PROJECTS
    who = f"{named} and {more} more: " if more > 0 else f"{named}: " if named else ""
    parts = [_counted(number, word, (ids or {}).get(word, ())) for word, number in sums.counts.items()]
    return who + " · ".join([*(parts or ["no tasks"]), *([] if not parts else cost_words(sums.cost, sums.unknown))])


def _counted(number: int, word: str, ids: Sequence[str]) -> str:
    words = {(ASKS, False): "ask you", (WAITS, True): "waits"}.get((word, number == 1), word)
    return f"{number} {words}" + (f" ({', '.join(ids)})" if ids else "")


def cost_words(cost: float | None, unknown: int) -> list[str]:
    """`$0.42`, `$0.42 + 2 unknown`, `2 of unknown cost`; nothing where nothing was used."""
    if cost is None:
        return [f"{unknown} of unknown cost"] if unknown else []
    return [f"${cost:.2f}" + (f" + {unknown} unknown" if unknown else "")]

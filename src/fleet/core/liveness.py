"""Whether an agent lives and what it does, judged from outside; and what is to be done about it. All of it is pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from fleet.core.life import BREAK_OFF, REPEATS, Action, Life, LifeState, Policy, Rule

CALM = 3.0  # seconds in which nothing moves, before who reads a terminal is said to wait there
LASTS = 10.0  # seconds in which much goes on in every look, before that is more than a helper that ticks
LINGERS = 10.0  # seconds that an agent may take to go after it has said that it is done
MODELS_TURN = ("tool_ended", "session_started")  # after such an event it is the model who speaks next


@dataclass(frozen=True, slots=True)
class Since:
    """Something that has been so since a moment; what it is."""

    at: float
    what: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen of an agent. Times are of one clock. What cannot be seen is None, and is a sign of nothing."""

    started: float
    dispatched: float | None = None
    heard: float | None = None  # when it last printed anything
    last: str = ""  # the kind of its last event
    tools: tuple[Since, ...] = ()  # calls that have not come back
    cpu: float | None = None  # when the processor time of its tree last grew
    io: float | None = None  # likewise what it read and wrote
    files: float | None = None  # when something in its place last changed
    request: float | None = None  # since when one is in flight at our gateway; another's nobody sees
    toils: bool = False  # much goes on in its tree, and has for a while
    terminal: Since | None = None  # a process of its tree reads a terminal, and it waits there; which
    leave: Since | None = None  # it asked for a person's leave, or was denied it; for what
    person: Since | None = None  # it asked a person a question; which
    limited: Since | None = None  # its provider lets it wait
    repeats: int = 0  # of one call with one outcome, in a row
    repeated: Since | None = None
    finished: float | None = None  # when it said that its turn is over


def assess(facts: Facts, policy: Policy, now: float) -> Life:
    """What an agent does now. The states are tried in an order: what is surer, or matters more, is said first."""
    for state in (_over, _held, _looping, _unproven, _busy):
        found = state(facts, policy, now)
        if found is not None:
            return found
    return _seen(facts, policy, now)


def decide(life: Life, policy: Policy, now: float) -> Action:
    """What is to be done. Nothing is broken off on one sign alone: then a person is asked."""
    rule = policy.rules.get(life.state, Rule())
    if now - life.since < rule.after:
        return Action.LEAVE
    if rule.action in BREAK_OFF and len(set(life.signs)) < 2:
        return Action.ASK
    return rule.action


def still(facts: Facts, policy: Policy, now: float) -> tuple[str, ...]:
    """What has not moved for a while, each on its own; of what cannot be seen nothing is said."""
    looked = {
        "no events": facts.heard or facts.started,
        "no CPU": facts.cpu,
        "no IO": facts.io,
        "no file changes": facts.files,
    }
    return tuple(sign for sign, moved in looked.items() if moved is not None and now - moved >= policy.quiet)


def moved(facts: Facts) -> float:
    """When the last sign of life was seen."""
    return max(facts.started, *(at for at in (facts.heard, facts.cpu, facts.io, facts.files) if at is not None), 0.0)


def _over(facts: Facts, policy: Policy, now: float) -> Life | None:
    signs = still(facts, policy, now)
    if facts.finished is not None and now - facts.finished >= LINGERS:
        why = _because("it said that its turn is over, and its process lives", signs)
        return Life(LifeState.LINGERING, facts.finished, why, ("it says it is done", *signs))
    return None


def _held(facts: Facts, policy: Policy, now: float) -> Life | None:
    """Somebody else holds it up: a person, a terminal, a provider."""
    signs = still(facts, policy, now)
    if facts.person is not None:
        return Life(LifeState.INPUT, facts.person.at, f"waits for an answer: {facts.person.what}", ("it asks",))
    if facts.leave is not None:
        why = _because(facts.leave.what, signs)
        return Life(LifeState.INPUT, facts.leave.at, why, ("it was not permitted", *signs))
    if facts.terminal is not None:
        why = _because(f"{facts.terminal.what} reads a terminal that nobody types into", signs)
        return Life(LifeState.INPUT, facts.terminal.at, why, ("a process reads a terminal", *signs))
    if facts.limited is not None:
        return Life(LifeState.LIMITED, facts.limited.at, facts.limited.what, ("its provider lets it wait", *signs))
    return None


def _looping(facts: Facts, policy: Policy, now: float) -> Life | None:
    if facts.repeated is None or facts.repeats < policy.repeats:
        return None
    why = f"{facts.repeated.what}, {facts.repeats} times in a row with the same outcome"
    return Life(LifeState.LOOPING, facts.repeated.at, why, ("the same call again", *still(facts, policy, now)))


def _unproven(facts: Facts, policy: Policy, now: float) -> Life | None:
    """Nothing has shown yet that the agent works on what it was given."""
    if facts.dispatched is not None:
        return None
    signs = still(facts, policy, now)
    if now - moved(facts) >= policy.quiet:
        return Life(LifeState.SILENT, moved(facts), _because("it has not begun", signs), signs)
    return Life(LifeState.STARTING, facts.started, "no event has shown yet that it has begun", signs)


def _busy(facts: Facts, policy: Policy, now: float) -> Life | None:
    """It waits for something of its own, which may take as long as its limit allows."""
    signs = still(facts, policy, now)
    if facts.tools:
        first = min(facts.tools, key=lambda one: one.at)
        more = f" and {len(facts.tools) - 1} more" if len(facts.tools) > 1 else ""
        return Life(LifeState.TOOL, first.at, _because(f"{first.what}{more}", signs), signs)
    if facts.request is not None:
        why = _because("a request of its is in flight at our gateway", signs)
        return Life(LifeState.MODEL, facts.request, why, signs)
    at = facts.heard or facts.started
    calm = now - at >= CALM and not facts.toils
    if facts.last in MODELS_TURN and calm and now - moved(facts) < policy.quiet:
        return Life(LifeState.MODEL, at, "it is the model's turn, and nothing much goes on beside it", signs)
    return None


def _seen(facts: Facts, policy: Policy, now: float) -> Life:
    signs, at = still(facts, policy, now), moved(facts)
    if now - at >= policy.quiet:
        return Life(LifeState.SILENT, at, _because("", signs), signs)
    goes_on = {"events": facts.heard, "CPU": facts.cpu, "IO": facts.io, "file changes": facts.files}
    recent = [name for name, when in goes_on.items() if when is not None and now - when < policy.quiet]
    return Life(LifeState.WORKING, facts.dispatched or facts.started, ", ".join(recent) or "just started", signs)


def _because(what: str, signs: tuple[str, ...]) -> str:
    return "; ".join(part for part in (what, ", ".join(signs)) if part)


@dataclass(frozen=True, slots=True)
class Toil:
    """Whether much goes on in a tree of processes. A helper that ticks is no toil, and a build that takes breath is."""

    goes_on: bool = False
    since: float | None = None  # when it began that much was seen in every look
    last: float = -inf  # when much was seen last

    def after(self, much: bool, passed: float, quiet: float, now: float) -> Toil:
        """What is thought after one more look, so many seconds after the one before."""
        if not much:
            return Toil(self.goes_on and now - self.last < quiet, None, self.last)
        since = now - passed if self.since is None else self.since
        return Toil(self.goes_on or now - since >= LASTS, since, now)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A process that reads a terminal, and whether its agent waits there: by what goes on beside it.

    Who waits does so until it says something, or toils: no little thing changes that. Who has gone on beside it has
    a shell in a pane of its own, which holds up nobody before nothing much was said or done for a while.
    """

    reader: Since
    waits: float | None = None  # since when its agent is said to wait there
    passed_by: bool = False

    @property
    def held(self) -> Since | None:
        """Who reads, when its agent waits for that."""
        return None if self.waits is None else self.reader

    def after(self, toil: Toil, spoke: float, stirred: float, quiet: float, now: float) -> Prompt:
        """What is thought after one more look: by when its agent spoke, and when anything else of it last stirred."""
        if self.waits is not None:
            goes_on = toil.goes_on or spoke > self.waits
            return Prompt(self.reader, passed_by=True) if goes_on else self
        rests = now - max(self.reader.at, spoke, toil.last) >= max(quiet, CALM)
        calm = now - max(self.reader.at, spoke, stirred) >= CALM
        waits = not toil.goes_on and (rests or (calm and not self.passed_by))
        return replace(self, waits=now) if waits else self


@dataclass(frozen=True, slots=True)
class Habit:
    """The last calls of an agent, each with what it was given and what came of it: by that a loop is seen."""

    calls: tuple[tuple[str, float], ...] = ()  # by their print, and when each came back; the last one is last
    most: int = 4 * REPEATS

    def after(self, call: str, at: float) -> Habit:
        return replace(self, calls=(*self.calls, (call, at))[-self.most :])

    def repeats(self) -> tuple[int, float]:
        """How often the last call, or the last pair of calls, came in a row; and since when."""
        return max(self._of(1), self._of(2))

    def _of(self, size: int) -> tuple[int, float]:
        """Calls that are the same as the one so many places before them; a pair counts as one."""
        calls = self.calls
        if len(calls) < size:
            return 0, 0.0
        run = size
        while run < len(calls) and calls[-run - 1][0] == calls[-run - 1 + size][0]:
            run += 1
        return run // size, calls[-run][1]

"""The nouns of the work plane: a task is tried by attempts, each of which ends in one way and leaves a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import TypeVar

from fleet.core.frozen import dataclass
from fleet.core.life import Life
from fleet.core.proof import Demands, Program, Proof
from fleet.core.task import PlaceKind as PlaceKind
from fleet.core.task import Spec

N = TypeVar("N", int, float)


class State(StrEnum):
    """What people are told of a task: derived from its status and its attempts, never stored."""

    OPEN = "open"
    STARTING = "starting"
    WORKING = "working"
    ALIVE = "alive"  # in a terminal, and tells nothing of itself
    WAITING = "waiting"  # at its prompt, in a terminal
    ASKS = "asks"  # for a person's leave, in a terminal
    LOGGED_OUT = "not logged in"  # in a terminal
    ENDED = "ended"  # by itself, in a terminal that is kept
    DEAD = "dead"  # nobody saw how
    BLOCKED = "blocked"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Ending(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    NO_EFFECT = "no effect"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    OUTPUT = "output limit"
    SILENT = "silent"
    SCOPE = "out of scope"
    STUCK = "stuck"
    TOKENS = "token limit"
    COST = "cost limit"
    BUDGET = "budget spent"
    CANCELLED = "cancelled"
    NOT_STARTED = "not started"
    LOST = "lost"
    ABANDONED = "abandoned"
    CONTEXT = "context full"
    QUESTION = "question"
    RATE_LIMITED = "rate limited"
    TURNED_AWAY = "turned away"
    LOGGED_OUT = "not logged in"
    CANNOT_WORK = "cannot work"
    TOLD = "told more"
    NUDGED = "nudged"
    HELD = "held"
    NO_BASE = "no base"


BLAMELESS = (
    Ending.LOST, Ending.ABANDONED, Ending.CONTEXT, Ending.QUESTION, Ending.CANCELLED, Ending.RATE_LIMITED,
    Ending.TURNED_AWAY, Ending.TOLD, Ending.BUDGET, Ending.NUDGED, Ending.HELD, Ending.NO_BASE, Ending.LOGGED_OUT,
    Ending.CANNOT_WORK,
)  # fmt: skip
OF_EVERY_TASK = (Ending.LOGGED_OUT, Ending.CANNOT_WORK)  # whatever its coder is given to do now, it ends so


AGENT = "the agent"  # said itself how much its model reads at once


FOREVER = 10 * 365 * 86400.0  # seconds: as good as no limit, and still a number that JSON knows


class Verdict(StrEnum):
    """What an ending meant for the task."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    REFUSED = "refused"
    FAILED = "failed"
    ASKED = "asked"
    CANCELLED = "cancelled"
    HELD = "held"  # until a person has done something about it: it is not the agent's fault


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use, and how many there may be; tokens and cost (US dollars) are of all of them together.

    Durations are seconds, output is bytes; None is no limit.
    """

    timeout: float
    attempts: int
    output: int
    silence: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """What a project allows a task. What is None is inherited; a silence, tokens or cost of 0 is no limit."""

    timeout: float | None = None
    attempts: int | None = None
    output: int | None = None
    silence: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as an agent reported them; the prompt side includes what was read from a cache, and written to one."""

    prompt: int = 0
    completion: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    cost: float | None = None  # US dollars, where they were told for just these tokens

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def plus(self, other: Usage) -> Usage:
        """Both together. What one of them did not tell adds nothing; what neither told stays unknown."""
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.cost, other.cost),
        )

    def minus(self, other: Usage) -> Usage:
        """What came since the other was told, of one count that only grows."""
        return Usage(
            max(0, self.prompt - other.prompt),
            max(0, self.completion - other.completion),
            _rest(self.cache_read, other.cache_read),
            _rest(self.cache_write, other.cache_write),
            _rest(self.cost, other.cost),
        )


def _sum(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else one + other


def _rest(one: N | None, other: N | None) -> N | None:
    return one if one is None or other is None else max(one - one, one - other)


class Hindrance(StrEnum):
    """What kept an agent from beginning with what it was given."""

    PROGRAM = "program missing"
    LOGIN = "not logged in"
    ROOT = "refuses root"
    AUTH = "auth"
    TERMINAL = "no pty"
    LEAVE = "permission gate"
    PROMPT = "prompt not taken"
    MODEL = "model not served"
    UNKNOWN = "unknown"


class EventKind(StrEnum):
    """What a line of an agent's output meant."""

    SESSION = "session_started"
    SAID = "said"
    TOOL_CALLED = "tool_called"
    TOOL_ENDED = "tool_ended"
    USAGE = "usage"
    QUESTION = "question"
    PERMISSION = "permission"
    LIMITED = "limited"
    RESULT = "result"
    ERROR = "error"
    REFUSED_COMMAND = "refused_command"  # what it tried with the queue
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Window:
    """What a provider allows within a span of time, as far as an agent said: how much is used up, and until when."""

    name: str  # such as five_hour or weekly, in the provider's own word
    used: float | None = None  # percent
    resets: float | None = None  # seconds since 1970
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One typed fact out of an agent's output. Fields that the line did not carry stay None: unknown is not 0."""

    kind: EventKind
    text: str | None = None
    tool: str | None = None
    call: str | None = None
    given: str | None = field(default=None, compare=False)  # a short print of all that a tool was called with
    ok: bool | None = None
    session: str | None = None
    model: str | None = None
    usage: Usage | None = None  # of one model request: what it read and what it wrote; in a result, of the whole turn
    context: int | None = None  # tokens in its context now, of an agent that tells this and not what a request read
    aside: bool | None = None  # that request was a subagent's, whose context is its own
    total: Usage | None = None  # of the whole session, where the agent reports it
    models: dict[str, Usage] | None = None  # the same, model by model
    cost: float | None = None  # US dollars, of the whole session so far
    spent: float | None = None  # US dollars, since the last time it was told
    context_limit: int | None = None
    status: int | None = None  # what the provider answered: 401, 429, 503, when that is what went wrong
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class StandsOn:
    """A commit that a base is made of: the result of a task, or the tip of the branch that the work is meant for."""

    name: str  # the task, or the branch
    commit: str
    attempt: str = ""  # whose result it is; empty for the branch
    branch: str = ""  # on which that result is, too
    within: str = ""  # the name of another one of them that has all of it
    verified: bool = True  # False: nothing could check it


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task, as the ledger has it. What is None is not known, or not yet."""

    id: str
    task: str
    number: int
    coder: str
    model: str | None
    cwd: str
    actor: str
    created: float
    own_coder: bool = False  # the task itself asked for it
    own_model: bool = False
    branch: str | None = None
    base: str | None = None  # the commit that its work is compared with: where its branch left the others
    onto: str = ""  # the branch that its result is meant for
    stands_on: tuple[StandsOn, ...] = ()  # what its base is made of
    only_after: dict[str, str] = field(default_factory=dict)  # tasks it waited for and has nothing of, and why
    fresh: bool = False  # its base and its place were made for it: no earlier attempt's work is there
    keeps_base: bool = False  # a person opened the task again, and whoever is next goes on from where this one ended
    began_at: str | None = None  # the commit that it found: what stood there before is not its work
    started: float | None = None
    ended: float | None = None
    ending: Ending | None = None
    verdict: Verdict | None = None
    cause: str = ""
    retry_after: float = 0.0
    session: str | None = None
    resumed: bool = False
    session_tokens: int | None = None  # of the whole session, as the agent last said, and what that cost
    session_cost: float | None = None
    tokens_before: int = 0  # of the session that is gone on with, as it was said before this attempt
    cost_before: float = 0.0
    events: int = 0
    last_event: float | None = None
    tokens: int | None = None
    usage: dict[str, Usage] = field(default_factory=dict)  # its tokens by model; the name "" is one that was not told
    session_usage: dict[str, Usage] = field(default_factory=dict)  # of the whole session, as the agent last said
    usage_before: dict[str, Usage] = field(default_factory=dict)  # of it, what was said before this attempt
    thinks_with: str | None = None  # the model, in the agent's own word
    estimate: float | None = None  # US dollars by the price list, of one that tells its tokens and not its cost
    recent: dict[str, int] = field(default_factory=dict)  # tokens of the last few requests, which may be told twice
    peak_context: int | None = None
    context_limit: int | None = None
    context_from: str | None = None  # according to whom
    handover: str | None = None  # what became of the turn in which a full session writes its notes
    cost: float | None = None
    tools: dict[str, int] = field(default_factory=dict)
    limits: Limits | None = None
    origins: dict[str, str] = field(default_factory=dict)  # who set each limit
    finished: bool = False  # the agent says that its turn is over
    error: str | None = None  # what the agent itself reported as its failure
    asking: str | None = None  # what it asks a person, while its call of the tool `ask_human` is open
    asking_call: str | None = None  # that call, by the agent's own name for it
    question: str | None = None  # what it asked in its output, for an answer after its end
    asked_before: int = 0  # how many questions its task's Q&A.md held when it began
    remarks: int = 0  # the number of the last one that a person had made about its task when it began
    spec: Spec | None = None  # the task's spec, as it was before the agent ran
    checks: int = 0  # how many runs of the check were begun
    offset: int = 0  # how much of the agent's output these figures cover
    recalled: dict[str, int] = field(default_factory=dict)  # and how much of each record that it keeps of itself
    forgiven: bool = False  # a person opened the task again after it
    accepted: bool = False  # a person looked at what it left, and it will do
    account: str = ""  # which of the coder's accounts; the one without a name is the agent's own login
    turned: bool = False  # a model answered in this attempt
    status: int | None = None  # what the provider last refused a request with
    limited: bool = False  # the agent says that a window of the provider's is used up
    memory: int | None = None  # bytes, at the most, of all its processes
    place: PlaceKind = PlaceKind.INPLACE
    repository: str = ""  # the top of the repository that its place was made from
    variables: dict[str, str] = field(default_factory=dict)  # that its project gives everybody who works in its place
    local: tuple[str, ...] | None = None  # models of one's own, by the fleet.yaml it found; None: nobody looked
    interactive: bool = False  # a person can talk to it, in a terminal of its own
    terminal: str = ""  # the name of that terminal's session
    leaving: bool = False  # a person has ended it, and its place is being removed
    batch: str = ""  # started together with others of this name
    demands: Demands | None = None  # what is asked of its result, as it stood before the agent ran
    stores: tuple[str, ...] = ()  # where git keeps what belongs to its place, as it was before the agent ran
    untaken: str = ""  # why no tree of what it found could be taken, in a repository
    began_tree: str | None = None  # the git tree that it found, with what was not committed
    base_tree: str | None = None  # the one that its result is compared with: what the first attempt in this place found
    base_taken: float | None = None  # when that one was taken: what was touched later is not as git noted it
    left_at: str | None = None  # the commit and the tree that it left
    left_tree: str | None = None
    red_before: str = ""  # which checks failed on what it began with, before its agent ran
    inherits: str = ""  # what an earlier attempt was refused for, and which it found: why it proves nothing
    proof: Proof | None = None  # what the evidence says of its work
    reason: str = ""  # for that, in one sentence
    nonce: str = ""  # known to its agent alone: an event that carries it comes from the agent that was started
    program: Program | None = None  # what was started, as it was found before
    receipt: str = ""  # the hash of its receipt, once that is written
    let_go: dict[str, float] = field(default_factory=dict)  # of its refs, which a person let go, and when
    dispatched: float | None = None  # when the first event came that proves that the agent is the one and is at work
    life: Life | None = None  # what it does, as it was last seen
    needs_you: bool = False  # a person should look at it, by the policy of the state it is in
    hindrance: Hindrance | None = None  # why no model has answered in it
    seen: str = ""  # the last of what it printed then

    @property
    def counts(self) -> bool:
        """Whether it is a failure of the coder; one that was lost, or ended by us for no fault of its own, is not."""
        return self.verdict is not None and self.ending not in BLAMELESS

    @property
    def context_share(self) -> int | None:
        """How full its context was at the most, in percent; None when it is not known."""
        if not self.peak_context or not self.context_limit:
            return None
        return round(100 * self.peak_context / self.context_limit)


def names_model(names: Sequence[str], model: str) -> bool:
    """Whether a model is one of these; some put their provider's name in front of it."""
    return model in names or model.partition("/")[2] in names

"""What providers allow, account by account: windows that run dry, and answers that nobody gets through.

What an agent said is kept as it was said, and never believed beyond reason: a reset that lies in the past, or weeks
away, is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from sqlite3 import Row

import msgspec

from fleet.core.text import clean
from fleet.core.work import Window
from fleet.gates.base import Closed
from fleet.host import database

MAX_EARLY = 3  # so many different tasks at which agents end in seconds, without a word, are no accident
STORM, WITHIN = 3, 60.0  # so many refusals in so many seconds are no accident
PAUSE, LONGEST_PAUSE = 60.0, 600.0
LONGEST_WINDOW = 8 * 86_400.0
UNKNOWN_RESET = 300.0
MOST_WINDOWS = 10
SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    coder TEXT NOT NULL, account TEXT NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (coder, account)
) WITHOUT ROWID;
"""
ONE = "SELECT facts FROM accounts WHERE coder = :coder AND account = :account"
ALL = "SELECT facts FROM accounts ORDER BY coder, account"
SAVE = "INSERT INTO accounts VALUES (:coder, :account, :facts) ON CONFLICT DO UPDATE SET facts = :facts"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The provider turned an attempt away."""

    attempt: str
    at: float
    status: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one account of a coder; the account without a name is the agent's own login."""

    coder: str
    account: str
    windows: dict[str, Window] = field(default_factory=dict)
    told: float | None = None  # when a window was last heard of
    refusals: tuple[Refusal, ...] = ()
    pauses: int = 0  # in a row
    closed_until: float = 0.0
    cause: str = ""
    closed_by: str = ""  # the attempt whose refusal did it
    probing: bool = False  # until one run gets through, no second one is started
    cure: str = ""  # what a person does about it, who alone can
    early: tuple[str, ...] = ()  # the last tasks, in a row, at which agents ended in seconds without a word

    def closed(self, now: float) -> Closed | None:
        """Why nothing may start with this account now. A clock that was set back ends the wait."""
        if not now < self.closed_until <= now + LONGEST_WINDOW:
            return None
        said = f"{self.who} {self.cause}" if self.cure else f"{self.who}: {self.cause}"
        return Closed(said, self.closed_until, self.cure)

    @property
    def who(self) -> str:
        return f"{self.coder} ({self.account})" if self.account else self.coder


def hear(known: Standing, windows: Iterable[Window], now: float) -> Standing:
    """An agent told of some windows. One that is used up closes the account until it resets."""
    for window in list(windows)[-MOST_WINDOWS:]:
        known = _hear(known, replace(window, name=clean(window.name, 40)), now)
    return known


def _hear(known: Standing, window: Window, now: float) -> Standing:
    others = {name: one for name, one in known.windows.items() if name != window.name}
    kept = dict([*list(others.items())[1 - MOST_WINDOWS :], (window.name, window)])
    heard = replace(known, windows=kept, told=now)
    if not window.exhausted:
        return heard
    reset = _believable(window.resets, now)
    until = now + UNKNOWN_RESET if reset is None else reset
    if known.closed(now) is not None and known.closed_until >= until:
        return heard
    cause = f"{window.name} limit reached{', reset unknown' if reset is None else ''}"
    return replace(heard, closed_until=until, cause=cause, probing=reset is None)


def reopen(known: Standing, now: float) -> Standing:
    """A person says that it may be tried again, whatever was said of it: one goes first."""
    return replace(
        known, refusals=(), pauses=0, probing=True, closed_until=now, cause="opened by hand", cure="", early=()
    )


def refuse(known: Standing, refusal: Refusal) -> Standing:
    """An attempt ended because the provider turned it away. Several in a minute, or one on probation, are a storm.

    To be told of the same attempt twice changes nothing.
    """
    now = refusal.at
    if refusal.attempt in {one.attempt for one in known.refusals} | {known.closed_by}:
        return known
    recent = (*(one for one in known.refusals if abs(now - one.at) < WITHIN), refusal)
    if len(recent) < STORM and not known.probing:
        return replace(known, refusals=recent)
    if now < known.closed_until:  # those that were on their way when it closed
        return known
    pause = min(LONGEST_PAUSE, PAUSE * 2 ** min(known.pauses, 10))
    said = f"the provider answered {refusal.status} again"
    if not known.probing:
        said = f"{len(recent)} runs were turned away in a minute, the last with {refusal.status}"
    return replace(
        known, refusals=(), pauses=known.pauses + 1, closed_until=now + pause, cause=said, probing=True,
        closed_by=refusal.attempt,
    )  # fmt: skip


def bar(known: Standing, attempt: str, cause: str, cure: str, now: float) -> Standing:
    """An attempt ended as every other one would: it is closed, and one goes first after a pause that grows."""
    if attempt == known.closed_by or (known.cure and now < known.closed_until):
        return known
    pause = min(LONGEST_PAUSE, PAUSE * 2 ** min(known.pauses, 10))
    return replace(
        known, refusals=(), pauses=known.pauses + 1, closed_until=max(now + pause, known.closed_until), cause=cause,
        probing=True, closed_by=attempt, cure=cure,
    )  # fmt: skip


def note_end(known: Standing, task: str, *, early: bool) -> Standing:
    """An agent ended: in seconds, without a word and with a failure; or in any other way."""
    return replace(known, early=(*(one for one in known.early if one != task), task)[-MAX_EARLY:] if early else ())


def work(known: Standing) -> Standing:
    """A run got through: a model answered."""
    closed_until = 0.0 if known.cure else known.closed_until
    return replace(known, refusals=(), pauses=0, probing=False, closed_until=closed_until, cure="", early=())


def _believable(reset: float | None, now: float) -> float | None:
    return reset if reset is not None and now < reset <= now + LONGEST_WINDOW else None


class Book:
    """The standing of every account, in fleet.db. Only the supervisor writes it."""

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def all(self) -> list[Standing]:
        rows = database.ask(self._file, SCHEMA, ALL)
        return [known for row in rows if (known := _read(row[0])) is not None]

    def change(self, coder: str, account: str, change: Callable[[Standing], Standing]) -> Standing:
        """Know something new of an account."""
        key = {"coder": coder, "account": account}
        before = _standing(database.ask(self._file, SCHEMA, ONE, key), coder, account)
        if change(before) == before:  # as nearly always: nobody waits for the right to write
            return before
        with database.changing(self._file, SCHEMA) as db:
            before = _standing(db.execute(ONE, key).fetchall(), coder, account)
            after = change(before)
            if after != before:
                db.execute(SAVE, key | {"facts": msgspec.json.encode(after).decode()})
        return after


def _standing(rows: Sequence[Row], coder: str, account: str) -> Standing:
    return (_read(rows[0][0]) if rows else None) or Standing(coder, account)


READ = msgspec.json.Decoder(
    Standing
)  # made once, here: msgspec crashes when two threads need it first at the same time


def _read(facts: str) -> Standing | None:
    """One that was written by another version, or is damaged, is not known."""
    try:
        return READ.decode(facts)
    except msgspec.MsgspecError:
        return None

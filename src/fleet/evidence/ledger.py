"""The ledger of attempts: who tried which task, how it went, and what it used. Only the supervisor writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fleet.core import FleetError
from fleet.core.task import Spec
from fleet.core.work import AGENT, OF_EVERY_TASK, Attempt, Ending, Verdict
from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, number INTEGER NOT NULL, settled INTEGER NOT NULL, facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS attempts_of_a_task ON attempts (task, number);
CREATE INDEX IF NOT EXISTS attempts_unsettled ON attempts (settled) WHERE settled = 0;
CREATE INDEX IF NOT EXISTS attempts_ended ON attempts (json_extract(facts, '$.ended'));
CREATE INDEX IF NOT EXISTS attempts_refused ON attempts (json_extract(facts, '$.cwd'))
    WHERE json_extract(facts, '$.proof') = 'refused';
CREATE INDEX IF NOT EXISTS attempts_with_tools ON attempts (json_extract(facts, '$.coder'))
    WHERE json_extract(facts, '$.tools') <> '{}';
CREATE TABLE IF NOT EXISTS edits (attempt TEXT PRIMARY KEY, spec TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contexts (
    coder TEXT NOT NULL, model TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (coder, model)
) WITHOUT ROWID;
"""
NEXT = "SELECT coalesce(max(number), 0) + 1 FROM attempts WHERE task = :task"
BEGIN = "INSERT INTO attempts VALUES (:id, :task, :number, 0, :facts)"
SAVE = "UPDATE attempts SET settled = :settled, facts = :facts WHERE id = :id"
ONE = "SELECT facts FROM attempts WHERE id = :id"
OF_TASK = "SELECT facts FROM attempts WHERE task = :task ORDER BY number"
ALL = "SELECT facts FROM attempts ORDER BY task, number"
UNSETTLED = "SELECT facts FROM attempts WHERE settled = 0 ORDER BY id"
LAST_OF = """
    SELECT facts, max(number) FROM attempts WHERE task IN (SELECT value FROM json_each(:tasks)) GROUP BY task
"""
LEARN = """
    INSERT INTO contexts VALUES (:coder, :model, :tokens) ON CONFLICT DO UPDATE SET tokens = excluded.tokens
"""
EDIT = "INSERT INTO edits VALUES (:attempt, :spec) ON CONFLICT DO UPDATE SET spec = excluded.spec"
EDITED = "SELECT spec FROM edits WHERE attempt = :attempt"
CONTEXT = "SELECT tokens FROM contexts WHERE coder = :coder AND model = :model"
SINCE = """
    SELECT facts FROM attempts WHERE json_extract(facts, '$.ended') >= :moment OR json_extract(facts, '$.ended') IS NULL
    ORDER BY id
"""
REFUSED_IN = """
    SELECT facts FROM attempts
    WHERE json_extract(facts, '$.cwd') = :cwd AND json_extract(facts, '$.proof') = 'refused'
    ORDER BY json_extract(facts, '$.ended') DESC
"""
WITH_TOOLS = """
    SELECT 1 FROM attempts
    WHERE json_extract(facts, '$.coder') = :coder AND json_extract(facts, '$.tools') <> '{}' LIMIT 1
"""
OF_ALL = """
    SELECT facts FROM attempts WHERE task IN (SELECT value FROM json_each(:tasks)) ORDER BY task, number
"""
LAST_OF_EACH = "SELECT facts, max(number) FROM attempts GROUP BY task"

READ_SPEC = msgspec.json.Decoder(Spec)
READ = msgspec.json.Decoder(Attempt)  # made once, here: msgspec crashes when two threads need it first at the same time


PROVIDERS = (Ending.RATE_LIMITED, Ending.TURNED_AWAY, *OF_EVERY_TASK)


class Ledger:
    """Attempts in fleet.db. Calls take milliseconds and may be made from any thread."""

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def begin(self, first: Attempt) -> Attempt:
        """Write down a new attempt with the next number of its task."""
        with database.changing(self._file, SCHEMA) as db:
            number = db.execute(NEXT, {"task": first.task}).fetchone()[0]
            attempt = replace(first, id=f"{first.task}.{number}", number=number)
            db.execute(BEGIN, {"id": attempt.id, "task": attempt.task, "number": number, "facts": _written(attempt)})
        return attempt

    def save(self, attempt: Attempt) -> None:
        """Replace what is known of an attempt; it is settled once it has a verdict."""
        settled = int(attempt.verdict is not None)
        with database.changing(self._file, SCHEMA) as db:
            db.execute(SAVE, {"id": attempt.id, "settled": settled, "facts": _written(attempt)})
            if settled and attempt.context_limit is not None and attempt.context_from == AGENT:
                known = {"coder": attempt.coder, "model": attempt.model or "", "tokens": attempt.context_limit}
                db.execute(LEARN, known)

    def context(self, coder: str, model: str | None) -> int | None:
        """How much this coder reads at once with this model, as it said itself at the end of an earlier attempt."""
        found = database.ask(self._file, SCHEMA, CONTEXT, {"coder": coder, "model": model or ""})
        return found[0][0] if found else None

    def tells_tools(self, coder: str) -> bool:
        """Whether this coder has ever told of a tool that it called."""
        return bool(database.ask(self._file, SCHEMA, WITH_TOOLS, {"coder": coder}))

    def get(self, attempt: str) -> Attempt:
        found = self.find(attempt)
        if found is None:
            raise FleetError(f"the ledger has no attempt {attempt}", hint="fleet tasks --all")
        return found

    def find(self, attempt: str) -> Attempt | None:
        return next(iter(self._list(ONE, id=attempt)), None)

    def of(self, task: str) -> list[Attempt]:
        """The attempts at a task, the first one first."""
        return self._list(OF_TASK, task=task)

    def unsettled(self) -> list[Attempt]:
        """What the supervisor began and has not settled."""
        return [attempt for attempt in self._list(UNSETTLED) if not attempt.interactive]

    def talked_to(self) -> list[Attempt]:
        """What people began in a terminal and have not ended."""
        return [attempt for attempt in self._list(UNSETTLED) if attempt.interactive]

    def of_all(self, tasks: Sequence[str]) -> list[Attempt]:
        """The attempts at these tasks, of each the first one first."""
        return self._list(OF_ALL, tasks=msgspec.json.encode(tasks).decode())

    def last_of(self, tasks: Sequence[str]) -> dict[str, Attempt]:
        """The newest attempt at each of these tasks that was ever tried."""
        return {attempt.task: attempt for attempt in self._list(LAST_OF, tasks=msgspec.json.encode(tasks).decode())}

    def last_of_each(self) -> dict[str, Attempt]:
        """The newest attempt at every task that was ever tried."""
        return {attempt.task: attempt for attempt in self._list(LAST_OF_EACH)}

    def all(self) -> list[Attempt]:
        """Every attempt that there ever was."""
        return self._list(ALL)

    def since(self, moment: float) -> list[Attempt]:
        """The attempts that ended at this time or later, and those that have not ended."""
        return self._list(SINCE, moment=moment)

    def refused_in(self, directory: str) -> list[Attempt]:
        """The attempts whose work in that very directory was refused, the newest first."""
        return self._list(REFUSED_IN, cwd=directory)

    def forgive(self, task: str, *, keep_base: bool = False) -> None:
        """Let the failures so far count no more, for a person who opens the task again. With `keep_base` the next
        attempt goes on where the last one ended.
        """
        with database.changing(self._file, SCHEMA) as db:
            for attempt in [_read(row[0]) for row in db.execute(OF_TASK, {"task": task})]:
                if attempt.verdict is not None:
                    forgiven = _written(replace(attempt, forgiven=True, keeps_base=keep_base))
                    db.execute(SAVE, {"id": attempt.id, "settled": 1, "facts": forgiven})

    def note_receipt(self, attempt: str, name: str) -> None:
        """Note the hash of an attempt's receipt; what else is known of it may have changed meanwhile, and stays."""
        self._note(attempt, lambda known: replace(known, receipt=name))

    def note_edit(self, attempt: str, spec: Spec) -> None:
        """Note what a person made of a task's spec while this attempt ran."""
        with database.changing(self._file, SCHEMA) as db:
            db.execute(EDIT, {"attempt": attempt, "spec": msgspec.json.encode(spec).decode()})

    def edited_spec(self, attempt: str) -> Spec | None:
        """The spec as a person changed it last while this attempt ran."""
        found = database.ask(self._file, SCHEMA, EDITED, {"attempt": attempt})
        return READ_SPEC.decode(found[0][0]) if found else None

    def note_accepted(self, attempt: str) -> None:
        """Note that a person accepts what an attempt left."""
        self._note(attempt, lambda known: replace(known, accepted=True))

    def let_go(self, attempt: str, ref: str, moment: float) -> None:
        """Note that a ref of an attempt is let go."""
        self._note(attempt, lambda known: replace(known, let_go=known.let_go | {ref: moment}))

    def _note(self, attempt: str, noted: Callable[[Attempt], Attempt]) -> None:
        with database.changing(self._file, SCHEMA) as db:
            for known in [_read(row[0]) for row in db.execute(ONE, {"id": attempt})]:
                settled = int(known.verdict is not None)
                db.execute(SAVE, {"id": attempt, "settled": settled, "facts": _written(noted(known))})

    def _list(self, question: str, **values: str | float) -> list[Attempt]:
        return [_read(row[0]) for row in database.ask(self._file, SCHEMA, question, values)]


def failures(attempts: Iterable[Attempt]) -> int:
    """How many times in a row the coder has failed: since the task was last settled for good, or opened by a person."""
    count = 0
    for attempt in attempts:
        if attempt.forgiven or attempt.verdict not in (None, Verdict.RETRY):
            count = 0
        elif attempt.counts:
            count += 1
    return count


def lost(attempts: Iterable[Attempt]) -> int:
    """How many times in a row an attempt ended that was nobody's failure; one that a provider never let in
    cost nothing, and its account's gate has a count of its own.
    """
    count = 0
    for attempt in attempts:
        is_free = attempt.ending in (Ending.RATE_LIMITED, *OF_EVERY_TASK)
        if is_free or (attempt.ending is Ending.TURNED_AWAY and not attempt.turned):
            continue
        count = count + 1 if attempt.verdict is Verdict.RETRY and not attempt.counts and not attempt.forgiven else 0
    return count


def robbed(attempts: Iterable[Attempt], actor: str) -> int:
    """How many of the last attempts, in a row, were lost under this supervisor: so no machine went down with them."""
    count = 0
    for attempt in attempts:
        count = count + 1 if attempt.ending is Ending.LOST and attempt.actor == actor and not attempt.forgiven else 0
    return count


def limited(attempts: Iterable[Attempt]) -> int:
    """How many of the last attempts a provider's limit ended before a model had answered."""
    count = 0
    for attempt in attempts:
        count = count + 1 if attempt.ending is Ending.RATE_LIMITED and not attempt.turned else 0
    return count


def nudges(attempts: Iterable[Attempt]) -> int:
    """How many of the last attempts, in a row, were nudged."""
    count = 0
    for attempt in attempts:
        count = count + 1 if attempt.ending is Ending.NUDGED and not attempt.forgiven else 0
    return count


def _written(attempt: Attempt) -> str:
    return msgspec.json.encode(attempt).decode()


def _read(facts: str) -> Attempt:
    return READ.decode(facts)

"""Receipts checked again, from scratch. No supervisor is needed, and none is disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.app.home import ensure_home
from fleet.app.tasks import Desk
from fleet.core import FleetError, NotFound
from fleet.core.proof import Proof
from fleet.core.task import Task
from fleet.core.text import clean
from fleet.core.work import Attempt
from fleet.evidence import chain
from fleet.evidence.audit import Audit, Finding, audit, copied, stands
from fleet.evidence.chain import Key, Link
from fleet.evidence.ledger import Ledger
from fleet.evidence.receipt import Check, Receipt
from fleet.supervisor.choice import attempt_directory

if TYPE_CHECKING:
    from fleet.batches.proof import Now


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at. `chain` is what is wrong with the chain as a whole, and with attempts that nobody knows."""

    receipts: tuple[Audit, ...]
    chain: tuple[str, ...]
    links: int
    now: tuple[Now, ...] = ()  # agents in terminals that nobody has ended: they have no receipt yet

    @property
    def holds(self) -> bool:
        return not self.chain and all(one.holds for one in self.receipts) and all(one.holds for one in self.now)


def verify(name: str | None, *, run: bool) -> Verified:
    """The receipts of a task, an attempt or a branch; without a name all of them. The chain is looked at as a whole.

    Of agents in terminals that the name means, what stands in their places now is judged.
    """
    home = ensure_home()
    unended = [] if name is None else _unended(home, name)
    found = _look(home, name, unended)
    if not found.holds:
        found = _look(home, name, unended)  # a supervisor may have been about to write one
    receipts = tuple(_run_again(one) for one in found.receipts) if run else found.receipts
    return replace(found, receipts=receipts, now=tuple(_now(one, run=run) for one in unended))


def _look(home: Path, name: str | None, unended: Sequence[Attempt]) -> Verified:
    book = _Book(home)
    wanted: list[Attempt] = []
    with suppress(NotFound) if unended else nullcontext():
        wanted = book.chained() if name is None else book.named(name)
    return Verified(tuple(book.audit(one) for one in wanted), tuple(book.strange), len(book.links))


def _unended(home: Path, name: str) -> list[Attempt]:
    """The agents in terminals that a name means, as for every other command; outside of a project by their own."""
    from fleet.app.sites import find, open_site

    with suppress(FleetError):  # nobody is meant here, or the tracker cannot be asked: the ledger can
        return find(open_site(), name)
    return [one for one in Ledger(home).talked_to() if name in (one.id, one.task, one.branch)]


def _now(attempt: Attempt, *, run: bool) -> Now:
    from fleet.app.sites import open_house
    from fleet.batches.proof import now

    return now(open_house(), attempt, run=run)


def look(home: Path, attempt: str) -> Audit | None:
    """The receipt of one attempt, as `fleet verify` sees it without running anything; None when nobody knows of it."""
    book = _Book(home)
    known = book.attempts.get(attempt)
    return None if known is None else book.audit(known)


def doubts(home: Path, task: str) -> list[str]:
    """What speaks against the receipt that a task shows, in sentences."""
    book = _Book(home)
    audits = [book.audit(one) for one in book.chained() if one.task == task and book.is_shown(one)]
    return [found.text for one in audits for found in one.findings if found.holds is False]


class _Book:
    """The chain of a home beside its ledger."""

    def __init__(self, home: Path) -> None:
        self.home, head = home, chain.load_head(home)  # the head first: the chain may grow meanwhile
        self.attempts = {one.id: one for one in Ledger(home).all()}
        self.links = chain.links(home)
        self._tasks = _tasks()
        self._key, why = _key(home)
        self._last: dict[str, Link] = {link.attempt: link for link in self.links}
        self._broken: dict[str, list[str]] = {}
        self.strange: list[str] = [why] if why else []
        for link, text in chain.faults(self.links, self._key, head):
            self._broken.setdefault(link.attempt, []).append(text) if link else self.strange.append(text)
        # The task as a whole shows the receipt of the attempt that was settled last.
        self.shown = {
            self.attempts[link.attempt].task: link.attempt for link in self.links if link.attempt in self.attempts
        }
        self.strange += [
            f"the chain has a receipt of {clean(link.attempt)}, which the ledger does not know"
            for link in self.links
            if link.attempt not in self.attempts
        ]

    def chained(self) -> list[Attempt]:
        """Every attempt that should have a receipt."""
        return [one for one in self.attempts.values() if self._owes(one)]

    def _owes(self, one: Attempt) -> bool:
        """Whether an attempt should have a receipt. An older fleet wrote none; nor did it say what was proven."""
        return bool(one.receipt or (one.proof and one.verdict)) or one.id in self._last

    def named(self, name: str) -> list[Attempt]:
        found = [one for one in self.attempts.values() if name in (one.id, one.task)]
        found = found or [one for one in self.attempts.values() if one.branch == name]
        if not found:
            raise NotFound(f"there is no task, attempt or branch {clean(name)!r}", hint="fleet tasks --all")
        receipts = [one for one in found if self._owes(one)]
        if not receipts:
            raise NotFound(f"{clean(name)} has no receipt yet", hint=f"fleet show {found[-1].task}")
        return receipts

    def is_shown(self, attempt: Attempt) -> bool:
        """Whether its task shows what this attempt says: by its receipt, or without any."""
        return self.shown.get(attempt.task) == attempt.id or attempt.id not in self._last

    def audit(self, attempt: Attempt) -> Audit:
        link = self._last.get(attempt.id)
        broken = self._broken.get(attempt.id, [])
        found = audit(attempt, attempt_directory(self.home, attempt), link, broken)
        copy = self.home / "tasks" / attempt.task / "receipt.json"
        if link is None or self.shown.get(attempt.task) != attempt.id:
            return found
        more = (copied(attempt, copy, link), self._stands(attempt, found.receipt))
        return replace(found, findings=(*found.findings, *(one for one in more if one is not None)))

    def _stands(self, attempt: Attempt, receipt: Receipt | None) -> Finding | None:
        task = self._tasks.get(attempt.task)
        later = any(
            one.task == attempt.task and one.number > attempt.number and (one.verdict is None or one.id in self._last)
            for one in self.attempts.values()
        )
        return None if task is None or receipt is None or later else stands(task, attempt, receipt)


def _tasks() -> dict[str, Task]:
    """Every task by its id; none when the tracker cannot be asked now, which says nothing about receipts."""
    try:
        return {task.id: task for task in Desk.open().tracker.all()}
    except FleetError:
        return {}


def _key(home: Path) -> tuple[Key | None, str]:
    try:
        return chain.load_key(home), ""
    except FleetError as problem:
        return None, f"{problem.message}; mend it: {problem.hint}"


def _run_again(one: Audit) -> Audit:
    """The audit with what the checks say now, in a clean checkout of the tree that the receipt names."""
    receipt = one.receipt
    if receipt is None or not (receipt.checks or _owes(receipt)):
        return one
    if not one.holds:  # a command out of a file that somebody changed is not run
        found = Finding("checks", None, "not run again: this is not the receipt that was written, or what it names")
    elif receipt.result.tree is None:
        found = Finding("checks", None, "not run again: no tree was taken of what the attempt left")
    else:
        found = _first(receipt, _checks(receipt)) if not receipt.checks else _compared(receipt, _checks(receipt))
    return replace(one, findings=(*one.findings, found))


def _owes(receipt: Receipt) -> bool:
    """Whether checks were asked for and never run: whoever ends an agent in a terminal does not wait for them."""
    is_open = receipt.attempt.interactive and receipt.verdict is Proof.UNVERIFIED
    return is_open and receipt.attempt.demands is not None and bool(receipt.attempt.demands.checks)


def _checks(receipt: Receipt) -> list[Check]:
    from fleet.app.sites import open_house
    from fleet.supervisor.verify import check_again

    return check_again(open_house(), receipt)


def _first(receipt: Receipt, now: list[Check]) -> Finding:
    """What checks say that were never run before."""
    from fleet.batches.proof import proven

    proof, reason = proven(receipt.attempt, receipt.result, now)
    holds = {Proof.VERIFIED: True, Proof.REFUSED: False, Proof.UNVERIFIED: None}[proof]
    return Finding("checks", holds, clean(f"{proof} now, by checks that were never run before: {reason}", 500))


def _compared(receipt: Receipt, now: list[Check]) -> Finding:
    """Whether the checks say what they said; one that was cut off or never ran, then or now, says nothing."""
    before, after = ({(one.command, one.where): one for one in checks if _ran(one)} for checks in (receipt.checks, now))
    both = before.keys() & after.keys()
    other = [after[one] for one in before if one in both and before[one].passed != after[one].passed]
    if other:
        was = "failed" if other[0].passed else "passed"
        return Finding("checks", False, f"`{clean(other[0].command)}` {was}, and now: {clean(other[0].cause)}")
    if both < before.keys() or not both:
        why = next((f": {clean(one.cause)}" for one in now if not _ran(one)), "")
        return Finding("checks", None, f"{len(before) - len(both)} of {len(before)} could not be run again{why}")
    return Finding("checks", True, f"{len(both)} run again, with the same result")


def _ran(check: Check) -> bool:
    return not check.lost and check.seconds is not None

"""Receipts checked again, from scratch. No supervisor is needed, and none is disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.app.home import ensure_home
from fleet.core import FleetError, NotFound
from fleet.core.text import clean
from fleet.core.work import Attempt
from fleet.evidence import chain
from fleet.evidence.audit import Audit, Finding, audit, copied
from fleet.evidence.chain import Key, Link
from fleet.evidence.ledger import Ledger
from fleet.evidence.receipt import Receipt
from fleet.supervisor.choice import attempt_directory

Rerun = Callable[[Receipt], list[Finding]]


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at. `chain` is what is wrong with the chain as a whole, and with attempts that nobody knows."""

    receipts: tuple[Audit, ...]
    chain: tuple[str, ...]
    links: int

    @property
    def holds(self) -> bool:
        return not self.chain and all(one.holds for one in self.receipts)


def verify(name: str | None, *, run: bool, rerun: Rerun | None = None) -> Verified:
    """The receipts of a task, an attempt or a branch; without a name all of them. The chain is looked at as a whole."""
    book = _Book(ensure_home())
    wanted = book.chained() if name is None else book.named(name)
    receipts = [book.audit(one) for one in wanted]
    if run:
        receipts = [_run_again(one, rerun) for one in receipts]
    return Verified(tuple(receipts), tuple(book.strange), len(book.links))


def look(home: Path, attempt: str) -> Audit | None:
    """The receipt of one attempt, as `fleet verify` sees it without running anything; None when nobody knows of it."""
    book = _Book(home)
    known = book.attempts.get(attempt)
    return None if known is None else book.audit(known)


class _Book:
    """The chain of a home beside its ledger."""

    def __init__(self, home: Path) -> None:
        self.home, self.ledger = home, Ledger(home)
        self.links = chain.links(home)
        self._key, why = _key(home)
        self._last: dict[str, Link] = {link.attempt: link for link in self.links}
        self._broken: dict[int, list[str]] = {}
        self.strange: list[str] = [why] if why else []
        for link, text in chain.faults(self.links, self._key, chain.load_head(home)):
            self._broken.setdefault(link.number, []).append(text) if link else self.strange.append(text)
        self.attempts = {one.id: one for one in self.ledger.all()}
        self.strange += [
            f"the chain has a receipt of {clean(link.attempt)}, which the ledger does not know"
            for link in self.links
            if link.attempt not in self.attempts
        ]

    def chained(self) -> list[Attempt]:
        """Every attempt that should have a receipt."""
        return [one for one in self.attempts.values() if one.receipt or one.id in self._last]

    def named(self, name: str) -> list[Attempt]:
        found = [one for one in self.attempts.values() if name in (one.id, one.task)]
        found = found or [one for one in self.attempts.values() if one.branch == name]
        if not found:
            raise NotFound(f"there is no task, attempt or branch {clean(name)!r}", hint="fleet tasks --all")
        receipts = [one for one in found if one.receipt or one.id in self._last]
        if not receipts:
            raise NotFound(f"{clean(name)} has no receipt yet", hint=f"fleet show {found[-1].task}")
        return receipts

    def audit(self, attempt: Attempt) -> Audit:
        link = self._last.get(attempt.id)
        broken = self._broken.get(link.number, []) if link else []
        found = audit(attempt, attempt_directory(self.home, attempt), link, self._key, broken)
        copy = self.home / "tasks" / attempt.task / "receipt.json"
        wrong = copied(attempt, copy, link) if link and self._is_last(attempt) else None
        return replace(found, findings=(*found.findings, wrong)) if wrong else found

    def _is_last(self, attempt: Attempt) -> bool:
        """Whether the task as a whole shows the receipt of this attempt: that of the one that was settled last."""
        links = [link for link in self.links if (one := self.attempts.get(link.attempt)) and one.task == attempt.task]
        return bool(links) and links[-1].attempt == attempt.id


def _key(home: Path) -> tuple[Key | None, str]:
    try:
        return chain.load_key(home), ""
    except FleetError as problem:
        return None, f"{problem.message}; mend it: {problem.hint}"


def _run_again(one: Audit, rerun: Rerun | None) -> Audit:
    """The audit with what the checks say now, in a clean checkout of the tree that the receipt names."""
    if one.receipt is None or not one.receipt.checks:
        return one
    if rerun is None:
        found: Sequence[Finding] = [Finding("checks", None, "they were not run again")]
    else:
        found = rerun(one.receipt)
    return replace(one, findings=(*one.findings, *found))

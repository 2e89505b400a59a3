"""Receipts looked at again, from scratch: whether each is the one that was written, and whether what it names is there.

Nothing a receipt says is believed here: hashes are taken anew, git is asked anew, and the key decides who wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from fleet.core.task import Status, Task, is_cancelled
from fleet.core.text import clean, sayable
from fleet.core.work import Attempt, Verdict
from fleet.evidence.chain import Link, canonical
from fleet.evidence.receipt import RECEIPT, SHOWN, Receipt, Result
from fleet.evidence.tree import LANDING
from fleet.host import files, git, repository

TOLD = (  # of an attempt, by the ledger; what a person may change later is not among it
    "proof", "verdict", "ending", "reason", "cause", "coder", "model", "cwd", "base", "began_at", "base_tree",
    "started", "ended", "session", "tokens", "usage", "cost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: whether it holds, None when that cannot be told, and a sentence."""

    what: str
    holds: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What became of one receipt. `receipt` is None when there is none that could be read."""

    attempt: str
    task: str
    receipt: Receipt | None
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds is not False for finding in self.findings)


def audit(attempt: Attempt, directory: Path, link: Link | None, broken: Sequence[str]) -> Audit:
    """Look at the receipt of one attempt. `link` is its last one in the chain, `broken` what is wrong with that."""
    receipt, found = _file(attempt, directory / "receipt.json", link)
    findings = [found, _chained(attempt, link, broken)]
    if receipt is not None:
        findings += [
            _ledger(attempt, receipt),
            _transcript(receipt, directory / "stdout"),
            *_git(receipt, attempt.let_go),
        ]
    return Audit(attempt.id, attempt.task, receipt, tuple(findings))


def _file(attempt: Attempt, path: Path, link: Link | None) -> tuple[Receipt | None, Finding]:
    """The receipt on disk, as far as it is the one that was written."""
    try:
        content = files.read(path)
    except OSError:
        content = None
    if content is None:
        return None, Finding("receipt", False, f"the receipt of {attempt.id} is gone: {path}")
    try:
        receipt, name = RECEIPT.decode(content), hashlib.sha256(canonical(content)).hexdigest()
    except (msgspec.MsgspecError, ValueError) as problem:
        return None, Finding("receipt", False, f"{path} is no receipt: {clean(str(problem))}")
    wanted = link.hash if link else attempt.receipt
    if receipt.attempt.id != attempt.id:
        said = f"{path} is the receipt of {clean(receipt.attempt.id)}, not of {attempt.id}"
    elif name != receipt.hash:
        said = f"the receipt of {attempt.id} was changed after it was written: {path}"
    elif name != wanted or (link is not None and receipt.mac != link.mac):
        said = f"the receipt of {attempt.id} is not the one that was written: {path}"
    else:
        return receipt, Finding("receipt", True, "as it was written")
    return receipt, Finding("receipt", False, said)


def copied(attempt: Attempt, path: Path, link: Link) -> Finding | None:
    """What is wrong with the copy that `fleet task` shows of a task's last receipt; None when nothing is."""
    _, found = _file(attempt, path, link)
    return None if found.holds else Finding("copy", False, found.text)


def _chained(attempt: Attempt, link: Link | None, broken: Sequence[str]) -> Finding:
    if link is None and not attempt.receipt:
        said = f"{attempt.id} says {attempt.proof}, and there is no receipt of it in the chain"
        return Finding("chain", False, f"{said}; a supervisor that was ended while it wrote one goes on: fleet run")
    if link is None:
        return Finding("chain", False, f"the receipt of {attempt.id} is missing from the chain")
    if attempt.receipt and attempt.receipt != link.hash:
        return Finding("chain", False, f"the ledger knows another receipt of {attempt.id} than the chain has")
    if broken:
        return Finding("chain", False, "; ".join(broken))
    return Finding("chain", True, f"receipt {link.number} of this home, signed with its key")


def _ledger(attempt: Attempt, receipt: Receipt) -> Finding:
    """What people are shown comes from the ledger: it must say what the receipt says."""
    for name in TOLD:
        known, wrote = getattr(attempt, name), getattr(receipt.attempt, name)
        if known != wrote:
            said = f"the ledger says {clean(str(known or 'nothing'))!r}, the receipt {clean(str(wrote or 'nothing'))!r}"
            return Finding("ledger", False, f"{said} ({name})")
    words = [one.value for one in (attempt.verdict, attempt.proof) if one is not None]
    return Finding("ledger", True, f"it says the same: {', '.join(words) or 'not settled'}")


def stands(task: Task, attempt: Attempt, receipt: Receipt) -> Finding | None:
    """Whether the task is in the state that its last receipt put it in; where it is not, a person may have decided so,
    or somebody who can write to the tracker: which of them cannot be told.
    """
    accepted = receipt.attempt.verdict is Verdict.ACCEPTED
    closed = task.status is Status.CLOSED and not is_cancelled(task)
    if accepted == closed or attempt.forgiven or (is_cancelled(task) and not accepted):
        return None
    verdict = receipt.attempt.verdict.value if receipt.attempt.verdict else "no verdict"
    why = f": {clean(task.reason)}" if task.reason else ""
    return Finding("task", None, f"it is {task.status.value}, and the receipt says {verdict}; by hand{why}")


def _transcript(receipt: Receipt, path: Path) -> Finding:
    heard = receipt.heard
    if not heard.sha256:
        return Finding("transcript", None, "none was hashed")
    found = _hash(path)
    if heard.size and not found[1]:
        return Finding("transcript", False, f"the transcript is gone: {path}")
    if found != (heard.sha256, heard.size):
        return Finding("transcript", False, f"the transcript was changed after it was hashed: {path}")
    return Finding("transcript", True, f"{heard.size} bytes, as they were")


def _hash(path: Path) -> tuple[str, int]:
    size, found = 0, hashlib.sha256()
    for piece in files.pieces(path):
        found.update(piece)
        size += len(piece)
    return found.hexdigest(), size


def _git(receipt: Receipt, let_go: Mapping[str, float]) -> Iterator[Finding]:
    """The commit that would land, its tree, and what it changes. What was let go, and when, the ledger says."""
    result, attempt = receipt.result, receipt.attempt
    if result.head is None and result.landing is None:
        return
    at = Path(attempt.repository or attempt.cwd)
    found = git.find(at) or git.bare(at)
    if found is None:
        missing = False if result.landing else None
        yield Finding("commit", missing, f"there is no repository any more: {at}")
        return
    with git.mirror(found) as ours:
        yield _landing(attempt, result, found, ours, let_go) if result.landing else _head(result, ours)
        if (compared := _difference(result, ours)) is not None:
            yield compared


def _landing(
    attempt: Attempt, result: Result, found: git.Repository, ours: git.Mirror, let_go: Mapping[str, float]
) -> Finding:
    """What may land is pinned by a ref of fleet's own: that must still name it, and it must have that tree. Of one that
    was let go nothing more can be told once git has forgotten it.
    """
    landing, name = result.landing or "", f"{LANDING}{attempt.id}"
    tree, pinned = ours.tree(landing), repository.ref(found.common, name)
    went = f"let go on {datetime.fromtimestamp(let_go[name]):%Y-%m-%d}" if name in let_go and pinned is None else ""
    if tree is None and went:
        return Finding("commit", None, f"the commit {landing[:12]} was {went}, and is not in the repository any more")
    if tree is None:
        said = f"the commit {landing[:12]} that the receipt names is gone from {found.top}"
    elif tree != result.tree:
        said = (
            f"the commit {landing[:12]} has the tree {tree[:12]}, and the receipt says {(result.tree or 'none')[:12]}"
        )
    elif pinned != landing and not went:
        said = f"{name} names {pinned[:12] if pinned else 'nothing'}, and the receipt says {landing[:12]}"
    else:
        where = f"its ref was {went}" if went else f"kept as {name}"
        return Finding("commit", True, f"{landing[:12]} with tree {tree[:12]}, {where}")
    return Finding("commit", False, said)


def _head(result: Result, ours: git.Mirror) -> Finding:
    """A commit that nobody pinned may be gone with its branch: then nothing can be said."""
    head = result.head or ""
    if ours.tree(head) is None:
        return Finding("commit", None, f"the commit {head[:12]} is not in the repository any more")
    return Finding("commit", True, f"{head[:12]} is there")


def _difference(result: Result, ours: git.Mirror) -> Finding | None:
    """The changed paths, found anew. However renames were told, the paths on both sides are the same."""
    before, after = (result.base_tree, result.tree) if result.tree else (result.base, result.head)
    if after is None:
        return None
    if not _is_there(ours, before) or not _is_there(ours, after):
        return Finding("diff", None, "what was compared is not in the repository any more")
    found = {sayable(path): (added, removed) for path, added, removed in ours.changes(before, after)}
    said = {path for one in result.changes for path in (one.path, one.old_path) if path}
    wrong = said - found.keys() or (found.keys() - said if len(result.changes) < SHOWN else set())
    wrong |= {
        one.path
        for one in result.changes
        if not one.old_path and not _same_lines(one.added, one.removed, found, one.path)
    }
    if wrong:
        return Finding("diff", False, f"the diff is not what the receipt says: {clean(min(wrong))}")
    files_, lines = len(found), [sum(one[n] for one in found.values()) for n in (0, 1)]
    return Finding("diff", True, f"{files_} file{'' if files_ == 1 else 's'}, +{lines[0]} -{lines[1]}, the same again")


def _same_lines(added: int | None, removed: int | None, found: Mapping[str, tuple[int, int]], path: str) -> bool:
    return path not in found or (added or 0, removed or 0) == found[path]


def _is_there(ours: git.Mirror, name: str | None) -> bool:
    return name is None or name == git.EMPTY_TREE or ours.has_tree(name)

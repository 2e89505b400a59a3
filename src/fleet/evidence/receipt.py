"""The receipt of an attempt: plain facts that the supervisor saw for itself."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TypeVar

import msgspec

from fleet.core.frozen import dataclass
from fleet.core.proof import Breach, Change, Claim, Heard, Program, Proof
from fleet.core.text import sayable
from fleet.core.work import Attempt
from fleet.evidence.moved import Moved
from fleet.evidence.snapshot import Snapshot, changed
from fleet.host import files, git

SHOWN, COMMITS = 200, 100  # paths of one list, and commits, that are written down
QUESTIONS = "Q&A.md"
NO_RESULT = {"PLAN_AND_STATUS.md", QUESTIONS}  # an agent's notes to itself, and its questions, are not what it was for
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in the place afterwards. None is unknown: too many files to look at, or git could not say."""

    base: str | None
    head: str | None
    commits: list[Commit]
    changes: list[Change]
    uncommitted: list[str] | None
    artifacts: list[str] | None
    gone: list[str] = field(default_factory=list)  # files, or changes that were not committed, that are no more
    shared: list[str] = field(default_factory=list)  # attempts in the same directory at the same time
    base_tree: str | None = None  # what was found, with what was not committed, before the first attempt in this place
    tree: str | None = None  # what it left: this is what is checked, and what may land
    # The commit with that tree, kept under refs/fleet/attempts/: what is written later does not count.
    landing: str | None = None
    breaches: list[Breach] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)  # of all changes, however many of them are listed
    check_files: list[str] = field(default_factory=list)  # of the checks' own files, those that differ and may
    left_out: list[str] = field(default_factory=list)  # not committed, and git would pass them through a filter
    problem: str | None = None  # why no tree could be taken of what it left
    outdated: list[str] = field(default_factory=list)  # what it stands on that is not its task's result any more
    unseen: str | None = None  # why nobody could look at its gates, whatever its checks say
    # Branches and tags of the user's repository that moved while the agent ran, by it or by others; None: it has one of
    # its own, or nobody can tell.
    moved: list[Moved] | None = None

    @property
    def effect(self) -> bool | None:
        """Whether anything was done, by this attempt or by those before it whose work this one found; None when it
        cannot be known. A head that was there and cannot be found any more is not work.
        """
        if self.problem is not None:
            return None
        if self.base is not None and self.head is None:
            return False
        if self.is_changed or self.head != self.base or self.uncommitted or self.gone:
            return True
        if set(self.artifacts or ()) - NO_RESULT:
            return True
        return None if self.uncommitted is None or self.artifacts is None else False

    @property
    def is_changed(self) -> bool | None:
        """Whether anything would land, or stands in a directory without git; None when it cannot be known."""
        if self.tree is not None:
            return self.tree != self.base_tree
        if self.head != self.base or self.uncommitted or self.gone:
            return True
        return None if self.uncommitted is None else False


@dataclass(frozen=True, slots=True)
class Process:
    """How the agent's process went, as its keeper saw it."""

    cause: str
    code: int | None = None
    signal: int | None = None
    error: str | None = None
    wall: float | None = None
    cpu: float | None = None
    memory: int | None = None
    output: int = 0
    dropped: int = 0
    leftovers: int = 0  # processes that it left behind and its keeper ended
    survivors: int = 0  # processes that could not be ended
    fenced: bool | None = None  # whether it was kept from fleet's own files; None: it was not to be
    unfenced: str | None = None  # why not


@dataclass(frozen=True, slots=True)
class Check:
    """A command that the supervisor ran itself after the agent had ended."""

    command: str
    passed: bool
    cause: str
    code: int | None
    seconds: float | None
    tail: str
    lost: bool = False  # it was cut off, and says nothing about the work
    name: str = ""
    source: str = "task"
    sha256: str = ""  # of its output
    counts: dict[str, int] = field(default_factory=dict)  # passed, failed, skipped, where the runner prints them
    where: str = ""  # a clean checkout of the tree; with the checks' own files as they were; the place itself
    network: bool | None = None  # whether it could reach one; None is unknown
    argv: list[str] = field(default_factory=list)  # as it was run
    failure: str = ""  # what failed in it, by what it printed: the first failing test and its message
    leads: str = ""  # why what it was lent brought the user's own files in, which are not what was checked


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is known about one attempt. What only the agent said is in the attempt: its events, its tokens, its cost."""

    attempt: Attempt
    process: Process
    result: Result
    checks: list[Check] = field(default_factory=list)
    before: list[Check] = field(default_factory=list)  # what its checks said of what it began with, before its agent
    program: Program = field(default_factory=Program)
    heard: Heard = field(default_factory=Heard)
    claims: list[Claim] = field(default_factory=list)
    verdict: Proof | None = None
    reason: str = ""  # in one sentence
    version: int = 1
    previous: str = ""  # the hash of the receipt before it in this home
    hash: str = ""
    mac: str = ""


def examine(cwd: Path, before: Snapshot, after: Snapshot) -> Result:
    """What came of an attempt, from a look before it and a look after it."""
    commits: list[Commit] = []
    changes: list[Change] = []
    repository = git.find(cwd)
    if repository is not None and after.head is not None and after.head != before.head:
        with git.mirror(repository) as ours:
            commits = [Commit(name, sayable(subject)) for name, subject in ours.commits(before.head, after.head)]
            found = ours.changes(before.head, after.head)[:SHOWN]
            changes = [Change(sayable(path), added, removed) for path, added, removed in found]
    touched = changed(before.files, after.files)
    left = None if touched is None else [path for path in touched if path in (after.files or {})]
    gone = [path for path in touched or () if path not in (left or ())] if before.head == after.head else []
    artifacts = changed(before.artifacts, after.artifacts)
    return Result(
        before.head,
        after.head,
        commits,
        changes,
        None if left is None else left[:SHOWN],
        None if artifacts is None else artifacts[:SHOWN],
        gone[:SHOWN],
    )


def save(path: Path, value: Receipt | Snapshot) -> None:
    content = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    try:
        files.write(path, content, files.PRIVATE)
    except IsADirectoryError:  # an agent's joke
        files.put_aside(path)
        files.write(path, content, files.PRIVATE)


# Made once, here: msgspec crashes when two threads need one first at the same time.
RECEIPT, SNAPSHOT = msgspec.json.Decoder(Receipt), msgspec.json.Decoder(Snapshot)


def load_receipt(path: Path) -> Receipt | None:
    return _load(path, RECEIPT)


def load_snapshot(path: Path) -> Snapshot | None:
    return _load(path, SNAPSHOT)


def _load(path: Path, kind: msgspec.json.Decoder[T]) -> T | None:
    try:
        data = files.read(path)
        return None if data is None else kind.decode(data)
    except (OSError, msgspec.MsgspecError):
        return None

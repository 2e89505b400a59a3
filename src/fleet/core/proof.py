"""The nouns of the evidence plane: what is asked of a result before it is believed, and what was found."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from fleet.core.frozen import dataclass
from fleet.core.task import TaskKind as TaskKind


class Proof(StrEnum):
    """What the evidence says of an attempt's work."""

    VERIFIED = "verified"  # every gate held, and a check that fleet ran itself passed
    REFUSED = "refused"  # a gate did not hold
    UNVERIFIED = "unverified"  # no gate speaks against it, and nothing was given to check it with


class Unverified(StrEnum):
    """What becomes of a task whose work nothing could check."""

    CLOSE = "close"
    ASK = "ask"


class OnBreach(StrEnum):
    """What becomes of an agent that is seen to touch what it may not, while it works."""

    FLAG = "flag"  # it is said at once, and judged at the end
    END = "end"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a result may touch. Globs are those of a .gitignore. None is no limit, or what is inherited."""

    allow: tuple[str, ...] = ()  # only these; nothing given is everything
    deny: tuple[str, ...] = ()
    files: int | None = None  # changed at the most
    deletions: int | None = None  # 0 unless it is said
    protected: tuple[str, ...] = ()  # of the protected paths, those that may be changed
    on_breach: OnBreach | None = None  # flag unless it is said


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A command that decides about a result. It is taken from where the agent could not have written it."""

    run: str  # for /bin/sh, in a clean checkout of what would land
    name: str = ""
    timeout: float = 600.0
    source: str = "task"  # or: fleet.yaml at COMMIT; fleet.yaml, as it stands outside the place
    needs: tuple[str, ...] = ()  # paths, ignored by git, that it is lent from the project's own working tree
    before: bool = True  # whether it is run once on what a task begins with


@dataclass(frozen=True, slots=True)
class ProjectDemands:
    """What a project's fleet.yaml asks of every result. None is what is inherited."""

    checks: tuple[CheckSpec, ...] = ()
    scope: Scope = field(default_factory=Scope)
    unverified: Unverified | None = None


@dataclass(frozen=True, slots=True)
class Demands:
    """Everything that is asked of the result of one attempt, as it stood before its agent ran."""

    kind: TaskKind = TaskKind.WORK
    checks: tuple[CheckSpec, ...] = ()
    scope: Scope = field(default_factory=Scope)
    unverified: Unverified = Unverified.CLOSE


class ChangeKind(StrEnum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"


class EntryKind(StrEnum):
    """What a path of a git tree is."""

    FILE = "file"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between what an attempt found and what it left. Lines are None where it is not text."""

    path: str
    added: int | None = None
    removed: int | None = None
    change: ChangeKind = ChangeKind.MODIFIED
    entry: EntryKind = EntryKind.FILE
    old_path: str | None = None  # of what was renamed
    old_mode: str | None = None  # as git writes it, 100644; None where there was nothing
    mode: str | None = None
    target: str | None = None  # where a symbolic link leads, as it is written in it; None: no link, or not known


@dataclass(frozen=True, slots=True)
class Breach:
    """A change that is outside what the result may touch, and the sentence that says so."""

    path: str  # empty: of the change as a whole
    rule: str  # allow, deny, files, deletions, protected, symlink
    reason: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the agent said of its work, and what speaks for or against it."""

    text: str
    holds: bool | None = None  # None: nothing speaks for it or against it
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent's output shows, apart from its words."""

    sha256: str = ""
    size: int = 0
    tools: dict[str, int] = field(default_factory=dict)  # calls, by name
    calls: int | None = None  # None: this coder does not report them
    unmatched: int = 0  # calls of which no end was seen
    commands: tuple[str, ...] = ()  # that its tools ran, as far as they tell
    claimed_only: tuple[str, ...] = ()  # commands that it says it ran, and never did
    words: str = ""  # its last ones, cut


@dataclass(frozen=True, slots=True)
class Program:
    """The program that an attempt ran, as fleet found it before it started."""

    path: str = ""
    version: str | None = None
    sha256: str | None = None

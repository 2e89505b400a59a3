"""The salvage that a repository has: listed, looked at, let go."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from fleet.core import FleetError, NotFound
from fleet.core.text import clean
from fleet.host import repository
from fleet.host.git import COMMIT
from fleet.places.paths import Project
from fleet.places.salvage.find import REFS

LATEST = 253402300800.0  # the year 10000, which no calendar has


@dataclass(frozen=True, slots=True)
class Kept:
    """One salvage, as the repository has it."""

    name: str
    commit: str
    branch: str
    base: str | None
    path: str
    at: float
    task: str = ""
    size: int | None = None
    mark: str = ""
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a salvage holds: files with their bytes, and commits (hash and subject) that no branch led to."""

    kept: Kept
    files: tuple[tuple[str, int], ...]
    gone: tuple[str, ...]
    commits: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """What the message of a salvage's commit says."""

    branch: str | None = None
    base: str | None = None
    head: str | None = None
    path: str = ""
    at: float = 0.0
    task: str = ""
    size: int | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What git cannot say of the files of a salvage; paths are as Python has those that are not UTF-8."""

    odd: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


T = TypeVar("T")


def _read(text: str | bytes, kind: type[T]) -> T | None:
    """What stands in a salvage, None when fleet would not write it: any agent can write a ref."""
    try:
        return msgspec.convert(json.loads(text), kind)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def all(project: Project) -> list[Kept]:
    """Every salvage of a repository, the oldest first."""
    form = "%(refname)%00%(objectname)%00%(contents:body)%00"
    out = repository.do(project.common, "for-each-ref", f"--format={form}", REFS, what="the salvage cannot be listed")
    words = out.split("\0")
    found = zip(words[::3], words[1::3], words[2::3], strict=False)
    return sorted((_kept(ref.strip("\n"), commit, body) for ref, commit, body in found), key=lambda one: one.at)


def _kept(ref: str, commit: str, body: str) -> Kept:
    said = _read(body, _Said) or _Said()
    base, head = (one if one and COMMIT.match(one) else None for one in (said.base, said.head))
    return Kept(
        ref.removeprefix(REFS), commit, said.branch or "", base, said.path, said.at if 0 <= said.at < LATEST else 0.0,
        said.task, said.size, said.mark, head,
    )  # fmt: skip


def find(project: Project, name: str) -> Kept:
    for one in all(project):
        if one.name == name:
            return one
    raise NotFound(f"there is no salvage {clean(name)!r} in {clean(str(project.top))}", hint="fleet salvage list")


def show(project: Project, name: str) -> Content:
    """What is in a salvage."""
    kept = find(project, name)
    what = f"{kept.name} cannot be read"
    listed = repository.do(project.common, "ls-tree", "-r", "-z", "-l", "--full-tree", kept.commit, what=what)
    facts = facts_of(project, kept)
    found = []
    for line in listed.split("\0"):
        about, _, path = line.partition("\t")
        path = facts.odd.get(path.removeprefix("odd/"), path) if path.startswith("odd/") else path
        size = about.split()[-1:]
        if path.startswith("files/") and size[0].isdigit():
            found.append((path.removeprefix("files/"), int(size[0])))
    return Content(kept, tuple(sorted(found)), tuple(facts.gone), _commits(project, kept))


def facts_of(project: Project, kept: Kept) -> Facts:
    """What git cannot say of its files; a salvage that fleet did not write is refused."""
    facts = _read(b"".join(repository.blob(project.common, f"{kept.commit}:facts.json")), Facts)
    if facts is None or not _are_paths([*facts.odd.values(), *facts.gone, *facts.empty]):
        raise FleetError(f"{kept.name} was not written by fleet", hint=f"git show --stat {REFS}{kept.name}")
    return facts


def _are_paths(words: list[str]) -> bool:
    try:
        return b"\0" not in b"".join(os.fsencode(word) for word in words)
    except UnicodeEncodeError:
        return False


def _commits(project: Project, kept: Kept) -> tuple[tuple[str, str], ...]:
    args = ("log", "-z", "--no-walk", "--format=%H %s", f"{kept.commit}^@", "--")
    text = repository.ask(project.common, *args).out.decode(errors="surrogateescape")
    pairs = (line.partition(" ") for line in text.split("\0") if line)
    return tuple((commit, subject) for commit, _, subject in pairs if commit != kept.head)


def drop(project: Project, name: str) -> Kept:
    """Let a salvage go: git forgets its bytes some time later."""
    kept = find(project, name)
    repository.do(
        project.common, "update-ref", "-d", REFS + kept.name, kept.commit, what=f"{kept.name} cannot be dropped"
    )
    return kept

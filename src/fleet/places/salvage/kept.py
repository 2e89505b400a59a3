"""The salvage that a repository has: listed, looked at, let go."""

from __future__ import annotations

import json
import os
from dataclasses import field
from typing import TypeVar

import msgspec

from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import repository
from fleet.host.git import COMMIT, EMPTY_TREE
from fleet.places.paths import Project
from fleet.places.salvage.find import REFS

MOST = 1000  # commits that are named
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
    """What a salvage holds: files with their bytes, also those only staged; commits that no branch leads to."""

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
# Known from here on: msgspec crashes when two threads need a type first at the same time.
msgspec.json.Decoder(_Said), msgspec.json.Decoder(Facts)


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


def find(project: Project, name: str, prefix: str = "") -> Kept:
    """The salvage of that name; or of that task or branch, when there is only one. The prefix may be left out."""
    known = all(project)
    for found in (
        [one for one in known if one.name == name],
        [one for one in known if one.task == name],
        [one for one in known if one.branch == name],
        [one for one in known if one.branch == prefix + name],
    ):
        if len(found) > 1:
            names = ", ".join(clean(one.name) for one in found)
            raise BadConfig(f"{clean(name)} names {len(found)} that were saved: {names}", hint="fleet salvage list")
        if found:
            return found[0]
    raise NotFound(f"there is no salvage {clean(name)!r} in {clean(str(project.top))}", hint="fleet salvage list")


def show(project: Project, name: str) -> Content:
    """What is in a salvage."""
    kept = find(project, name)
    what = f"{kept.name} cannot be read"
    listed = repository.do(project.common, "ls-tree", "-r", "-z", "-l", "--full-tree", kept.commit, what=what)
    facts = facts_of(project, kept)
    staged, unstaged = _staged(project, kept)
    found: dict[str, int] = {}
    for line in listed.split("\0"):
        about, _, path = line.partition("\t")
        path = facts.odd.get(path.removeprefix("odd/"), path) if path.startswith("odd/") else path
        size = about.split()[-1:]
        folder, _, path = path.partition("/")
        if (folder == "files" or (folder == "staged" and path in staged and path not in found)) and size[0].isdigit():
            found[path] = int(size[0])
    gone = dict.fromkeys([*facts.gone, *(path for path in unstaged if path not in found)])
    return Content(kept, tuple(sorted(found.items())), tuple(gone), _commits(project, kept))


def _staged(project: Project, kept: Kept) -> tuple[set[str], list[str]]:
    """What the index had that the last commit has not, and what it had not any more."""
    tree = f"{kept.commit}:staged"
    args = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", kept.head or EMPTY_TREE, tree, "--")
    done = repository.ask(project.common, *args)
    words = done.out.decode(errors="surrogateescape").split("\0") if done.code == 0 else []
    pairs = list(zip(words[::2], words[1::2], strict=False))
    return {path for how, path in pairs if how != "D"}, [path for how, path in pairs if how == "D"]


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
    """The commits that go for good with the salvage: those that no branch or tag leads to now."""
    but = ("--not", "--branches", "--tags", "--remotes")
    args = ("log", "-z", f"--max-count={MOST}", "--format=%H %s", f"{kept.commit}^@", *but, "--")
    text = repository.ask(project.common, *args).out.decode(errors="surrogateescape")
    pairs = (line.partition(" ") for line in text.split("\0") if line)
    return tuple((commit, subject) for commit, _, subject in pairs)


def drop(project: Project, name: str) -> Kept:
    """Let a salvage go: git forgets its bytes some time later."""
    kept = find(project, name)
    repository.do(
        project.common, "update-ref", "-d", REFS + kept.name, kept.commit, what=f"{kept.name} cannot be dropped"
    )
    return kept

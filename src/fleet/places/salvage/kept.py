"""The salvage that a repository has: listed, looked at, let go."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fleet.core import NotFound
from fleet.core.text import clean
from fleet.host import repository
from fleet.places.paths import Project

REFS = "refs/fleet/salvage/"


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


def all(project: Project) -> list[Kept]:
    """Every salvage of a repository, the oldest first."""
    form = "%(refname)%00%(objectname)%00%(contents:body)%00%00"
    out = repository.do(project.common, "for-each-ref", f"--format={form}", REFS, what="the salvage cannot be listed")
    found = [entry.strip("\n").split("\0", 2) for entry in out.split("\0\0")]
    return sorted((_kept(*one) for one in found if len(one) == 3), key=lambda one: one.at)


def _kept(ref: str, commit: str, body: str) -> Kept:
    try:
        said = json.loads(body)
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    return Kept(
        ref.removeprefix(REFS), commit, str(said.get("branch") or ""), said.get("base"), str(said.get("path") or ""),
        float(said.get("at") or 0), str(said.get("task") or ""), said.get("size"),
        str(said.get("mark") or ""), said.get("head"),
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
    facts = json.loads(b"".join(repository.blob(project.common, f"{kept.commit}:facts.json")))
    found = []
    for line in listed.split("\0"):
        about, _, path = line.partition("\t")
        path = facts["odd"].get(path.removeprefix("odd/"), path) if path.startswith("odd/") else path
        if path.startswith("files/"):
            found.append((path.removeprefix("files/"), int(about.split()[3])))
    return Content(kept, tuple(sorted(found)), tuple(facts["gone"]), _commits(project, kept))


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

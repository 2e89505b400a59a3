"""Everything that only a place has, kept in the main repository: refs/fleet/salvage/NAME.

One commit holds it all. Its parents are the last commit and those that no branch leads to. Its tree has `staged` (what
the index had, each stage of a conflict apart), `files` (those that differed from it, byte for byte), `git` (the place's
own files of git: HEAD, its history, a merge or a rebase under way) and `odd` (files whose path git would not take).
`facts.json` says where each odd one was, what was deleted, which modes were unusual, and which directories were empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.core.work import PlaceKind
from fleet.host import git, repository
from fleet.places import clone, record
from fleet.places.base import Place
from fleet.places.paths import Project, origin
from fleet.places.salvage import kept
from fleet.places.salvage.find import Finds, look
from fleet.places.salvage.kept import REFS
from fleet.places.salvage.stream import stream

INCOMING = "refs/fleet/incoming/"
CAP = 1024**3
NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Saved:
    """What was kept of a place; `mark` tells whether anything was written there since."""

    name: str
    commit: str
    files: int
    commits: int
    bytes: int
    mark: str
    ignored: bool = False  # ignored files too


class TooBig(FleetError):
    """More than the cap would be kept; the caller may raise it."""

    def __init__(self, place: Place, size: int, cap: int) -> None:
        super().__init__(
            f"{place.path} holds {size // 1024**2} MB that are not committed; at most {cap // 1024**2} MB are kept",
            hint="commit or delete what is large there, or allow more: --cap 10GB",
        )
        self.size = size


def save(place: Place, name: str, *, ignored: bool = False, cap: int | None = CAP, task: str = "") -> Saved | None:
    """Keep everything that only this place has; None when there is nothing. Over the cap nothing is kept: TooBig."""
    if place.kind is PlaceKind.INPLACE:
        return _save(place, name, ignored, cap, task)
    with record.alone(place.path):
        return _save(place, name, ignored, cap, task)


def _save(place: Place, name: str, ignored: bool, cap: int | None, task: str) -> Saved | None:
    project = origin(place)
    finds = look(project, place, ignored=ignored)
    if finds.is_nothing:
        return None
    if cap is not None and finds.size > cap:
        raise TooBig(place, finds.size, cap)
    before = kept.all(project)
    for one in before:
        if one.mark == finds.mark and one.path == str(place.path):  # whoever saved it was killed before removing it
            return _saved(one.name, one.commit, finds, ignored=ignored)
    name = _free_name(name, {one.name for one in before})
    if place.kind is PlaceKind.CLONE:
        _bring(project, place, finds, name)
    pieces = stream(place, finds, (REFS + name).encode(), task)
    done = repository.fast_import(project.common, pieces)
    if done.code:
        raise repository.refused(done, f"{place.path} cannot be saved")
    commit = repository.ref(project.common, REFS + name)
    if commit is None:
        raise FleetError(f"{place.path} was not saved: {clean(done.said, 500)}", hint="fleet salvage list")
    _drop_incoming(project, name)
    return _saved(name, commit, finds, ignored=ignored)


def _saved(name: str, commit: str, finds: Finds, *, ignored: bool) -> Saved:
    return Saved(name, commit, len(finds.inside), len(finds.parents), finds.size, finds.mark, ignored)


def is_as_saved(place: Place, saved: Saved | None) -> bool:
    """Whether nothing was written in a place since it was saved, or since there was nothing to save."""
    finds = look(origin(place), place, ignored=saved is not None and saved.ignored)
    return finds.is_nothing if saved is None else finds.mark == saved.mark


def _free_name(name: str, taken: set[str]) -> str:
    """The name, or the next one that is free: what was kept before is never replaced."""
    slug = re.sub(r"\.+", ".", NAME.sub("-", name))[:100].strip("-.").removesuffix(".lock") or "place"
    number, free = 1, slug
    while free in taken:
        number += 1
        free = f"{slug}-{number}"
    return free


def _bring(project: Project, place: Place, finds: Finds, name: str) -> None:
    """Copy a clone's own objects into the main repository: commits, and what was added and not committed."""
    wanted = {commit: f"{INCOMING}{name}/{number}" for number, commit in enumerate(finds.parents)}
    if wanted:
        clone.fetch(project, place.path, wanted)
    _bring_blobs(project, place, finds)


def _bring_blobs(project: Project, place: Place, finds: Finds) -> None:
    blobs = sorted({entry.blob for entry in finds.entries if entry.blob and entry.mode != "160000"})
    asked = repository.ask(project.common, "cat-file", "--batch-check", stdin="\n".join(blobs).encode() + b"\n")
    missing = [line.split()[0] for line in asked.out.decode().splitlines() if line.endswith(" missing")]
    if not missing:
        return
    own = place.path / ".git"
    with repository.workshop(git.Repository(place.path, own, own)) as shop:
        packed = shop.ask("pack-objects", "--stdout", "--quiet", stdin="\n".join(missing).encode() + b"\n")
    done = repository.ask(project.common, "unpack-objects", "-q", stdin=packed.out)
    if packed.code or done.code:
        raise repository.refused(packed if packed.code else done, f"what is staged in {place.path} cannot be saved")


def _drop_incoming(project: Project, name: str) -> None:
    listed = repository.ask(project.common, "for-each-ref", "--format=delete %(refname)", f"{INCOMING}{name}/")
    if listed.out:
        repository.ask(project.common, "update-ref", "--stdin", stdin=listed.out)

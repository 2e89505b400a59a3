"""Everything that only a place has, kept in the main repository: refs/fleet/salvage/NAME.

One commit holds it all. Its parents are the last commit and those that no branch leads to. Its tree has `staged` (what
the index had, each stage of a conflict apart), `files` (those that differed from it, byte for byte), `git` (the place's
own files of git: HEAD, its history, a merge or a rebase under way) and `odd` (files whose path git would not take).
`facts.json` says where each odd one was, what was deleted, which modes were unusual, and which directories were empty.
"""

from __future__ import annotations

import re
from contextlib import nullcontext

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.core.work import PlaceKind
from fleet.host import git, repository
from fleet.places import clone, record
from fleet.places.base import Place
from fleet.places.paths import Project, origin
from fleet.places.salvage import kept
from fleet.places.salvage.find import REFS, Finds, look
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
            hint="commit or delete what is large there, or save it all the same: --large",
        )
        self.size = size


def save(
    place: Place,
    name: str,
    *,
    ignored: bool = False,
    cap: int | None = CAP,
    task: str = "",
) -> Saved | None:
    """Keep everything that only this place has; None when there is nothing. Over the cap nothing is kept: TooBig.

    Left out are files that must never get into git: what fleet itself put into the place, such as copied credentials;
    by their paths, and only as long as git does not have them anyway.
    """
    with nullcontext() if place.kind is PlaceKind.INPLACE else record.alone_if_known(place.path):
        return save_alone(place, name, ignored=ignored, cap=cap, task=task)


def save_alone(
    place: Place, name: str, *, ignored: bool = False, cap: int | None = CAP, task: str = ""
) -> Saved | None:
    """The same, for whoever is alone with the place already."""
    project = origin(place)
    finds = look(project, place, ignored=ignored)
    if finds.is_nothing:
        return None
    if cap is not None and finds.size > cap:
        raise TooBig(place, finds.size, cap)
    slug, name = _free_name(name, finds.taken)
    for one in kept.all(project) if slug != name else ():
        if one.mark == finds.mark and one.path == str(place.path):  # whoever saved it was killed before removing it
            return _saved(one.name, one.commit, finds, ignored)
    return _saved(name, _write(project, place, finds, name, task), finds, ignored)


def _write(project: Project, place: Place, finds: Finds, name: str, task: str) -> str:
    """Make one commit of it all in the main repository; which one."""
    if place.kind is PlaceKind.CLONE:
        _bring(project, place, finds, name)
    pieces = stream(place, finds, (REFS + name).encode(), task)
    done = repository.fast_import(project.common, pieces)
    if done.code:
        raise repository.refused(done, f"{place.path} cannot be saved")
    commit = repository.ref(project.common, REFS + name)
    if commit is None:
        raise FleetError(f"{place.path} was not saved: {clean(done.said, 500)}", hint="fleet salvage list")
    if place.kind is PlaceKind.CLONE:
        _drop_incoming(project, name)
    return commit


def _saved(name: str, commit: str, finds: Finds, ignored: bool) -> Saved:
    return Saved(name, commit, len(finds.inside), len(finds.parents), finds.size, finds.mark, ignored)


def earlier(place: Place, task: str) -> Saved | None:
    """What was saved last of a place that is gone, for whoever goes on after a crash."""
    found = [one for one in kept.all(origin(place)) if one.path == str(place.path) and one.task == task]
    return Saved(found[-1].name, found[-1].commit, 0, 0, found[-1].size or 0, found[-1].mark) if found else None


def is_as_saved(place: Place, saved: Saved | None) -> bool:
    """Whether nothing was written in a place since it was saved, or since there was nothing to save."""
    if saved is None:
        return look(origin(place), place, ignored=False).is_nothing
    now = look(origin(place), place, ignored=saved.ignored, only_mark=True)
    return now.mark == saved.mark


def _free_name(name: str, taken: frozenset[str]) -> tuple[str, str]:
    """The name, and the next one that is free: what was kept before is never replaced."""
    slug = re.sub(r"\.+", ".", NAME.sub("-", name))[:100].strip("-.").removesuffix(".lock") or "place"
    number, free = 1, slug
    while free in taken:
        number += 1
        free = f"{slug}-{number}"
    return slug, free


def _bring(project: Project, place: Place, finds: Finds, name: str) -> None:
    """Copy a clone's own objects into the main repository: commits, and what was added and not committed."""
    wanted = {commit: f"{INCOMING}{name}/{number}" for number, commit in enumerate(finds.parents)}
    if wanted:
        clone.fetch(project, place.path, wanted)
    _bring_blobs(project, place, finds)


def _bring_blobs(project: Project, place: Place, finds: Finds) -> None:
    blobs = sorted({entry.blob for entry in finds.entries if entry.blob and entry.mode != "160000"})
    if not blobs:
        return
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

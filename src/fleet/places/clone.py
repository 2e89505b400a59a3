"""A private clone: it borrows the main repository's objects, and what it commits comes back when it is collected."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import files, git, repository
from fleet.places import record, submodules
from fleet.places.base import Place
from fleet.places.paths import Project, origin
from fleet.places.record import Record
from fleet.places.worktree import HALF_MADE, TRIES, TRY_AGAIN

# What decides how files are checked out, and who commits: a clone takes it over from the repository's own config.
TAKEN = ("core.autocrlf", "core.eol", "core.sparsecheckout", "core.sparsecheckoutcone", "core.ignorecase")
SCOPES = ("local", "worktree")
INCOMING = "refs/fleet/incoming/collected/"
# What git says when it looks at all it has, and a worktree is just being written down that has no commit yet.
NOT_SURE = "did not send all necessary objects"
TAKEN_PARTS = ("filter.", "user.", "lfs.", "submodule.")


def add(project: Project, wanted: Record, path: Path) -> None:
    """Clone without a checkout, take over what decides about files, then check the branch out."""
    settings = [word for pair in _settings(project) for word in ("-c", pair)]
    what = f"no clone can be made at {path}"
    done = repository.ask(
        project.common, "clone", "--quiet", "--shared", "--no-checkout", "--template=", "--no-recurse-submodules",
        *settings, "--", str(project.common), str(path),
    )  # fmt: skip
    if done.code:
        raise repository.refused(done, what)
    own = path / ".git"
    _sparse(project, own)
    start = repository.ref(project.common, f"refs/heads/{wanted.branch}") or wanted.base
    repository.make_way(project.common, _borrowed(path))
    repository.do(project.common, "update-ref", _borrowed(path), start, what=what)
    argv = ("checkout", "--quiet", "--no-track", "-B", wanted.branch, start, "--")
    done = repository.ask(own, f"--work-tree={path}", *argv, cwd=path)
    if done.code:
        raise repository.refused(done, what)
    submodules.fill(project, path)


def let_go(project: Project, path: Path) -> None:
    """Nobody borrows any more what a clone at this path began from."""
    for left in (_borrowed(path), f"{INCOMING}{_known(path)}"):
        repository.ask(project.common, "update-ref", "-d", left)


def is_known(project: Project, path: Path) -> bool:
    """Whether a clone was made at this path, and not removed since."""
    return repository.ref(project.common, _borrowed(path)) is not None


def _borrowed(path: Path) -> str:
    """The ref that keeps what a clone began from: without it, git may throw away in time what the clone needs."""
    return f"refs/fleet/borrowed/{_known(path)}"


def _known(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _settings(project: Project) -> list[str]:
    done = repository.ask(project.common, "config", "--list", "--show-scope", "-z")
    words = done.out.decode(errors="surrogateescape").split("\0")
    of_its_own = (entry for scope, entry in zip(words[::2], words[1::2], strict=False) if scope in SCOPES)
    pairs = (entry.partition("\n") for entry in of_its_own)
    return [f"{name}={value}" for name, _, value in pairs if name in TAKEN or name.startswith(TAKEN_PARTS)]


def _sparse(project: Project, own: Path) -> None:
    patterns = files.read(project.common / "info/sparse-checkout")
    if patterns is not None:
        files.write(own / "info/sparse-checkout", patterns)


class NotCollected(FleetError):
    """The commits of a clone are where they were; saving it keeps them all the same."""


def collect(place: Place) -> str | None:
    """Bring a clone's branch into the main repository, as from a stranger; the commit it is at, None without one.

    The branch may have been rewritten in the clone. In the main repository it is only replaced when nobody else moved
    it since it was collected last, or when nothing is lost by it.
    """
    with record.alone(place.path):
        said = record.read(place.path)
        if said is None or place.branch is None:
            raise NotCollected(f"{place.path} is not a place that fleet made", hint="fleet list")
        found = git.find(place.path)
        if found is None or found.top != place.path or found.own != place.path / ".git":
            raise NotCollected(f"{place.path} is no clone any more", hint=f"ls -la {place.path}")
        project, name = origin(place), f"refs/heads/{place.branch}"
        tip, ours = repository.ref(found.common, name), repository.ref(project.common, name)
        if tip is not None and tip != ours:
            _take_over(project, place, tip, ours, free=ours in (None, said.base, said.collected))
            record.write(place.path, replace(said, collected=tip))
        return tip


def _take_over(project: Project, place: Place, tip: str, ours: str | None, *, free: bool) -> None:
    """Set the branch to what came from the clone, if it is still where it was seen."""
    incoming = f"{INCOMING}{_known(place.path)}"
    fetch(project, place.path, {tip: incoming})
    try:
        if not free:
            done = repository.ask(project.common, "merge-base", "--is-ancestor", ours or "", tip)
            free = done.code == 0
        if free:
            name = f"refs/heads/{place.branch}"
            free = not repository.ask(project.common, "update-ref", name, tip, ours or "0" * len(tip)).code
    finally:
        repository.ask(project.common, "update-ref", "-d", incoming)
    if not free:
        branch = clean(place.branch or "")
        raise NotCollected(
            f"the branch {branch} was moved in {clean(str(project.top))} since it was last collected",
            hint=f"git fetch {place.path} {branch}",
        )


def fetch(project: Project, top: Path, wanted: dict[str, str]) -> None:
    """Copy commits out of a repository that an agent can write to, each under a ref of the main repository.

    They are taken from a repository of ours that borrows its objects, so that none of its settings is in force.
    """
    own = top / ".git"
    with repository.workshop(git.Repository(top, own, own)) as shop:
        refs = {f"refs/heads/{number}": commit for number, commit in enumerate(wanted)}
        for name, commit in refs.items():
            files.write(shop.at / name, f"{commit}\n".encode())
        spec = [f"+refs/heads/{number}:{name}" for number, name in enumerate(wanted.values())]
        for name in wanted.values():
            repository.make_way(project.common, name)
        for _ in range(TRIES):
            done = repository.ask(
                project.common, "-c", "protocol.file.allow=always", "-c", "fetch.writeCommitGraph=false", "fetch",
                "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-prune", "--atomic",
                "--", os.fspath(shop.at), *spec,
            )  # fmt: skip
            if not done.code or not (HALF_MADE.search(done.said) or NOT_SURE in done.said):
                break
            time.sleep(TRY_AGAIN)
        if done.code:
            raise repository.refused(done, f"the commits of {top} cannot be brought back")

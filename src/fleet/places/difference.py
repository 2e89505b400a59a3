"""What a place has against its base: commits, what is not committed, and new files, in one diff."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import git, repository
from fleet.host.repository import Entry
from fleet.places.base import Place
from fleet.places.paths import Project, origin

LOOK = ("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


@dataclass(frozen=True, slots=True)
class Difference:
    """A diff as people read it; each file with its lines added and removed (None: not text); repositories inside."""

    text: bytes
    files: tuple[tuple[str, int | None, int | None], ...]
    repositories: tuple[str, ...] = ()  # that hold what the diff cannot show


def difference(place: Place, *, stat: bool = False) -> Difference:
    """The diff from the base to what stands in the place now. Nothing that stands there is run."""
    place.must_be_itself()
    found = git.find(place.path)
    if found is None or place.base is None:
        raise FleetError(f"{clean(str(place.path))} is in no git repository, so there is nothing to compare with")
    with repository.workshop(found) as shop:
        changed = shop.changed()
        shop.take_in(changed, {})
        text, files = _shown(shop, stat, "--cached", place.base, tree=True)
    return Difference(text, files, repositories(place, changed))


def repositories(place: Place, changed: Sequence[Entry]) -> tuple[str, ...]:
    """Of what differs in a place, the repositories inside that hold what it cannot have."""
    from fleet.places.salvage.find import is_as_given  # all of salvage, which few who have to do with places need

    inside = [one for one in changed if one.is_repository]
    if not inside:
        return ()
    main = origin(place)
    held = {one.path.rstrip(b"/") for one in inside if not is_as_given(main, place.path, one)}
    return tuple(os.fsdecode(path) for path in sorted(held))


def branch_difference(project: Project, base: str, tip: str, *, stat: bool = False) -> Difference:
    """The diff between two commits of the main repository, for a place that is gone."""
    with repository.workshop(git.Repository(project.top, project.common, project.common)) as shop:
        return Difference(*_shown(shop, stat, base, tip))


Files = tuple[tuple[str, int | None, int | None], ...]


def _shown(shop: repository.Workshop, stat: bool, *what: str, tree: bool = False) -> tuple[bytes, Files]:
    found = []
    for form in (("--stat=100",) if stat else ("--patch",), ("--numstat", "-z", "--no-renames")):
        done = shop.ask("diff", *LOOK, *form, *what, "--", tree=tree)
        if done.code:
            raise repository.refused(done, f"{shop.top} cannot be compared")
        found.append(done.out)
    lines = (line.split("\t", 2) for line in found[1].decode(errors="replace").split("\0") if line.count("\t") >= 2)
    return found[0], tuple((path, _number(added), _number(removed)) for added, removed, path in lines)


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() else None


def is_merged(project: Project, tip: str) -> bool:
    """Whether what the main repository stands on has a commit in it already."""
    done = repository.ask(project.common, "merge-base", "--is-ancestor", tip, "HEAD")
    return done.code == 0


def tip_of(place: Place) -> str | None:
    """The commit that a place stands on; None when its directory is gone."""
    found = git.find(place.path) if place.path.is_dir() else None
    return git.head(found).commit if found is not None and found.top == place.path else None

"""What stands in a place now: read from files where that is enough, and asked through a repository of ours if not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fleet.core.work import PlaceKind
from fleet.host import files, git
from fleet.host.glance import Tree, forget, glance
from fleet.places import record
from fleet.places.base import Condition, Place

MOST = 1_000_000


def condition(place: Place) -> Condition:
    """Commits on top of the base, and files that differ from the last commit."""
    return conditions([place])[0]


def conditions(places: Sequence[Place]) -> list[Condition]:
    """The condition of each, in their order; those that git has to be asked about are asked about together."""
    found = [git.find(place.path) if place.is_there else None for place in places]
    looked_at = [(place, one) for place, one in zip(places, found, strict=True) if one is not None]
    trees = [Tree(one, place.base, _kept(place)) for place, one in looked_at]
    seen = iter(glance(trees) if trees else ())
    for (place, _), tree in zip(looked_at, trees, strict=True):
        if tree.kept is not None and _kept(place) is None:  # it was removed while we looked
            forget(tree.kept)
    known = [next(seen) if one is not None else None for one in found]
    return [
        Condition(there=place.is_there) if one is None else Condition(ahead=one.ahead, changed=one.changed)
        for place, one in zip(places, known, strict=True)
    ]


def _kept(place: Place) -> Path | None:
    """How copies of its index are called; of a place that fleet did not make, none are kept."""
    return record.index(place.path) if place.kind is not PlaceKind.INPLACE else None


def size(path: Path) -> int | None:
    """The bytes that a directory takes on the disk, links not followed; None when it cannot be known."""
    total, seen, count = 0, set(), 0
    for directory, folders, names in files.walk(str(path)):
        for name in (*folders, *names):
            count += 1
            if count > MOST:
                return None
            try:
                facts = os.lstat(os.path.join(directory, name))
            except OSError:
                continue
            if facts.st_nlink < 2 or (facts.st_dev, facts.st_ino) not in seen:
                total += facts.st_blocks * 512
            if facts.st_nlink > 1:
                seen.add((facts.st_dev, facts.st_ino))
    return total if path.is_dir() else None

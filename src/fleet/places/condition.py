"""What stands in a place now: read from files where that is enough, and asked through a repository of ours if not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fleet.host import files, git
from fleet.host.glance import glance
from fleet.places.base import Condition, Place

MOST = 1_000_000


def condition(place: Place) -> Condition:
    """Commits on top of the base, and files that differ from the last commit."""
    return conditions([place])[0]


def conditions(places: Sequence[Place]) -> list[Condition]:
    """The condition of each, in their order; those that git has to be asked about are asked about together."""
    found = [git.find(place.path) if place.is_there else None for place in places]
    trees = [(one, place.base) for one, place in zip(found, places, strict=True) if one is not None]
    seen = iter(glance(trees) if trees else ())
    known = [next(seen) if one is not None else None for one in found]
    return [
        Condition(there=place.is_there) if one is None else Condition(ahead=one.ahead, changed=one.changed)
        for place, one in zip(places, known, strict=True)
    ]


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

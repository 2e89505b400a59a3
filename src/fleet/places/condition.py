"""What stands in a place now: read from files where that is enough, and asked through a repository of ours if not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleet.core import FleetError
from fleet.host import git
from fleet.places.base import Condition, Place

TOGETHER = 4
MOST = 1_000_000


def conditions(places: Sequence[Place]) -> list[Condition]:
    """The condition of each, in their order."""
    if len(places) < 2:
        return [condition(place) for place in places]
    with ThreadPoolExecutor(min(TOGETHER, len(places))) as pool:
        return list(pool.map(condition, places))


def condition(place: Place) -> Condition:
    """Commits on top of the base, and files that differ from the last commit."""
    if not place.path.is_dir():
        return Condition(there=False)
    found = git.find(place.path)
    if found is None:
        return Condition()
    try:
        return _look(place, found)
    except (OSError, FleetError):
        return Condition()


def _look(place: Place, found: git.Repository) -> Condition:
    tip = git.head(found).commit
    with git.mirror(found) as ours:
        dirty = ours.dirty(tip)
        ahead = 0 if tip == place.base else ours.ahead(place.base, tip) if tip and place.base else None
    return Condition(ahead=ahead, changed=None if dirty is None else len(dirty))


def size(path: Path) -> int | None:
    """The bytes that a directory takes on the disk, links not followed; None when it cannot be known."""
    total, seen, count = 0, set(), 0
    for directory, folders, names in os.walk(path):
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

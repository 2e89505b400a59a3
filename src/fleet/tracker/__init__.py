"""Where tasks are written down: what people want done, and who may work on it."""

from __future__ import annotations

from pathlib import Path

from fleet.core import BadConfig
from fleet.core.text import clean, nearest
from fleet.tracker import spec
from fleet.tracker.base import Tracker

NAMES = ("local", "beads")


def open(home: Path, name: str = "local") -> Tracker:
    """The tracker of this name in this home; only the one that is asked for is loaded."""
    match name:
        case "local":
            from fleet.tracker.local import Local

            return Local(home)
        case "beads":
            from fleet.tracker.beads import Beads

            return Beads(home)
        case _:
            known = ", ".join(NAMES)
            raise BadConfig(f"there is no tracker {clean(name)!r}{nearest(name, NAMES)}; there are {known}")


__all__ = ["NAMES", "Tracker", "open", "spec"]

"""One setting of runtime.toml, without loading what checks them all."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fleet.host import files

TRACKERS = ("local", "beads")


def tracker(path: Path) -> str:
    """Where tasks are kept; a file that is not plain is read in earnest, and refused with every problem it has."""
    try:
        named = tomllib.loads((files.read(path, follow=True) or b"").decode()).get("tracker", TRACKERS[0])
    except (OSError, ValueError, RecursionError):
        named = None
    if named in TRACKERS:
        return str(named)
    from fleet.config import runtime

    return runtime.read(path).tracker.value

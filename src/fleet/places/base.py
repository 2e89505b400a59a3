"""The promise of a place: somewhere an attempt can work, with what it began from written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt works. Outside a git repository there is no branch and no base."""

    path: Path
    branch: str | None = None
    base: str | None = None

"""The promise of a gate: it is open, or it says why not and, if it knows, until when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closed:
    cause: str
    until: float | None = None  # seconds since 1970; None when nobody can know
    cure: str = ""  # what a person can do about it; who waits for that is held

"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)"
DURATION = re.compile(rf"(?:{NUMBER}h)?(?:{NUMBER}(?:m|min))?(?:{NUMBER}s)?\Z")
SIZE = re.compile(rf"{NUMBER} ?([kmgt]i?)?b\Z", re.IGNORECASE)
UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
BINARY = {"ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}
SHORTEST, LONGEST, LONGEST_PAUSE, LONGEST_WAIT = 0.1, 30 * 86_400, 600, 86_400
SMALLEST, LARGEST = 1000, 10**15


def seconds(written: str | float) -> float:
    """The seconds of a number, or of `90s`, `30m`, `30min`, `2h`, `1h30m`; ValueError for anything else."""
    if not isinstance(written, str):
        return float(written)
    found = DURATION.match(written)
    if not written or not found:
        raise ValueError("must be seconds as a number, or a duration such as 90s, 30m or 1h30m")
    hours, minutes, rest = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + rest


def size(written: str | int) -> int:
    """The bytes of a number, or of `500MB`, `1GB`, `1GiB`; ValueError for anything else."""
    if not isinstance(written, str):
        return written
    found = SIZE.match(written)
    if not found:
        raise ValueError("must be bytes as a number, or a size such as 500MB, 1GB or 1GiB")
    unit = (found[2] or "").lower()
    return int(float(found[1]) * (UNITS | BINARY)[unit])


def _duration(written: str) -> str:
    return _within(written, seconds(written), SHORTEST, LONGEST, "0.1s", "720h")


def _pause(written: str) -> str:
    return _within(written, seconds(written), 0, LONGEST_PAUSE, "0s", "10min")


def _wait(written: str) -> str:
    return _within(written, seconds(written), 0, LONGEST_WAIT, "0s", "24h")


def _size(written: str) -> str:
    return _within(written, size(written), SMALLEST, LARGEST, "1kB", "1000TB")


def _room(written: str) -> str:
    return _within(written, size(written), 0, LARGEST, "0B", "1000TB")


def _within(written: str, value: float, low: float, high: float, lowest: str, highest: str) -> str:
    if not low <= value <= high:
        raise ValueError(f"must be from {lowest} to {highest}")
    return written


def _text(check: object) -> Meta:
    return Meta(max_length=40, extra={"check": check})


Duration = Annotated[float, Meta(ge=SHORTEST, le=LONGEST)] | Annotated[str, _text(_duration)]
Pause = Annotated[float, Meta(ge=0, le=LONGEST_PAUSE)] | Annotated[str, _text(_pause)]
Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] | Annotated[str, _text(_wait)]
Size = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)] | Annotated[str, _text(_size)]
Room = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[str, _text(_room)]
Attempts = Annotated[int, Meta(ge=1, le=100)]

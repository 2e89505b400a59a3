"""Durations, sizes, tokens and dollars as people write them, and as they are written for people."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)"
DURATION = re.compile(rf"(?:{NUMBER}h)?(?:{NUMBER}(?:m|min))?(?:{NUMBER}s)?\Z")
SIZE = re.compile(rf"{NUMBER} ?([kmgt]i?)?b\Z", re.IGNORECASE)
TOKENS = re.compile(rf"{NUMBER} ?([km]?)\Z", re.IGNORECASE)
DOLLARS = re.compile(rf"\$?{NUMBER}(?: ?USD)?\Z", re.IGNORECASE)
NONE = "none"
UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
BINARY = {"ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}
SHORTEST, LONGEST, LONGEST_PAUSE, LONGEST_WAIT = 0.1, 30 * 86_400, 600, 86_400
SMALLEST, LARGEST = 1000, 10**15
MOST_TOKENS, MOST_DOLLARS = 10**12, 10**6


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


def silence(written: str | float) -> float:
    """The seconds of a duration; 0 for `none`, which switches the limit off."""
    return 0.0 if written == NONE else seconds(written)


def tokens(written: str | int) -> int:
    """The tokens of a number, or of `500k`, `2M`; 0 for `none`."""
    if not isinstance(written, str):
        return written
    if written == NONE:
        return 0
    found = TOKENS.match(written)
    if not found:
        raise ValueError("must be tokens as a number, or such as 500k or 2M, or none")
    return int(float(found[1]) * UNITS[found[2].lower()])


def dollars(written: str | float) -> float:
    """The US dollars of a number, or of `5`, `$5`, `5 USD`; 0 for `none`."""
    if not isinstance(written, str):
        return float(written)
    if written == NONE:
        return 0.0
    found = DOLLARS.match(written)
    if not found:
        raise ValueError("must be US dollars as a number, such as 5 or 2.50, or none")
    return float(found[1])


def time_text(value: float) -> str:
    """`1h30m`, `20m`, `0.5s`."""
    if value < 60:
        return f"{value:g}s"
    whole = round(value)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


def size_text(value: int) -> str:
    """`1GB`, `1.5MB`, `700B`."""
    scale = next((unit for unit in "tgmk" if value >= UNITS[unit]), "")
    return f"{value / UNITS[scale]:.3g}{scale.upper() if scale != 'k' else scale}B"


def tokens_text(value: int) -> str:
    """`2M`, `2.1M`, `15.3k`, `900`."""
    scale = next((unit for unit in "mk" if value >= UNITS[unit]), "")
    return f"{value / UNITS[scale]:.1f}".removesuffix(".0") + (scale.upper() if scale == "m" else scale)


def dollars_text(value: float) -> str:
    """`$5.00`; less than ten cents to the hundredth of a cent."""
    return f"${value:.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def _silence(written: str) -> str:
    value = silence(written)
    return written if value == 0 else _within(written, value, SHORTEST, LONGEST, "0.1s", "720h, or none")


def _tokens(written: str) -> str:
    return _within(written, tokens(written), 0, MOST_TOKENS, "0", "1,000,000M")


def _dollars(written: str) -> str:
    return _within(written, dollars(written), 0, MOST_DOLLARS, "0", "1,000,000")


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


def switchable(name: str, written: str) -> float:
    """The value of a limit that `none` switches off, by its name; ValueError when it makes no sense."""
    match name:
        case "silence":
            return silence(_silence(written))
        case "tokens":
            return tokens(_tokens(written))
        case _:
            return dollars(_dollars(written))


def _text(check: object) -> Meta:
    return Meta(max_length=40, extra={"check": check})


Duration = Annotated[float, Meta(ge=SHORTEST, le=LONGEST)] | Annotated[str, _text(_duration)]
Pause = Annotated[float, Meta(ge=0, le=LONGEST_PAUSE)] | Annotated[str, _text(_pause)]
Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] | Annotated[str, _text(_wait)]
Size = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)] | Annotated[str, _text(_size)]
Room = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[str, _text(_room)]
Silence = Annotated[float, Meta(ge=0, le=LONGEST)] | Annotated[str, _text(_silence)]
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | Annotated[str, _text(_tokens)]
Dollars = Annotated[float, Meta(ge=0, le=MOST_DOLLARS)] | Annotated[str, _text(_dollars)]
Attempts = Annotated[int, Meta(ge=1, le=100)]

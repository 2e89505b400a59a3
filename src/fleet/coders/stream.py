"""What the output of all agent CLIs has in common: JSON lines from a stranger, of which any part may be anything.

Nothing here raises. A field that is not what it should be counts as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from fleet.core.work import Event, EventKind

Fields = dict[str, Any]
Reader = Callable[[bytes], list[Event]]

LONGEST = 2000  # characters of text that an event carries
LARGEST = 16 * 2**20  # bytes of a line that is parsed at all
MOST = 10**15  # tokens or dollars; more than this is neither
TELLING = ("command", "file_path", "filePath", "path", "pattern", "query", "url", "skill", "description", "prompt")
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}\Z")


def parse(line: bytes) -> Fields | None:
    """The line as a JSON object, or None. Bytes that are not UTF-8 inside it cost only themselves."""
    if len(line) > LARGEST or not line.lstrip().startswith(b"{"):
        return None
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def strange(line: bytes) -> list[Event]:
    """A line that is not one of this agent's: kept and shown, unless it is blank."""
    if len(line) > LARGEST:
        return [other(f"a line of {len(line)} bytes")]
    text = line[: 4 * LONGEST].decode("utf-8", "replace").strip()
    return [other(short(text))] if text else []


def other(text: str | None) -> Event:
    return Event(EventKind.OTHER, text=text)


def short(text: str) -> str:
    """The text as an event carries it: cut, and fit to be written as UTF-8."""
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return cut.encode("utf-8", "replace").decode("utf-8")


def word(value: object) -> str | None:
    """A string that says something."""
    return short(value) if isinstance(value, str) and value else None


def session(value: object) -> str | None:
    """The name of a session, only if it is safe to hand back on a command line."""
    return value if isinstance(value, str) and SESSION.match(value) else None


def fields(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Fields]:
    """The objects of a list; whatever else is in it is passed over."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def count(value: object) -> int:
    """A number of tokens; what is not one counts nothing."""
    return known(value) or 0


def known(value: object) -> int | None:
    """A number of tokens, where one was told: 0 is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else None


def has_count(used: Fields, *names: str) -> bool:
    """Whether a number of tokens stands under one of these names; where none does, nothing was told."""
    return any(known(used.get(name)) is not None for name in names)


def dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < MOST else None


def brief(arguments: object) -> str | None:
    """What a tool was called with, in a few words: the one argument that tells most, else all of them."""
    given = fields(arguments)
    for name in TELLING:
        if isinstance(given.get(name), str):
            return word(given[name])
    return dumped(given) if given else word(arguments)


def print_of(arguments: object) -> str | None:
    """By what two calls with the same arguments are known to be the same, however long these are."""
    text = dumped_whole(arguments) if arguments else None
    return None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def dumped_whole(value: object) -> str | None:
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None


def dumped(value: object) -> str | None:
    try:
        return short(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None

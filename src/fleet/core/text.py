"""Text from strangers, made safe to show."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, invisible format marks, lone surrogates, line separators


def clean(text: str, limit: int = 200) -> str:
    """One line without control bytes or invisible marks, cut to a limit: safe for a terminal, a log or a table."""
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in UNSAFE else c for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def has_controls(text: str, *, allow: str = "") -> bool:
    if text.translate(dict.fromkeys(map(ord, allow))).isprintable():
        return False
    return any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} and c not in allow for c in text)


def sayable(name: str) -> str:
    """A file name that is not UTF-8, written so that everybody can store and show it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean …?)`, when something is near."""
    from difflib import get_close_matches

    match = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {clean(match[0])}?)" if match else ""

"""Text from strangers, made safe to show."""

from __future__ import annotations

import unicodedata

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, invisible format marks, lone surrogates, line separators


def clean(text: str, limit: int = 200) -> str:
    """One line without control bytes or invisible marks, cut to a limit: safe for a terminal, a log or a table."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in UNSAFE else c for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def has_controls(text: str, *, allow: str = "") -> bool:
    if text.translate(dict.fromkeys(map(ord, allow))).isprintable():
        return False
    return any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} and c not in allow for c in text)

"""Note down one thing that an agent in a terminal tells of itself: one line at the end of a file.

Run as: python -I -S tell.py <signals file> [<what is told>]   (else it is read from standard input)

It is a program, not a module: agent CLIs run it as their hook, in the middle of their work. So it never says anything,
never fails, and imports next to nothing: json alone would double the time it takes. What is told stays a string inside
the line, whatever it is; only when it is too long is it taken apart, and its long texts are cut.
"""
# ruff: noqa: SIM105 - contextlib costs as much

from __future__ import annotations

import os
import sys
import time

LARGEST = 8 * 1024 * 1024  # bytes that are read at all
WHOLE = 64 * 1024  # bytes that are written down as they are
LONGEST = 2000  # characters of one text in what is longer
PROMPT, LONGEST_PROMPT = "prompt", 200_000
ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), 0x2028, 0x2029)} | {34: '\\"', 92: "\\\\"}


def main(argv: list[str]) -> None:
    path, given = argv[1], argv[2:]
    raw = os.fsencode(given[-1]) if given else _read()
    text = raw.decode("utf-8", "replace")
    if len(raw) > WHOLE:
        text = _cut(text)
    line = f'{{"at": {time.time():.3f}, "told": "{text.translate(ESCAPES)}"}}\n'
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    file = os.open(path, flags, 0o600)
    os.write(file, line.encode("utf-8", "replace"))


def _read() -> bytes:
    pieces, left = [], LARGEST
    while left > 0 and (piece := os.read(0, min(left, WHOLE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _cut(text: str) -> str:
    """What is told with every long text cut; of what is no JSON, the beginning."""
    import json

    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text[:LONGEST]
    prompt = told.get(PROMPT) if isinstance(told, dict) else None
    short = json.loads(json.dumps(_short(told)))
    if isinstance(prompt, str):
        short[PROMPT] = prompt[:LONGEST_PROMPT]
    return json.dumps(short)


def _short(value: object) -> object:
    match value:
        case str():
            return value[:LONGEST]
        case dict():
            return {str(name)[:LONGEST]: _short(one) for name, one in value.items()}
        case list():
            return [_short(one) for one in value[:LONGEST]]
        case _:
            return value


if __name__ == "__main__":
    try:
        main(sys.argv)
    except Exception:  # noqa: S110 - an agent is not disturbed, whatever happens
        pass
    os._exit(0)

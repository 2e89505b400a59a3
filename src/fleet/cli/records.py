"""How records that only grow are printed: as they are for programs, in words for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import click

from fleet.core import BadConfig
from fleet.core.text import clean

MAX_LINE_CHARS = 4000


def in_words(words: bool, as_json: bool) -> bool:
    """Whether people read: they said so, or it is a terminal."""
    if words and as_json:
        raise BadConfig("--words and --json exclude each other")
    return words or (sys.stdout.isatty() and not as_json)


def record_printer(words: Callable[[Mapping[str, object]], str] | None) -> Callable[[str], None]:
    """What prints one line of a file of records; without words, as it stands there."""
    from fleet.app.log_words import record_line

    def show(line: str) -> None:
        click.echo(line if words is None else clean(record_line(line, words), MAX_LINE_CHARS))
        sys.stdout.flush()

    return show

"""TOML as plain values, and the line each of them stands on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from fleet.config.problems import Document, Path, Place, Problem

TOO_DEEP = "not TOML: it is too deep, or a number is too long"
MAX_DEPTH = 40
MANY_STEPS = re.compile(r"""(?:\.[ \t]*+[\w"'-]++[ \t]*+){100}""")  # a.a.a and so on takes tomllib its square in time
Places = dict[Path, Place]
DEEPEST = 5
LONGEST_VALUE = 200  # lines; after a longer one, no more places are looked for


def parse(text: str) -> Document:
    """Read a TOML document, without places: they are looked for only when somebody asks."""
    document = Document()
    if MANY_STEPS.search(text):
        document.problems.append(Problem(Place(1, 1), (), TOO_DEEP))
        return document
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"(.*) \(at line (\d+), column (\d+)\)", str(problem))
        place = Place(int(found[2]), int(found[3])) if found else Place(text.count("\n") + 1, 1)
        reason = found[1] if found else str(problem).replace(" (at end of document)", "")
        document.problems.append(Problem(place, (), f"not TOML: {reason}"))
    except (RecursionError, ValueError):
        document.problems.append(Problem(Place(1, 1), (), TOO_DEEP))
    else:
        document.value = value
        if _is_too_deep(value):
            document.problems.append(Problem(Place(1, 1), (), TOO_DEEP))
    return document


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _items(outer)]
    return bool(level)


def _items(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def table(text: str) -> dict[str, object]:
    """What a valid document says."""
    return tomllib.loads(text)


def places(text: str) -> Places:
    """The place of every key of a valid document."""
    found: Places = {}
    header: Path = ()
    for number, is_header, value in _statements(text):
        paths = [(*(() if is_header else header), *path) for path in _paths(value)]
        header = paths[-1] if is_header else header
        for path in paths:
            found.setdefault(path, Place(number, 1))
    return found


def _statements(text: str) -> Iterator[tuple[int, bool, object]]:
    """Each header, and each key with its whole value: the number of its first line, and what it says by itself."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    number = 0
    while number < len(lines):
        for end in range(number + 1, min(len(lines), number + LONGEST_VALUE) + 1):
            value = _whole("\n".join(lines[number:end]))
            if value is not None:
                break
        else:
            return
        if value:
            yield number + 1, lines[number].lstrip().startswith("["), value
        number = end


def _whole(statement: str) -> dict[str, object] | None:
    """What a statement says; None while more lines belong to it."""
    try:
        return tomllib.loads(statement)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every path in a value, the outer before the inner, as deep as any setting stands."""
    if path:
        yield path
    if isinstance(value, dict) and len(path) < DEEPEST:
        for key, item in value.items():
            yield from _paths(item, (*path, key))

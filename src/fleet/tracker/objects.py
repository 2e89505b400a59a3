"""JSON as the tasks of a plan: an array of objects, `{"tasks": [...]}`, or one object after the other."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from fleet.core.text import clean
from fleet.tracker.plan import MOST, NAMES, Entry, Found, unknown

SPACE = re.compile(r"[ \t\n\r]*")
EXPECTED = 'a task is an object such as {"title": "…", "after": ["…"]}'


class _Text:
    """A text with the values in it, each with its line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder(parse_constant=_refuse).raw_decode
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        return bisect_right(self._breaks, at) + 1

    def values(self) -> Iterator[tuple[int, object]]:
        """Every value of the text, one after the other."""
        at = self._skip(0)
        while at < len(self._text):
            value, end = self._decode(self._text, at)
            yield at, value
            at = self._skip(end)

    def elements(self, start: int) -> Iterator[tuple[int, object]]:
        """What is in the array at this place, which was read whole before."""
        at = self._skip(start + 1)
        while self._text[at] != "]":
            value, end = self._decode(self._text, at)
            yield at, value
            at = self._next(end)

    def members(self, start: int) -> Iterator[tuple[str, int, object]]:
        """What is in the object at this place; a name that is given twice comes twice."""
        at = self._skip(start + 1)
        while self._text[at] != "}":
            name, end = self._decode(self._text, at)
            at = self._skip(self._skip(end) + 1)  # over the colon
            value, end = self._decode(self._text, at)
            yield name, at, value
            at = self._next(end)

    def _next(self, end: int) -> int:
        at = self._skip(end)
        return self._skip(at + 1) if self._text[at] == "," else at

    def _skip(self, at: int) -> int:
        found = SPACE.match(self._text, at)
        assert found is not None
        return found.end()


def find(text: str) -> Found:
    """The tasks of a JSON text."""
    found = Found()
    source = _Text(text)
    try:
        values = list(source.values())
    except json.JSONDecodeError as problem:
        found.problem(source.line(problem.pos), f"it is not JSON: {problem.msg}")
        return found
    except (ValueError, RecursionError) as problem:
        found.problem(1, f"it is not JSON that can be read: {clean(str(problem))}")
        return found
    for at, value in islice(_tasks(source, values, found), MOST + 1):
        found.entries.append(_entry(source, at, value, found))
    if not found.entries and not found.problems:
        found.problem(1, f"there is no task in it; {EXPECTED}")
    return found


def _tasks(source: _Text, values: list[tuple[int, object]], found: Found) -> Iterator[tuple[int, object]]:
    if len(values) != 1:
        yield from values
        return
    ((at, value),) = values
    if isinstance(value, list):
        yield from source.elements(at)
    elif isinstance(value, dict) and "tasks" in value:
        for name, inner, listed in source.members(at):
            if name == "tasks" and isinstance(listed, list):
                yield from source.elements(inner)
            else:
                what = "tasks must be an array" if name == "tasks" else f"{clean(name, 80)} is not tasks"
                found.problem(source.line(inner), f'{what}; beside {{"tasks": [...]}} nothing is known')
    else:
        yield at, value


def _entry(source: _Text, at: int, value: object, found: Found) -> Entry:
    line = source.line(at)
    if not isinstance(value, dict):
        found.problem(line, f"{clean(json.dumps(value), 80)} is no task; {EXPECTED}")
        return Entry(line, {"title": "-"})
    said: dict[str, object] = {}
    for name, inner, given in source.members(at):
        if name not in NAMES:
            found.problem(source.line(inner), unknown(name, NAMES, found.problems))
        elif name in said:
            found.problem(source.line(inner), f"{name} is given twice")
        else:
            said[name] = given
    return Entry(line, said)


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not a number of JSON")

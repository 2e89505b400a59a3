"""What is wrong with a file, and where; the same for every format.

These are structs and not dataclasses, because every command that reads the settings waits for the classes to be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

from msgspec import Struct, field

from fleet.core import BadConfig
from fleet.core.text import clean

MANY = 20  # problems after which no more suggestions are looked for: each takes a while in a large file
SHOWN = 100

Path = tuple[str | int, ...]


class Place(Struct, frozen=True, order=True):
    line: int
    column: int


class Problem(Struct, frozen=True):
    """One thing wrong with the file: where, in which part of the document, and what."""

    place: Place
    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.place.line}:{self.place.column}: {self.message}"


class Document(Struct):
    """Plain values that remember where each of them stands in the file."""

    value: object = None
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """Where the path stands, or the nearest part above it that is in the file."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def problem(self, path: Path, message: str) -> None:
        self.problems.append(Problem(self.place(path), path, message))

    @property
    def has_many(self) -> bool:
        return len(self.problems) >= MANY


class InvalidFile(BadConfig):
    """Every problem of one file."""

    def __init__(self, path: FilePath, problems: Iterable[Problem], hint: str | None = None) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda p: (p.place, p.message)))
        super().__init__(listed(f"Invalid {path.name}:", [f"{path}:{problem}" for problem in self.problems]), hint)


def listed(head: str, lines: Sequence[str]) -> str:
    """A head and what it announces; of thousands, the first hundred and a count."""
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n  ".join([head, *lines[:SHOWN], *more])


def dotted(path: Path) -> str:
    """The path as people write it: `models.heavy-coder.node`, `agents.planner.tools[2]`."""
    words = "".join(f"[{step}]" if isinstance(step, int) else f".{clean(step, 80)}" for step in path)
    return words.lstrip(".") or "the document"

"""bd's command line, read just far enough to take our own options out of a `create` and leave the rest as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.core import BadConfig

CREATE = ("create", "new")
OURS = ("coder", "model")
# Options of `bd create`, and those of every bd command, that take the next word whatever it looks like.
_VALUED = """
    actor database db directory dolt-auto-commit mem-profile
    acceptance append-notes assignee body-file context defer deps description design design-file due estimate
    event-actor event-category event-payload event-target external-ref file graph id labels metadata mol-type notes
    parent priority repo skills spec-id status storage-class title type waits-for waits-for-gate wisp-type
"""
VALUED = frozenset(_VALUED.split())
SHORT = {
    "C": "directory", "a": "assignee", "d": "description", "e": "estimate", "f": "file", "l": "labels",
    "p": "priority", "s": "status", "t": "type", "h": "help", "q": "quiet", "v": "verbose", "V": "version",
}  # fmt: skip
NAMED_BY_BD = ("id", "parent", "file", "graph", "ephemeral", "wisp-type")
WITHOUT_HOME = ("help", "version", "init", "completion", "metrics", "schema")


@dataclass(frozen=True, slots=True)
class Piece:
    """One option with its value, one word, or everything behind `--`."""

    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """A `bd create`, and what it asks of us."""

    head: tuple[str, ...]
    tail: tuple[str, ...]
    options: frozenset[str]
    coder: str | None
    model: str | None

    @property
    def makes_nothing(self) -> bool:
        return bool({"dry-run", "help", "version"} & self.options)

    @property
    def may_be_named(self) -> bool:
        """Whether it makes one task whose id is ours to choose."""
        return self.options.isdisjoint(NAMED_BY_BD)

    def argv(self, *added: str) -> list[str]:
        """The command line for bd, with options of ours behind the command's name."""
        return [*self.head, *added, *self.tail]


def read_create(args: Sequence[str]) -> Create | None:
    """The call when it is a `create`; None for every other command, which is none of our business."""
    found = list(pieces(args))
    at = next((n for n, piece in enumerate(found) if not piece.options), None)
    if at is None or found[at].words[0] not in CREATE:
        return None
    return Create(
        head=_words(found[: at + 1]),
        tail=_words(found[at + 1 :]),
        options=frozenset(option for piece in found for option in piece.options if piece.value != "false"),
        coder=_ours(found, "coder"),
        model=_ours(found, "model"),
    )


def needs_home(args: Sequence[str]) -> bool:
    """Whether the call is about tasks: help and the like can be had before there is a database."""
    found = list(pieces(args))
    command = next((piece.words[0] for piece in found if not piece.options), None)
    asked = {option for piece in found for option in piece.options}
    return command is not None and command not in WITHOUT_HOME and asked.isdisjoint(("help", "version"))


def pieces(args: Sequence[str]) -> Iterator[Piece]:
    """The command line cut where bd cuts it."""
    at = 0
    while at < len(args):
        piece = _piece(args, at)
        yield piece
        at += len(piece.words)


def _piece(args: Sequence[str], at: int) -> Piece:
    word = args[at]
    if word == "--":
        return Piece(tuple(args[at:]))
    if word.startswith("--"):
        return _long(args, at)
    if word.startswith("-") and len(word) > 1:
        return _shorts(args, at)
    return Piece((word,))


def _long(args: Sequence[str], at: int) -> Piece:
    name, given, value = args[at][2:].partition("=")
    if given or name not in VALUED.union(OURS):
        return Piece((args[at],), (name,), value if given else None)
    return _with_next(args, at, (name,))


def _shorts(args: Sequence[str], at: int) -> Piece:
    """Letters run together: the first that takes a value takes the rest of the word, or else the next one."""
    letters, names = args[at][1:], []
    for n, letter in enumerate(letters):
        names.append(SHORT.get(letter, letter))
        if names[-1] in VALUED:
            rest = letters[n + 1 :]
            return Piece((args[at],), tuple(names), rest) if rest else _with_next(args, at, tuple(names))
    return Piece((args[at],), tuple(names))


def _with_next(args: Sequence[str], at: int, names: tuple[str, ...]) -> Piece:
    words = tuple(args[at : at + 2])
    return Piece(words, names, words[1] if len(words) > 1 else None)


def _ours(found: list[Piece], name: str) -> str | None:
    """The value of an option of ours; the last one counts."""
    given = [piece for piece in found if name in piece.options]
    if not given:
        return None
    if not given[-1].value:
        raise BadConfig(f"--{name} needs a value")
    return given[-1].value


def _words(found: list[Piece]) -> tuple[str, ...]:
    """What is for bd."""
    return tuple(word for piece in found if not set(piece.options) & set(OURS) for word in piece.words)

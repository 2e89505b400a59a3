"""From plain values to typed parts: every value that does not fit becomes a problem, and none hides another."""

from __future__ import annotations

import re
import typing
from enum import StrEnum
from functools import cache
from threading import Lock
from types import UnionType
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import structs

from fleet.config.problems import Document, Path, dotted
from fleet.core.text import nearest

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "int | str": "a whole number or text",
    "float | str": "a number or text",
}
MISFIT = object()
ALONE = Lock()  # msgspec crashes when two threads need a type first at the same time


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping of a file with a fixed set of keys."""


P = TypeVar("P", bound=Part)


def fill(kind: type[P], document: Document) -> P | None:
    """The document as a part; None when something in it does not fit, which is then among its problems."""
    known = len(document.problems)
    built = _part(kind, document.value, (), document)
    return built if len(document.problems) == known and isinstance(built, kind) else None


def _part(kind: type[Part], value: object, path: Path, document: Document) -> object:
    if not isinstance(value, dict):
        document.problem(path, f"{dotted(path)} must be a mapping")
        return MISFIT
    fields = _fields(kind)
    for key in value.keys() - fields.keys():
        near = "" if document.has_many else nearest(key, fields)
        document.problem((*path, key), f"{dotted((*path, key))} is not a known key{near}")
    for name, field in fields.items():
        if name not in value and field.required:
            document.problem((*path, name), f"{dotted((*path, name))} is missing")
    given = {key: _value(fields[key].type, value[key], (*path, key), document) for key in value if key in fields}
    complete = all(field.name in given or not field.required for field in fields.values())
    return kind(**given) if complete and MISFIT not in given.values() else MISFIT


@cache
def _fields(kind: type[Part]) -> dict[str, structs.FieldInfo]:
    return {field.name: field for field in structs.fields(kind)}


def _value(kind: Any, value: object, path: Path, document: Document) -> object:
    """One value of any type that the schema uses."""
    if value is None and _allows_none(kind):
        return None
    kind = _member(bare(kind), value)
    if isinstance(kind, type) and issubclass(kind, Part):
        return _part(kind, value, path, document)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _choice(kind, value, path, document)
    if typing.get_origin(kind) is dict:
        return _mapping(typing.get_args(kind)[1], value, path, document)
    if typing.get_origin(kind) is tuple:
        return _list(typing.get_args(kind)[0], value, path, document)
    return _leaf(kind, value, path, document)


def bare(kind: Any) -> Any:
    """The type without `| None` and, unless it is a leaf with limits of its own, without what is noted beside it."""
    inner = unannotated(kind)
    if typing.get_origin(inner) in (typing.Union, UnionType):
        members = [member for member in typing.get_args(inner) if member is not type(None)]
        return bare(members[0]) if len(members) == 1 else inner
    return kind if inner in (int, float, str) else inner


def _member(kind: Any, value: object) -> Any:
    """Of text or a part, what the value is meant to be: a part when it is a mapping."""
    members = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, UnionType) else ()
    parts = [member for member in members if isinstance(member, type) and issubclass(member, Part)]
    if not parts:
        return kind
    return parts[0] if isinstance(value, dict) else next(member for member in members if member is not parts[0])


def unannotated(kind: Any) -> Any:
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind


def _allows_none(kind: Any) -> bool:
    return type(None) in typing.get_args(unannotated(kind))


def _choice(kind: type[StrEnum], value: object, path: Path, document: Document) -> object:
    known = [str(member) for member in kind]
    if value in known:
        return kind(value)
    near = nearest(value, known) if isinstance(value, str) else ""
    document.problem(path, f"{dotted(path)} must be one of {', '.join(known)}{near}")
    return MISFIT


def _mapping(kind: Any, value: object, path: Path, document: Document) -> object:
    if not isinstance(value, dict):
        document.problem(path, f"{dotted(path)} must be a mapping")
        return MISFIT
    built = {key: _value(kind, item, (*path, key), document) for key, item in value.items()}
    return MISFIT if MISFIT in built.values() else built


def _list(kind: Any, value: object, path: Path, document: Document) -> object:
    if not isinstance(value, list):
        document.problem(path, f"{dotted(path)} must be a list")
        return MISFIT
    built = tuple(_value(kind, item, (*path, n), document) for n, item in enumerate(value))
    return MISFIT if MISFIT in built else built


def _leaf(kind: Any, value: object, path: Path, document: Document) -> object:
    try:
        with ALONE:
            fitting = msgspec.convert(_whole(value) if unannotated(kind) is int else value, kind, strict=True)
        return _checked(kind, fitting)
    except msgspec.ValidationError as problem:
        document.problem(path, f"{dotted(path)} must be {_plain(str(problem))}")
    except ValueError as problem:
        document.problem(path, f"{dotted(path)} {problem}")
    return MISFIT


def _whole(value: object) -> object:
    """A whole number, however it is written: 4000, "4000" or 4000.0; anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) else value


def _checked(kind: Any, value: Any) -> Any:
    """Apply the check that stands beside a type; of a union, that of its text member."""
    if typing.get_origin(kind) in (typing.Union, UnionType):
        texts = [member for member in typing.get_args(kind) if unannotated(member) is str]
        return _checked(texts[0], value) if isinstance(value, str) else value
    for note in typing.get_args(kind)[1:]:
        check = (note.extra or {}).get("check")
        value = check(value) if check else value
    return value


def _plain(problem: str) -> str:
    """`Expected `int` <= 65535` in words."""
    found = re.match(r"Expected `([^`]+)`(?: of length)?(?: (<=|>=|>) (\d+(?:\.\d+)?))?", problem)
    if not found:
        return problem
    words = WORDS.get(found[1].removesuffix(" | null"), found[1])
    if "of length" in problem:
        return f"at most {found[3]} characters long"
    limit = {"<=": "at most", ">=": "at least", ">": "more than"}.get(found[2] or "")
    return f"{words}, {limit} {found[3].removesuffix('.0')}" if limit else words

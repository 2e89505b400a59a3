"""The settings by name: which there are, what each may be, and how one is changed without touching the others."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import structs

from fleet.config import shape
from fleet.config.runtime_schema import RuntimeFile
from fleet.core import BadConfig
from fleet.core.text import clean, nearest

Key = tuple[str, ...]
BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
SECRET = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
SECRET_VALUE = re.compile(r"sk-|gh[opsu]_|github_pat_|Bearer |://[^/@\s]*:[^/@\s]+@")
HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True)
class Setting:
    """A key that can be set, and the type of its value."""

    key: Key
    kind: Any


def name(key: Key) -> str:
    """The key as it stands in a file: `limits.timeout`, `concurrent.models."gpt-4.1"`."""
    return ".".join(step if BARE.match(step) else json.dumps(step, ensure_ascii=False) for step in key)


def find(written: str) -> Setting:
    """The setting that a person means. A name at the end may hold dots: `concurrent.models.gpt-4.1`."""
    return _find(RuntimeFile, (), _steps(written), written)


def _find(kind: Any, key: Key, rest: Key, written: str) -> Setting:
    fields, item = _inside(kind)
    if not fields and item is None:
        if rest:
            raise _unknown(written, [name(key)])
        return Setting(key, kind)
    if not rest:
        example = next(iter(fields), "NAME")
        raise BadConfig(f"{clean(written)} is a table; set what is in it, such as {name((*key, example))}")
    step, more = rest[0], rest[1:]
    if item is not None and _inside(item) == ({}, None):
        step, more = ".".join(rest), ()
    if not step or (fields and step not in fields):
        raise _unknown(written, [name((*key, known)) for known in fields])
    return _find(fields.get(step, item), (*key, step), more, written)


def _inside(kind: Any) -> tuple[dict[str, Any], Any]:
    """What stands under a key: the fields of a part, or the one type of a mapping's values; neither under a leaf."""
    kind = shape.bare(kind)
    if isinstance(kind, type) and issubclass(kind, shape.Part):
        return {field.name: field.type for field in structs.fields(kind)}, None
    return {}, typing.get_args(kind)[1] if typing.get_origin(kind) is dict else None


def _steps(written: str) -> Key:
    """The parts of a name; the quotes of TOML are understood."""
    if '"' not in written and "'" not in written:
        return tuple(written.split("."))
    try:
        value: object = tomllib.loads(f"{written} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        raise _unknown(written) from None
    steps = []
    while isinstance(value, dict) and len(value) == 1:
        step, value = next(iter(value.items()))
        steps.append(step)
    return tuple(steps)


def _unknown(written: str, beside: Iterable[str] = ()) -> BadConfig:
    near = nearest(written, [*beside, *map(name, flat(RuntimeFile()))])
    return BadConfig(f"{clean(written)} is not a known key{near}", hint="fleet config show")


def value(setting: Setting, written: str) -> object:
    """What a person means by a value: TOML where that gives the type wanted, else the text as it is."""
    parsed, wanted = _toml(written), set(_accepts(setting.kind))
    if type(parsed) in wanted:
        return parsed
    return written if str in wanted or parsed is None else parsed


def _toml(written: str) -> object:
    try:
        found = tomllib.loads(f"value = {written}")
    except (ValueError, RecursionError):
        return None
    return found["value"] if len(found) == 1 else None


def _accepts(kind: Any) -> Iterator[type]:
    kind = shape.unannotated(shape.bare(kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        yield str
    elif typing.get_origin(kind) is tuple:
        yield list
    elif typing.get_args(kind):
        for member in typing.get_args(kind):
            yield from _accepts(member)
    else:
        yield from (int, float) if kind is float else (kind,)


def flat(part: shape.Part | Mapping[str, Any]) -> dict[Key, object]:
    """Every value by its key; what is None or empty is left out."""
    items = part.items() if isinstance(part, Mapping) else structs.asdict(part).items()
    found: dict[Key, object] = {}
    for step, item in items:
        if isinstance(item, shape.Part | Mapping):
            found |= {(step, *key): inner for key, inner in flat(item).items()}
        elif item is not None and item != () and item != []:
            found[(step,)] = item
    return found


def shown(key: Key, value: object) -> object:
    """A value that may be printed: variables of an agent's environment that sound or look like secrets are not."""
    is_variable = (key[0] in ("accounts", "coders") and "env" in key[2:3]) or key[:2] == ("workspace", "env")
    is_secret = is_variable and (SECRET.search(key[-1]) or SECRET_VALUE.search(str(value)))
    return HIDDEN if is_secret and value is not None else value


def changed(text: str, changes: Mapping[Key, object]) -> str:
    """The text with some settings changed; comments, order and everything else stay as they are."""
    wanted = flat(tomllib.loads(text)) | dict(changes)
    expected = {key: item for key, item in wanted.items() if item != []}
    for start in (_uncommented(text, changes), text):
        new = _put(start, changes)
        if new is not None and flat(tomllib.loads(new)) == expected:
            return new
    raise BadConfig("the file cannot be changed without changing more than was asked", hint="fleet config edit")


def _put(text: str, changes: Mapping[Key, object]) -> str | None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        for key, item in changes.items():
            table: Any = document
            for step in key[:-1]:
                if step not in table:
                    table[step] = tomlkit.table()
                table = table[step]
            table[key[-1]] = item
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, RecursionError):
        return None


def _uncommented(text: str, changes: Mapping[Key, object]) -> str:
    """The text with `#key = default` made a key again, where a key that is to be set stands so in its own table."""
    lines = text.splitlines(keepends=True)
    present = flat(tomllib.loads(text))
    table = ""
    for number, line in enumerate(lines):
        if header := re.match(r"\[([^\[\]]+)\]", line):
            table = header[1]
        for key in changes.keys() - present.keys():
            if table == name(key[:-1]) and line.startswith(f"#{name(key[-1:])} ="):
                lines[number] = line[1:]
    return "".join(lines)

"""YAML that stays what it was: every string one string, on one line, whatever is in it."""

from __future__ import annotations

import re
from typing import Any

import yaml

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _OneLine(_Dumper):  # type: ignore[misc]
    """Strings that would span lines are quoted instead, because not every reader of front matter is a YAML parser."""

    def ignore_aliases(self, data: object) -> bool:
        return True


# Dashes that could end front matter, and what other readers, of YAML 1.2, take for a number (1e3, 0o17).
TROUBLE = re.compile(r"---|^[-+.]?\d")


def _text(dumper: Any, text: str) -> Any:
    style = None if text.isprintable() and not TROUBLE.search(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_OneLine.add_representer(str, _text)


def dump(value: object) -> str:
    return str(yaml.dump(value, Dumper=_OneLine, allow_unicode=True, width=2**30, sort_keys=False))


class _Blocks(_OneLine):
    """For people who edit: text of several lines stands as such."""


def _block(dumper: Any, text: str) -> Any:
    if "\n" in text and text.replace("\n", "").isprintable():
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    return _text(dumper, text)


_Blocks.add_representer(str, _block)


def dump_for_people(value: object) -> str:
    return str(yaml.dump(value, Dumper=_Blocks, allow_unicode=True, width=2**30, sort_keys=False))


def front_matter(notice: str, fields: dict[str, object], body: str) -> bytes:
    """A Markdown file with front matter at byte 0, the notice inside it as a YAML comment.

    Claude Code ends the front matter at the first `---` anywhere, even inside a quoted string, and drops the fields
    after it. Such a string is always quoted here, so its dashes can be written as escapes.
    """
    head = dump(fields).replace("---", r"\x2d\x2d\x2d")
    return f"---\n# {notice}\n{head}---\n\n{body.strip()}\n".encode()

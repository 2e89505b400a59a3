"""Text that holds `{branch}`, `{slug}`, `{attempt}`, `{task}`, `{path}` or `{port+1}`, filled in for an attempt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

NAMES = ("branch", "slug", "attempt", "task", "path", "port")
PORTS = 10  # an attempt's own: {port} … {port+9}
PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
PORT = re.compile(r"port\+([0-9]{1,3})\Z")
LONGEST_SLUG = 48  # a database name is 63 at most, and people put something before it


def check(text: str) -> str:
    """The text, when every name in it can be filled in; ValueError otherwise."""
    for piece in PIECE.finditer(text):
        if piece[1] is not None:
            _check_name(piece[1])
        elif len(piece[0]) == 1:
            raise ValueError(f"has a {piece[0]} alone; write {piece[0] * 2} for a brace")
    return text


def _check_name(name: str) -> None:
    if name in NAMES:
        return
    port = PORT.match(name)
    if port is None:
        raise ValueError(f"uses {{{name}}}; there are {', '.join(f'{{{one}}}' for one in NAMES)} and {{port+1}}")
    if int(port[1]) >= PORTS:
        raise ValueError(f"uses {{{name}}}; an attempt has {PORTS} ports, {{port}} to {{port+{PORTS - 1}}}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with the values of one attempt put in. What a value holds is never read as a template."""

    def put(piece: re.Match[str]) -> str:
        name = piece[1]
        if name is None:
            return piece[0][0]
        port = PORT.match(name)
        return str(int(values["port"]) + int(port[1])) if port else values[name]

    return PIECE.sub(put, check(text))


def values(*, branch: str, attempt: str, task: str, path: str, port: int | None = None) -> dict[str, str]:
    """What templates are filled with, for one attempt; without a port when none of its templates asks for one."""
    known = {"branch": branch, "slug": slug(branch), "attempt": attempt, "task": task, "path": path}
    return known if port is None else known | {"port": str(port)}


def wants_port(texts: Iterable[str]) -> bool:
    """Whether any of the templates needs ports of the attempt's own."""
    return any((piece[1] or "").startswith("port") for text in texts for piece in PIECE.finditer(text))


def slug(branch: str) -> str:
    """A branch as a name of lowercase letters, digits and underscores, for databases and the like.

    Branches that would look alike get a few digits of their own: `fix/auth` and `fix-auth` are not one database.
    """
    plain = re.sub(r"[^a-z0-9]+", "_", branch.lower()).strip("_")
    name = plain if plain[:1].isalpha() else f"b_{plain}".rstrip("_")
    if name == branch and len(name) <= LONGEST_SLUG:
        return name
    digits = sha256(branch.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name[: LONGEST_SLUG - 9].rstrip('_')}_{digits}"

"""Agent CLIs: how each is started, and what its output means. An adapter is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from fleet.coders import instructions
from fleet.coders.base import Coder, Command, Job, context_of
from fleet.coders.command import Declared
from fleet.core.errors import NotFound
from fleet.core.text import clean, nearest

OURS = {"claude": "Claude", "codex": "Codex", "opencode": "OpenCode", "demonstration": "Demonstration"}
"""The module of each coder in this room, which is also its name, and its class."""


def find(name: str, declared: Mapping[str, Coder]) -> Coder:
    """The coder of that name; what a user declared comes before ours."""
    if name in declared:
        return declared[name]
    if name not in OURS:
        known = names(declared)
        raise NotFound(f"no coder is named {clean(name)!r}{nearest(name, known)}", hint=f"one of: {', '.join(known)}")
    coder: Coder = getattr(import_module(f"fleet.coders.{name}"), OURS[name])()
    return coder


def names(declared: Mapping[str, Coder]) -> list[str]:
    return sorted({*OURS, *declared})


__all__ = ["OURS", "Coder", "Command", "Declared", "Job", "context_of", "find", "instructions", "names"]

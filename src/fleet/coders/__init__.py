"""Agent CLIs: how each is started, and what its output means. An adapter is loaded when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.coders import instructions
from fleet.coders.base import Can, Coder, Command, Job, Talker, context_of, talker_of
from fleet.coders.command import Declared
from fleet.core.errors import NotFound
from fleet.core.text import clean, nearest

if TYPE_CHECKING:
    from fleet.host.plugins import Offer

OURS = {
    "claude": "Claude",
    "codex": "Codex",
    "opencode": "OpenCode",
    "aider": "Aider",
    "agy": "Agy",
    "gemini": "Gemini",
    "qwen": "Qwen",
    "demonstration": "Demonstration",
}
"""The module of each coder in this room, which is also its name, and its class."""


def find(name: str, declared: Mapping[str, Coder], *, bare: bool = False) -> Coder:
    """The coder of that name: one that a user declared, one of ours, or one that another package brings.

    A stranger's is guarded against its own mistakes; `bare`, they are seen.
    """
    if name in declared:
        return declared[name]
    if name in OURS:
        coder: Coder = getattr(import_module(f"fleet.coders.{name}"), OURS[name])()
        return coder
    offers = installed()
    if name not in offers:
        known = names(declared)
        raise NotFound(f"no coder is named {clean(name)!r}{nearest(name, known)}", hint=f"one of: {', '.join(known)}")
    guests = import_module("fleet.coders.guests")
    guest: Coder = (guests.load if bare else guests.guarded)(offers[name])
    return guest


def installed() -> dict[str, Offer]:
    """What other packages bring, but for names that are ours."""
    plugins = import_module("fleet.host.plugins")
    return {name: offer for name, offer in plugins.offers(plugins.CODERS).items() if name not in OURS}


def teller(signals: Path) -> tuple[str, ...]:
    """The command that notes down in this file what an agent tells of itself."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("tell.py")), str(signals))


def names(declared: Mapping[str, Coder]) -> list[str]:
    return sorted({*OURS, *declared, *installed()})


__all__ = [
    "OURS", "Can", "Coder", "Command", "Declared", "Job", "Talker", "context_of", "find", "installed", "instructions",
    "names", "talker_of", "teller",
]  # fmt: skip

"""Terminals: the tmux sessions in which people watch agents and talk to them.

Who only looks does not load how a prompt is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.sessions.base import Seen, session_name
from fleet.sessions.server import Screen, Server

if TYPE_CHECKING:
    from fleet.sessions.delivery import deliver, unfit

__all__ = ["Screen", "Seen", "Server", "deliver", "session_name", "unfit"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fleet.sessions import delivery

    return getattr(delivery, name)

"""Terminals: the tmux sessions in which people watch agents and talk to them."""

from fleet.sessions.base import Seen

__all__ = ["Seen"]

"""Terminals: the tmux sessions in which people watch agents and talk to them."""

from fleet.sessions.base import Seen, session_name
from fleet.sessions.delivery import deliver, unfit
from fleet.sessions.server import Screen, Server

__all__ = ["Screen", "Seen", "Server", "deliver", "session_name", "unfit"]

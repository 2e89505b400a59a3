"""Nouns and errors; the standard library only."""

from fleet.core.errors import BadConfig, FleetError, NotFound, ToolMissing, Unavailable
from fleet.core.fleet import Agent, Fleet, Gateway, Kind, Model, Node, Provider, Route, is_loopback

__all__ = [
    "Agent",
    "BadConfig",
    "Fleet",
    "FleetError",
    "Gateway",
    "Kind",
    "Model",
    "Node",
    "NotFound",
    "Provider",
    "Route",
    "ToolMissing",
    "Unavailable",
    "is_loopback",
]

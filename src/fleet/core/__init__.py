"""Nouns and errors; the standard library only. The nouns of a plane are in modules of their own: `fleet`, `work`."""

from fleet.core.errors import BadConfig, FleetError, NotFound, ToolMissing, Unavailable

__all__ = ["BadConfig", "FleetError", "NotFound", "ToolMissing", "Unavailable"]

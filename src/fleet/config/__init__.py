"""fleet.yaml and runtime.toml, typed, validated once, loudly.

What stands here is loaded when it is first asked for: a command that only reads runtime.toml does not pay for YAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.config.fleet_yaml import InvalidFleet, Loaded, default_prompt, load, read
    from fleet.config.schema import json_schema

WHERE = dict.fromkeys(("InvalidFleet", "Loaded", "default_prompt", "load", "read"), "fleet.config.fleet_yaml")
WHERE["json_schema"] = "fleet.config.schema"

__all__ = ["InvalidFleet", "Loaded", "default_prompt", "json_schema", "load", "read"]


def __getattr__(name: str) -> object:
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)

"""fleet.yaml, typed, validated once, loudly."""

from fleet.config.load import InvalidFleet, Loaded, default_prompt, load, read
from fleet.config.schema import json_schema

__all__ = ["InvalidFleet", "Loaded", "default_prompt", "json_schema", "load", "read"]

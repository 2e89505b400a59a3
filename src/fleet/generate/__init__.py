"""From a fleet to the files that LiteLLM and the agent CLIs read."""

from fleet.generate.base import File
from fleet.generate.manifest import Change
from fleet.generate.targets import TARGETS, gateway_file, render, target

__all__ = ["TARGETS", "Change", "File", "gateway_file", "render", "target"]

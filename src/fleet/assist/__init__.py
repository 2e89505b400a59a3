"""Teaches assistants (Claude Code, Codex, OpenCode) to set up and run a fleet."""

from fleet.assist.base import Skill, Target
from fleet.assist.bundle import USUAL, bundled
from fleet.assist.deliver import Place, install_plugins, install_skills, next_commands, places, plugin_bundle
from fleet.assist.install import Installed, Result, State

__all__ = [
    "USUAL",
    "Installed",
    "Place",
    "Result",
    "Skill",
    "State",
    "Target",
    "bundled",
    "install_plugins",
    "install_skills",
    "next_commands",
    "places",
    "plugin_bundle",
]

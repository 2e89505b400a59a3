"""The plugin bundle: one directory of skills that Claude Code and Codex each find through a catalog of their own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from fleet.assist.base import File, Skill, Target

NAME = "subagent-fleet"
TITLE = "Subagent Fleet"
PLUGIN = f"plugins/{NAME}"
SUMMARY = "Run coding agents on your own machines and models."
PURPOSE = "Installs the fleet command line, sets up fleet.yaml and runs the gateway, from inside your assistant."
MAKER = {"name": "The fleet project"}
TARGETS = (Target.CLAUDE_CODE, Target.CODEX)
"""The assistants that have plugin marketplaces; OpenCode's plugins are programs, not skills."""


def plugin_files(targets: Iterable[Target], skills: Iterable[Skill], version: str) -> tuple[File, ...]:
    """The catalogs and manifests of the targets, and the skills they share."""
    manifests = [file for target in targets for file in _manifests(target, version)]
    return (*manifests, *(File(f"{PLUGIN}/skills/{skill.name}/SKILL.md", skill.content) for skill in skills))


def commands(target: Target, root: Path) -> tuple[str, str]:
    """What a user types to add the marketplace at this absolute path, and then its plugin."""
    program, verb = ("claude", "install") if target is Target.CLAUDE_CODE else ("codex", "add")
    add = f"{program} plugin marketplace add {shlex.quote(str(root))}"
    return add, f"{program} plugin {verb} {NAME}@{NAME}"


def _manifests(target: Target, version: str) -> tuple[File, File]:
    match target:
        case Target.CLAUDE_CODE:
            return (
                _json(".claude-plugin/marketplace.json", _claude_catalog()),
                _json(f"{PLUGIN}/.claude-plugin/plugin.json", _claude_plugin(version)),
            )
        case Target.CODEX:
            return (
                _json(".agents/plugins/marketplace.json", _codex_catalog()),
                _json(f"{PLUGIN}/.codex-plugin/plugin.json", _codex_plugin(version)),
            )
        case Target.OPENCODE:
            raise ValueError("OpenCode has no plugin marketplace")


def _claude_catalog() -> dict[str, object]:
    entry = {"name": NAME, "source": f"./{PLUGIN}", "description": SUMMARY, "category": "development"}
    return {"name": NAME, "owner": MAKER, "description": SUMMARY, "plugins": [entry]}


def _claude_plugin(version: str) -> dict[str, object]:
    return {"name": NAME, "version": version, "description": PURPOSE, "author": MAKER, "license": "MIT"}


def _codex_catalog() -> dict[str, object]:
    entry = {
        "name": NAME,
        "source": {"source": "local", "path": f"./{PLUGIN}"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Developer Tools",
    }
    return {"name": NAME, "interface": {"displayName": TITLE}, "plugins": [entry]}


def _codex_plugin(version: str) -> dict[str, object]:
    interface = {
        "displayName": TITLE,
        "shortDescription": SUMMARY,
        "longDescription": PURPOSE,
        "developerName": MAKER["name"],
        "category": "Developer Tools",
        "capabilities": ["Write"],
        "defaultPrompt": ["Use the subagent-fleet bootstrap skill to install the CLI and set up this repo."],
    }
    return {**_claude_plugin(version), "skills": "./skills/", "interface": interface}


def _json(path: str, value: dict[str, object]) -> File:
    return File(path, (json.dumps(value, indent=2) + "\n").encode())

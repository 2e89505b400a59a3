"""The skills that come with fleet."""

from __future__ import annotations

from pathlib import Path

import yaml

from fleet.assist.base import Skill
from fleet.host import files

BOOTSTRAP, SETUP, OPERATIONS = "subagent-fleet-bootstrap", "subagent-fleet-setup", "subagent-fleet-operations"
SKILLS = (BOOTSTRAP, SETUP, OPERATIONS)
USUAL = (SETUP, OPERATIONS)
"""What is installed when nothing is named: where fleet runs already, nobody needs to be told how to install it."""


def bundled() -> tuple[Skill, ...]:
    return tuple(parse(_text(name)) for name in SKILLS)


def parse(content: bytes) -> Skill:
    """Read the front matter, which assistants only see when it begins at the first byte."""
    opening, front, _ = content.decode().split("---\n", 2)
    if opening:
        raise ValueError("the front matter must begin at the first byte")
    meta = yaml.safe_load(front)
    return Skill(meta["name"], meta["description"], content)


def _text(name: str) -> bytes:
    content = files.read(Path(__file__).parent / "skills" / name / "SKILL.md")
    if content is None:
        raise FileNotFoundError(f"this installation of fleet lacks the text of {name}")
    return content

"""The nouns of this room: a skill teaches an assistant, a target is an assistant that reads skills."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Target(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    OPENCODE = "opencode"

    @property
    def home(self) -> str:
        """The directory of a project that this assistant keeps its own things in."""
        return {Target.CLAUDE_CODE: ".claude", Target.CODEX: ".codex", Target.OPENCODE: ".opencode"}[self]


@dataclass(frozen=True, slots=True)
class Skill:
    """One SKILL.md; the description is what an assistant reads to decide whether to open the rest."""

    name: str
    description: str
    content: bytes


@dataclass(frozen=True, slots=True)
class File:
    """A file to be written: its path relative to the chosen directory, with forward slashes."""

    path: str
    content: bytes

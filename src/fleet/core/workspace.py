"""How a project wants the places in which its attempts work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fleet.core.frozen import dataclass
from fleet.core.work import PlaceKind


@dataclass(frozen=True, slots=True)
class Workspace:
    """How a project wants the places of its attempts: where they stand, and what is done before an agent begins."""

    place: PlaceKind = PlaceKind.WORKTREE
    worktree_root: str | None = None  # absolute; without one it is in the home
    branch_prefix: str = ""
    tmux_prefix: str = "ai_"
    agent: str | None = None  # the coder of an attempt that names none
    credential_files: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    setup_timeout: float = 600.0
    quick: bool = False  # leave the set-up commands out
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of each coder, in a terminal
    env: Mapping[str, str] = field(default_factory=dict)  # templates; given to set-up commands and agents
    env_file: str | None = None  # a file in the place that gets them as well

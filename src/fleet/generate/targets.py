"""Every consumer by name, and the whole set of files of a project."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from fleet.core.fleet import Fleet
from fleet.generate import env, litellm
from fleet.generate.base import File

TARGETS = ("claude", "codex", "opencode", "aider")


class Target(Protocol):
    """A module that renders for one agent CLI. KEY_VARIABLES carry the gateway's key; None in exports is `unset`."""

    KEY_VARIABLES: tuple[str, ...]

    def render(self, fleet: Fleet) -> list[File]: ...

    def exports(self, fleet: Fleet) -> dict[str, str | None]: ...


def target(name: str) -> Target:
    """The target's module, loaded when it is asked for."""
    if name not in TARGETS:
        raise ValueError(name)
    return cast("Target", import_module(f"fleet.generate.{name}"))


def render(fleet: Fleet, targets: Sequence[str], key: str) -> list[File]:
    """All files of a project: LiteLLM's (none in direct mode), each target's, and the one a shell sources."""
    chosen = [target(name) for name in targets]
    files = gateway_file(fleet)
    for one in chosen:
        files += one.render(fleet)
    exports = {name: value for one in chosen for name, value in one.exports(fleet).items()}
    keys = [name for one in chosen for name in one.KEY_VARIABLES]
    return files + env.render(fleet, key, exports, keys)


def gateway_file(fleet: Fleet) -> list[File]:
    return [] if fleet.is_direct else litellm.render(fleet)

"""The gateway of a project: LiteLLM, or the node itself in direct mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleet.core import FleetError
from fleet.core.fleet import Fleet
from fleet.gateway import direct, run
from fleet.gateway.direct import Direct
from fleet.gateway.run import Status

__all__ = ["Direct", "Status", "down", "status", "up"]


def up(fleet: Fleet, out: Path, say: Callable[[str], None]) -> Status | Direct:
    if not fleet.is_direct:
        return run.up(fleet, out, say)
    found = direct.check(fleet)
    if not found.answers:
        raise FleetError(f"{found.url} does not answer: {found.reason}", hint="fleet discover --verbose")
    return found


def down(out: Path) -> int | None:
    """Stop what runs for this directory, whatever its fleet.yaml says by now."""
    return run.down(out)


def status(fleet: Fleet, out: Path) -> Status | Direct:
    return direct.check(fleet) if fleet.is_direct else run.status(fleet, out)

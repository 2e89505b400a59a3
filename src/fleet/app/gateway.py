"""The gateway of a project: LiteLLM, or the node itself in direct mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleet.app.probes import probe_models
from fleet.core import FleetError, NotFound
from fleet.core.fleet import Fleet
from fleet.core.text import clean
from fleet.gateway import direct, run
from fleet.gateway.direct import Direct
from fleet.gateway.probe import Probe, Result
from fleet.gateway.run import Status
from fleet.host import files

__all__ = ["Direct", "Status", "down", "log", "log_lines", "say_probe", "status", "up"]

LOG_PIECE_BYTES = 8 * 1024 * 1024


def up(fleet: Fleet, out: Path, say: Callable[[str], None]) -> Status | Direct:
    """Start it, and ask what is in memory as an agent asks."""
    if not fleet.is_direct:
        now = run.up(fleet, out, say)
        probe_models(fleet, out, list(fleet.models.values()), lambda one: _say_probe(one, say))
        return now
    found = direct.check(fleet)
    if not found.answers:
        raise FleetError(f"{found.url} does not answer: {found.reason}", hint="fleet discover --verbose")
    return found


def _say_probe(one: Probe, say: Callable[[str], None]) -> None:
    if one.result is not Result.NOT_TRIED:
        say(say_probe(one))


def say_probe(one: Probe) -> str:
    took = f" in {one.answer.seconds:.1f} s" if one.answer and one.answer.ok else ""
    reason = f": {one.reason}" if one.reason else ""
    return f"  {clean(one.alias)} on {one.node}: {one.result}{took}{reason}"


def down(out: Path) -> int | None:
    """Stop what runs for this directory, whatever its fleet.yaml says by now."""
    return run.down(out)


def status(fleet: Fleet, out: Path) -> Status | Direct:
    return direct.check(fleet) if fleet.is_direct else run.status(fleet, out)


def log(out: Path) -> Path:
    """The log of a project's gateway, of the one that runs or of the last."""
    path = run.Desk(out).log
    if not path.exists():
        raise NotFound("no gateway was started here yet, so there is no log", hint="fleet gateway up")
    return path


def log_lines(path: Path, start: int) -> tuple[list[str], int]:
    """The whole lines after an offset, safe to show, and the offset of the next; a log that was begun anew is read
    from its first line.
    """
    start = start if start <= files.size(path) else 0
    piece = files.read_from(path, start, LOG_PIECE_BYTES) or b""
    whole = piece[: piece.rfind(b"\n") + 1] or (piece if len(piece) == LOG_PIECE_BYTES else b"")
    return [clean(line, 10_000) for line in whole.decode(errors="replace").splitlines()], start + len(whole)

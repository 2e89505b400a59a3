"""What the keeper is asked to do, and what it says was done."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from fleet.core.frozen import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fence:
    """What the agent is kept from. Where this machine cannot do it, the agent runs without, and that is recorded; where
    it is required, the agent is not started.
    """

    hidden: tuple[Path, ...] = ()  # directories that are empty to it
    shown: tuple[Path, ...] = ()  # of what is in those, what is there for it all the same, to be written to
    guarded: tuple[Path, ...] = ()  # what it can read and not write to, whatever stands there
    writable: tuple[Path, ...] = ()  # of what is guarded, what it can write to all the same; each after what it is in
    read_only: tuple[Path, ...] = ()  # after all this; one that is hidden too is as empty as it is, and stays so
    apart: Path | None = None  # what has nothing above it that anybody but root put there: whoever begins there sees so
    network: bool = True  # without one there is a loopback of its own, and nothing else
    required: bool = False
    label: str = "fleet"  # by which those inside are found from outside; no spaces


@dataclass(frozen=True, slots=True)
class Start:
    """An agent to be run. Durations are seconds, sizes are bytes.

    It may run for the timeout and say as much as the output allows; one line of it is kept up to the length of a line.
    To end it, it is interrupted, terminated after the first pause, and killed after the second. When nobody has held
    the supervisor's lock for as long as dead_man says, it is ended as well.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdin: str
    timeout: float
    output: int
    dead_man: float
    supervisor_lock: Path
    interrupt: float = 5.0
    terminate: float = 10.0
    line: int = 4 * MIB
    fence: Fence | None = None


class Cause(StrEnum):
    """Why an agent ended."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    OUTPUT = "output limit"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    HUNG_UP = "terminal closed"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True)
class Exit:
    """How an agent ended, and what it used.

    Leftovers are the processes it left behind and the keeper ended; survivors are those that could not be ended.
    """

    cause: Cause
    ended: float
    code: int | None = None
    signal: int | None = None
    error: str | None = None
    started: float | None = None
    wall: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    stdout: int = 0
    stderr: int = 0
    dropped: int = 0
    leftovers: int = 0
    survivors: int = 0
    pid: int | None = None
    fenced: bool | None = None  # whether it was kept from what it was to be kept from; None: from nothing
    unfenced: str | None = None  # why not

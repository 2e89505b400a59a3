"""Step three, after what was found: the task's check is run anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fleet import keeper
from fleet.core.work import Attempt
from fleet.evidence.receipt import Check, load_receipt
from fleet.host import files
from fleet.keeper import Cause
from fleet.supervisor.aside import aside
from fleet.supervisor.choice import LOCK
from fleet.supervisor.environment import agent_environment
from fleet.supervisor.house import House
from fleet.supervisor.result import TAIL
from fleet.supervisor.start import marks, told

CHECK_SECONDS = 600.0
CHECK_OUTPUT = 16 * 1024 * 1024
CHECKED_AGAIN = 3


async def check(house: House, attempt: Attempt, keep: Callable[[Attempt], None]) -> Check | None:
    """Run the task's check, under a keeper of its own, once the agent says that it is done."""
    command = attempt.spec.check if attempt.spec else None
    if command is None:
        return None
    receipt = await aside(load_receipt, house.attempt_directory(attempt) / "receipt.json")
    if receipt is None or receipt.process.cause != Cause.EXITED or receipt.process.code != 0:
        return None
    if attempt.error is not None or receipt.result.effect is False:
        return None
    for number in range(1, CHECKED_AGAIN + 1):
        directory = house.attempt_directory(attempt) / ("check" if number == 1 else f"check.{number}")
        if attempt.checks < number:  # not begun by an earlier supervisor, so what stands there is not ours
            await aside(files.fresh_dir, directory)
            attempt = replace(attempt, checks=number)
            await aside(keep, attempt)
        seen = await _run(house, attempt, command, directory)
        if seen is not None and seen.cause not in (Cause.CANCELLED, Cause.ABANDONED):
            return _checked(command, seen, directory)
        await aside(keeper.sweep, marks(house, attempt))
    return Check(command, False, "it was cut off, and says nothing", None, None, "", lost=True)


async def _run(house: House, attempt: Attempt, command: str, directory: Path) -> keeper.Exit | None:
    start = keeper.Start(
        argv=("/bin/sh", "-c", command),
        env=agent_environment(house.environment, (), {}, told(house, attempt)),
        cwd=Path(attempt.cwd),
        stdin="",
        timeout=CHECK_SECONDS,
        output=CHECK_OUTPUT,
        dead_man=CHECK_SECONDS,
        supervisor_lock=house.home / LOCK,
    )
    hold = await aside(keeper.hold, directory, start)
    try:
        while await hold.changed():
            pass
    finally:
        hold.close()
    return hold.exit


def _checked(command: str, seen: keeper.Exit, directory: Path) -> Check:
    output = b"".join(files.read_end(directory / name, TAIL) or b"" for name in ("stdout", "stderr"))
    passed = seen.cause == Cause.EXITED and seen.code == 0
    cause = f"exit {seen.code}" if seen.cause == Cause.EXITED else (seen.error or seen.cause)
    return Check(command, passed, cause, seen.code, seen.wall, output.decode(errors="replace")[-TAIL:])

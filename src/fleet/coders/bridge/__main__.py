"""Lead an agent that speaks the Agent Client Protocol through one prompt, which stands on standard input.

    python -P -m fleet.coders.bridge [--permissions=allow|reject] [--model=M] [--session=S] [--ask=WORD ...] AGENT ...

What happens is printed as events under our own field names. It exits with 0 when the agent says that its turn ended
well, with 1 when it does not or cannot be talked to, with 127 when it cannot be started. Interrupted or terminated, it
asks the agent to stop, waits a moment for its answer, and ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from fleet.coders.bridge.wire import Wire
from fleet.coders.stream import short, strange
from fleet.core.work import Event, EventKind

if TYPE_CHECKING:
    from fleet.coders.bridge.talk import Talk

GRACE = 2.5  # seconds to answer a request to stop; the keeper terminates everything 5 s after it interrupted us


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # until there is an agent to end, an end is simple
    given = _arguments()
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    return asyncio.run(_lead(given, prompt))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fleet.coders.bridge", allow_abbrev=False)
    parser.add_argument("--permissions", choices=("allow", "reject"), default="allow")
    parser.add_argument("--model")
    parser.add_argument("--session")
    parser.add_argument("--ask", action="append", default=[])
    parser.add_argument("--patience", type=float, default=120.0)
    parser.add_argument("agent", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.agent:
        parser.error("no agent is named")
    return given


async def _lead(given: argparse.Namespace, prompt: str) -> int:
    interrupts = _Interrupts()
    wire = Wire(_tell_strange)
    try:
        await wire.start(given.agent)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        _tell(Event(EventKind.ERROR, text=short(f"{' '.join(given.agent[:1])} cannot be started: {why}")))
        return 127
    try:
        return await _talk(given, prompt, wire, interrupts)
    finally:
        await wire.end()


async def _talk(given: argparse.Namespace, prompt: str, wire: Wire, interrupts: _Interrupts) -> int:
    from fleet.coders.bridge.talk import Order, Talk  # takes a second to import, in which the agent starts

    order = Order(
        cwd=os.getcwd(), environment=os.environ, permissions=given.permissions, model=given.model,
        session=given.session, ask=tuple(given.ask), patience=given.patience,
    )  # fmt: skip
    talk = Talk(wire, order, _tell)
    work = asyncio.create_task(_work(talk, prompt))
    await interrupts.before(work)
    if not work.done():
        await _stop(talk, work, interrupts)
    await talk.close()
    return interrupts.code or work.result()


async def _work(talk: Talk, prompt: str) -> int:
    from fleet.coders.bridge.talk import Failed

    try:
        return 0 if await talk.work(prompt) else 1
    except Failed as problem:
        _tell(Event(EventKind.ERROR, text=short(str(problem)), status=problem.status))
    except ValueError as problem:  # a directory, say, whose name is no text
        _tell(Event(EventKind.ERROR, text=short(f"it cannot be told what to do: {problem}")))
    return 1


async def _stop(talk: Talk, work: asyncio.Task[int], interrupts: _Interrupts) -> None:
    """Ask the agent to stop, and wait for its answer: not for long, and not when we are interrupted again."""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(GRACE):
            if await talk.cancel():
                await interrupts.before(work)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


class _Interrupts:
    """The signals that mean: stop."""

    def __init__(self) -> None:
        self.code = 0  # what to exit with, once there was one
        self._heard = asyncio.Semaphore(0)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._hear, 128 + number)

    def _hear(self, code: int) -> None:
        self.code = self.code or code
        self._heard.release()

    async def before(self, work: asyncio.Task[int]) -> None:
        """Until the work is done or the next signal comes."""
        waits = asyncio.create_task(self._heard.acquire())
        await asyncio.wait({work, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()


def _tell(event: Event) -> None:
    told = {name: value for name, value in msgspec.to_builtins(event).items() if value is not None}
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


def _tell_strange(line: bytes) -> None:
    for event in strange(line):
        _tell(event)


if __name__ == "__main__":
    sys.exit(main())

"""Not an agent but a supervisor with nothing to supervise: carries attempts through steps that only leave a witness.

carries.py DATABASE WITNESS MISDEEDS ATTEMPT…, where the misdeeds are JSON: {"run": "hangs"} for a step that never ends,
{"settle": ["unavailable", 2]} for one that fails so often. It ends when every attempt is over, those that an earlier
process left in the middle of something short too. {"then": "t2.1"}: an attempt to be begun once the engine's threads
that look for work have ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleet.core import Unavailable
from fleet.engine.base import Work
from fleet.engine.durable import Durable

DBOS_THREADS = ("queue_thread", "scheduler_loop", "queue-worker", "dbos-background-jobs", "notification_listener")


class Steps:
    def __init__(self, witness: Path, misdeeds: dict[str, object]) -> None:
        self._witness = witness
        self._misdeeds = misdeeds
        self.over_now: set[str] = set()
        self.changed = asyncio.Event()

    async def prepare(self, attempt: str) -> None:
        await self._step("prepare", attempt)

    async def run(self, attempt: str) -> None:
        await self._step("run", attempt)

    async def verify(self, attempt: str) -> None:
        await self._step("verify", attempt)

    async def settle(self, attempt: str) -> None:
        await self._step("settle", attempt)

    async def broke(self, attempt: str, problem: str) -> None:
        await self._step("broke", attempt, problem)

    def over(self, attempt: str) -> None:
        self.note("over", attempt)
        self.over_now.add(attempt)
        self.changed.set()

    def waits(self, attempt: str, problem: str) -> None:
        """What is tried again is seen in the witness as a step done twice."""

    def cannot_go_on(self, problem: str) -> None:
        self.note("cannot go on", problem)
        os._exit(4)

    async def _step(self, name: str, attempt: str, problem: str = "") -> None:
        self.note(name, attempt, problem)
        match self._misdeeds.get(name):
            case "hangs":
                await asyncio.Event().wait()
            case [kind, left] if isinstance(left, int) and left > 0:
                self._misdeeds[name] = [kind, left - 1]
                raise Unavailable("not now") if kind == "unavailable" else RuntimeError("a bug")

    async def until_over(self, attempts: set[str]) -> None:
        while not attempts <= self.over_now:
            self.changed.clear()
            await self.changed.wait()

    def note(self, *words: str) -> None:
        with self._witness.open("a") as file:
            file.write(" ".join(word for word in words if word) + "\n")


_promise: type[Work] = Steps


async def main(database: str, witness: str, misdeeds: str, *attempts: str) -> None:
    steps, then = Steps(Path(witness), json.loads(misdeeds)), json.loads(misdeeds).get("then")
    engine = Durable(Path(database), steps, logging.StreamHandler(sys.stderr), rest_after_s=0.2)
    found = await engine.interrupted()
    print(json.dumps(sorted(found)), flush=True)
    resting = asyncio.create_task(note_rest(steps))
    for attempt in [*attempts, *sorted(found)]:
        await engine.start(attempt)
    await steps.until_over({*attempts, *found})
    if then:
        await resting
        await engine.start(then)
        await steps.until_over({then})
    os._exit(0)


async def note_rest(steps: Steps) -> None:
    """Write down the moment from which none of the engine's threads is there."""
    pool = ThreadPoolExecutor(1)
    for thread in threading.enumerate():
        if any(name in thread.name for name in DBOS_THREADS):
            await asyncio.get_running_loop().run_in_executor(pool, thread.join)
    steps.note("rests")


asyncio.run(main(*sys.argv[1:]))

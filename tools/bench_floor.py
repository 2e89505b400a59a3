"""The least that many agents can take: each started under a bare keeper, so many at once, and waited for.

    python tools/bench_floor.py COUNT AT_ONCE DIRECTORY PROGRAM...

Prints the seconds from the first start to the last end. No queue, no ledger, no engine, no receipt: `make bench`
holds the supervisor against it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from fleet import keeper

LONGEST = 60.0


async def one(number: int, directory: Path, argv: tuple[str, ...], room: asyncio.Semaphore) -> None:
    own = directory / str(number)
    own.mkdir()
    start = keeper.Start(
        argv=argv, env={"PATH": "/usr/bin:/bin", "FLEET_ARTIFACT_DIR": str(own)}, cwd=directory, stdin="",
        timeout=LONGEST, output=1_000_000, dead_man=LONGEST, supervisor_lock=directory / "lock",
    )  # fmt: skip
    async with room:
        hold = keeper.hold(own, start)
        while await hold.changed():
            pass
    if hold.exit is None or hold.exit.code != 0:
        raise SystemExit(f"an agent did not do its work: {hold.exit}")


async def every(count: int, at_once: int, directory: Path, argv: tuple[str, ...]) -> float:
    room = asyncio.Semaphore(at_once)
    began = time.perf_counter()
    await asyncio.gather(*(one(number, directory, argv, room) for number in range(count)))
    return time.perf_counter() - began


if __name__ == "__main__":
    print(asyncio.run(every(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), tuple(sys.argv[4:]))))

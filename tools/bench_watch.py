"""What it costs to watch agents: rows of `python tools/bench.py`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from bench_rows import Bench, BenchError, Row, Times, within
from bench_work import AGENTS, IDLE, Log, crew, idle
from fleet.host.vitals import vitals

GOAL = 1.0  # percent of a core
LOOKS = 50
EVERY = 5.0  # seconds between two looks at agents that do nothing
TREE = "import subprocess, sys; child = subprocess.Popen(['sleep', '600']); print(flush=True); child.wait()"


def bench_watch(bench: Bench) -> Iterator[Row]:
    with crew(bench, "watch", AGENTS, IDLE) as own:
        for number in range(AGENTS):
            own.add(f"wait {number}")
        log = Log(own.home)
        own.start()
        log.until("agent started", AGENTS)
        yield within("watch", f"supervisor's CPU, {AGENTS} idle agents watched", Times((idle(own.pid),)), GOAL, "%")
        own.end_agents()
        log.until("settled", AGENTS)
    yield within("watch", f"a look at {AGENTS} trees, every {EVERY:.0f} s", Times((looks(),)), GOAL, "%")


def looks() -> float:
    """Percent of a core that looking at so many trees takes."""
    trees = [subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE) for _ in range(AGENTS)]
    try:
        for tree in trees:
            assert tree.stdout is not None
            tree.stdout.readline()
        began = time.process_time()
        for _ in range(LOOKS):
            if len(vitals([tree.pid for tree in trees])) != AGENTS:
                raise BenchError("not every tree was seen")
        return 100 * (time.process_time() - began) / LOOKS / EVERY
    finally:
        _end(trees)


def _end(trees: list[subprocess.Popen[bytes]]) -> None:
    from fleet.host import process

    families = process.children(process.table())
    for tree in trees:
        for pid in reversed(process.below(tree.pid, families)):
            os.kill(pid, 9)
        tree.wait()
        if tree.stdout is not None:
            tree.stdout.close()


GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {"watch": bench_watch}

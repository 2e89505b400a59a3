"""How fast fleet is beside the programs people would use instead: `make bench`.

    python tools/bench.py                 every row, as a table
    python tools/bench.py work            the work plane: add, first, rate, idle and tasks
    python tools/bench.py places          agents on branches: create, fanout, list and kill
    python tools/bench.py evidence        receipts, beside the checks themselves; what watching costs
    python tools/bench.py discover rate   some groups of rows
    python tools/bench.py --json          the rows as JSON

Both programs run in turns in one sitting on one machine, so the ratio means something even where the seconds do not.
Nothing fails when a goal is missed: this is a measurement, not a test. docs/guides/speed.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import bench_evidence
import bench_gateway
import bench_places
import bench_watch
import bench_work
import parts
from bench_rows import AI_FLEET, OURS, SUBAGENT_FLEET, Bench, BenchError, Row, Times, in_turns, prepare

OPEN_FILES = 4096
THEIR_TIMEOUT = 5.0  # subagent-fleet has no option for it
AGENTS = 1000
ONLINE = '"online"'
MODELS = [
    {"name": "qwen2.5-coder:32b", "size": 19_851_349_856, "details": {"family": "qwen2", "parameter_size": "32.8B"}},
    {"name": "qwen2.5-coder:7b", "size": 4_683_087_519, "details": {"family": "qwen2", "parameter_size": "7.6B"}},
]
ANSWERS = {b"/api/tags": {"models": MODELS}, b"/api/ps": {"models": MODELS[:1]}}


# --- the fleets ---------------------------------------------------------------------------------------------------

HEAD = """\
project:
  name: bench
  gateway:
    provider: litellm
    host: 127.0.0.1
    port: 4000
    master_key_env: LITELLM_MASTER_KEY

"""
MODEL = """\
  {name}:
    node: {node}
    ollama_model: {served}
    litellm_alias: {alias}
    context: 32768
    timeout: 600
    max_parallel: 1
"""
AGENT = """\
  {name}:
    model: {model}
    description: Use for implementation, bug fixes, refactors, and patch creation.
    tools:
      - Read
      - Grep
      - Edit
      - Bash
    prompt: |
      You are a senior implementation agent.
      Make minimal, correct changes, and run the relevant checks.
      Explain what changed and why.
"""


def fleet_yaml(endpoints: Sequence[str], agents: Sequence[str]) -> str:
    """A fleet.yaml that both programs read: two models on the first and the last node."""
    nodes = [f"  node-{n}:\n    endpoint: {url}\n    tags: [bench]\n" for n, url in enumerate(endpoints)]
    last = len(endpoints) - 1
    models = [
        MODEL.format(name="heavy-coder", node="node-0", served="qwen2.5-coder:32b", alias="claude-sonnet-local"),
        MODEL.format(name="small-coder", node=f"node-{last}", served="qwen2.5-coder:7b", alias="claude-haiku-local"),
    ]
    roles = [AGENT.format(name=name, model=("heavy-coder", "small-coder")[n % 2]) for n, name in enumerate(agents)]
    return HEAD + "\n".join(["nodes:", *nodes, "models:", *models, "agents:", *roles])


class Live(asyncio.Protocol):
    """A node that answers as Ollama does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._heard = transport, b""

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            head, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self._transport.write(answer(head.split(b" ", 2)[1]))


class Silent(asyncio.Protocol):
    """A node that takes the connection and never says a word."""


def answer(path: bytes) -> bytes:
    known = ANSWERS.get(path)
    body = json.dumps(known or {"error": "not found"}).encode()
    status = b"200 OK" if known else b"404 Not Found"
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


@contextmanager
def nodes(live: int, silent: int) -> Iterator[list[str]]:
    """Nodes on loopback ports, in a thread of this process; live and silent ones are mixed. Gone at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        servers = asyncio.run_coroutine_threadsafe(listen(mixed(live, silent)), loop).result(60)
        yield [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers]
        asyncio.run_coroutine_threadsafe(hang_up(servers), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def mixed(live: int, silent: int) -> list[type[asyncio.Protocol]]:
    """Both kinds spread evenly over the list."""
    total = live + silent
    return [Live if (n + 1) * live // total > n * live // total else Silent for n in range(total)]


async def listen(kinds: Sequence[type[asyncio.Protocol]]) -> list[asyncio.Server]:
    loop = asyncio.get_running_loop()
    return [await loop.create_server(kind, "127.0.0.1", 0) for kind in kinds]


async def hang_up(servers: Sequence[asyncio.Server]) -> None:
    for server in servers:
        server.close()


def allow_files() -> None:
    """A thousand nodes are a thousand sockets here, and as many in the program that asks them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# --- the groups of rows -------------------------------------------------------------------------------------------


def bench_help(bench: Bench) -> Iterator[Row]:
    bare, their_bare, ours, theirs = in_turns(
        15,
        partial(bench.run, OURS.bin / "python", "-c", "pass"),
        partial(bench.run, AI_FLEET.bin / "python", "-c", "pass"),
        partial(bench.run, OURS.bin / "fleet", "--help"),
        partial(bench.run, AI_FLEET.bin / "fleet", "--help"),
    )
    yield Row("help", "python -c pass (for scale)", bare, "ai-fleet's python", their_bare)
    yield Row("help", "fleet --help", ours, "ai-fleet", theirs, goal=0.6)


def bench_validate(bench: Bench) -> Iterator[Row]:
    endpoints = [f"http://192.168.1.{n}:11434" for n in (50, 51, 52)]
    config = bench.write("three.yaml", fleet_yaml(endpoints, ["planner", "implementer", "reviewer"]))
    ours, theirs = in_turns(
        11,
        partial(bench.run, OURS.bin / "fleet", "validate", "--config", config),
        partial(bench.run, SUBAGENT_FLEET.bin / "subagent-fleet", "validate", "--config", config),
    )
    yield Row("validate", "fleet validate, 3 nodes", ours, "subagent-fleet", theirs, goal=0.5)


def bench_discover(bench: Bench) -> Iterator[Row]:
    for count, rounds in ((20, 5), (200, 5), (1000, 3)):
        yield against_the_clock(bench, count, rounds, timeout=2.0)
    with nodes(4, 2) as endpoints:
        config = bench.write("six.yaml", fleet_yaml(endpoints, ["planner"]))
        ask, check = ("discover", "--json", "--config", config), partial(online, 4)
        ours, theirs = in_turns(
            3,
            partial(bench.run, OURS.bin / "fleet", *ask, "--timeout", str(THEIR_TIMEOUT), check=check),
            partial(bench.run, SUBAGENT_FLEET.bin / "subagent-fleet", *ask, check=check),
        )
    what = f"fleet discover, 4 live + 2 silent, {THEIR_TIMEOUT:g} s"
    yield Row("discover", what, ours, "subagent-fleet", theirs)


def against_the_clock(bench: Bench, count: int, rounds: int, timeout: float) -> Row:
    """Discover of many nodes, half of them silent, beside one timeout: the least that any program can take."""
    live, found = count // 2, []
    with nodes(live, count - live) as endpoints:
        config = bench.write(f"{count}.yaml", fleet_yaml(endpoints, ["planner"]))
        ask = ("discover", "--json", "--config", config, "--timeout", str(timeout))
        run = partial(bench.run, OURS.bin / "fleet", *ask, check=lambda said: found.append(said.count(ONLINE)))
        (ours,) = in_turns(rounds, run)
    wrong = f"found {min(found)} of {live} live nodes" if set(found) != {live} else ""
    what = f"fleet discover, {count} nodes, half silent"
    return Row("discover", what, ours, f"one timeout of {timeout:g} s", Times((timeout,)), goal=1.2, wrong=wrong)


def online(expected: int, said: str) -> None:
    found = said.count(ONLINE)
    if found != expected:
        raise BenchError(f"{found} nodes were found online, and {expected} are")


def bench_generate(bench: Bench) -> Iterator[Row]:
    endpoints = [f"http://192.168.1.{n}:11434" for n in (50, 51, 52)]
    config = bench.write("agents.yaml", fleet_yaml(endpoints, [f"agent-{n:04}" for n in range(AGENTS)]))

    def generate(program: Path) -> float:
        with bench.fresh() as out:
            took = bench.run(program, "generate", "--config", config, "--out", out)
            written = len(list(out.glob(".claude/agents/*.md")))
        if written != AGENTS:
            raise BenchError(f"{program.name} wrote {written} agents, and {AGENTS} were asked for")
        return took

    ours, theirs = in_turns(
        5, partial(generate, OURS.bin / "fleet"), partial(generate, SUBAGENT_FLEET.bin / "subagent-fleet")
    )
    yield Row("generate", f"fleet generate, {AGENTS} agents", ours, "subagent-fleet", theirs, goal=1 / 3)


MODEL_GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "help": bench_help,
    "validate": bench_validate,
    "discover": bench_discover,
    "generate": bench_generate,
    **bench_gateway.GROUPS,
}
GROUPS = MODEL_GROUPS | bench_work.GROUPS | bench_places.GROUPS | bench_evidence.GROUPS | bench_watch.GROUPS
PLANES = {
    "models": tuple(MODEL_GROUPS),
    "work": tuple(bench_work.GROUPS),
    "places": tuple(bench_places.GROUPS),
    "evidence": (*bench_evidence.GROUPS, *bench_watch.GROUPS),
}


# --- showing ------------------------------------------------------------------------------------------------------

HEADS = ("what", "ours", "theirs", "", "ratio", "of best", "goal", "met")
WIDTHS = (46, 18, 15, 26, 7, 7, 6, 3)


def amount(times: Times | None, unit: str) -> str:
    """The median, and the best run in brackets when there were several."""
    if times is None:
        return "-"
    best = f" ({times.best:.3f})" if len(times.runs) > 1 else ""
    return f"{times.median:.3f}{best}" + (f" {unit}" if unit != "s" else "")


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def cells(row: Row) -> tuple[str, ...]:
    met = {None: "-", True: "yes", False: "no"}[row.met]
    met += f": {row.wrong}" if row.wrong else ""
    numbers = (share(row.ratio), share(row.ratio_of_best), share(row.goal))
    return row.what, amount(row.ours, row.unit), amount(row.theirs, row.unit), row.against, *numbers, met


def line(values: Sequence[str]) -> str:
    return "  ".join(value.ljust(width) for value, width in zip(values, WIDTHS, strict=True)).rstrip()


def times_data(times: Times | None) -> dict[str, object] | None:
    return {"median": times.median, "best": times.best, "runs": times.runs} if times else None


def row_data(row: Row) -> dict[str, object]:
    return {
        "group": row.group,
        "what": row.what,
        "unit": row.unit,
        "ours": times_data(row.ours),
        "against": row.against,
        "theirs": times_data(row.theirs),
        "ratio": row.ratio,
        "ratio_of_best": row.ratio_of_best,
        "goal": row.goal,
        "met": row.met,
        "wrong": row.wrong,
    }


def memory() -> str | None:
    """A directory in memory, unless $TMPDIR names another: a disk that others use too would drown the difference."""
    shared = "/dev/shm"
    return shared if not os.environ.get("TMPDIR") and os.access(shared, os.W_OK) else None


def measure(names: Sequence[str], show: Callable[[Row], None]) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fleet-bench-", dir=memory()) as scratch:
        bench = Bench(Path(scratch))
        (bench.scratch / "home").mkdir()
        for name in names:
            for row in GROUPS[name](bench):
                show(row)
                rows.append(row)
    return rows


def chosen(asked: Sequence[str]) -> list[str]:
    """The groups that were asked for, each once and in their order; all of them when none was."""
    wanted = {name for word in asked for name in PLANES.get(word, (word,))}
    return [name for name in GROUPS if not wanted or name in wanted]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench", description="How fast fleet is beside other programs.")
    names = [*PLANES, *GROUPS]
    parser.add_argument("rows", nargs="*", metavar="ROWS", help=f"only these: {', '.join(names)}")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    given = parser.parse_args(argv)
    if unknown := sorted(set(given.rows) - set(names)):
        parser.error(f"there are no rows {', '.join(unknown)}; there are {', '.join(names)}")
    try:
        prepare()
        allow_files()
        if not given.json:
            print(f"seconds, or as it says: median (best run); Python {sys.version.split()[0]}, {os.cpu_count()} cores")
            print(line(HEADS), flush=True)
        show: Callable[[Row], None] = (
            (lambda _: None) if given.json else lambda row: print(line(cells(row)), flush=True)
        )
        rows = measure(chosen(given.rows), show)
    except (BenchError, parts.PartError, subprocess.TimeoutExpired) as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps([row_data(row) for row in rows], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

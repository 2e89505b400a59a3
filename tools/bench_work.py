"""The rows of the work plane: a real supervisor, real keepers, and agents that are shell scripts.

Every home is below the scratch directory of the bench. What a row started is gone when the row is done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench_rows import OURS, Bench, BenchError, Row, Times, in_turns, within
from fleet import keeper
from fleet.app.home import wake
from fleet.core.proof import TaskKind
from fleet.core.task import NewTask, Spec
from fleet.core.work import Attempt, Ending, Limits, Verdict
from fleet.evidence.ledger import Ledger
from fleet.supervisor.choice import attempt_directory
from fleet.tracker import spec as specs
from fleet.tracker.local import Local

FLEET = OURS.bin / "fleet"
FLOOR = Path(__file__).with_name("bench_floor.py")
SEED = "the fleet of seed 002"  # as it was seen on a quiet machine of this kind
SEED_TASKS, SEED_AGENTS = 562.0, 278.0  # seconds: for a hundred tasks that do nothing, and until fifty agents were up
TASKS, AGENTS, FINISHED = 100, 50, 1000
SETTLE, WATCH = 15.0, 20.0
PATIENCE = 120.0
GONE_WITHIN = 20.0
MB = 1_000_000
NOOP = ': >"$FLEET_ARTIFACT_DIR/done"\n'
FIRST = 'date +%s%N >"$FLEET_ARTIFACT_DIR/first"\n'
IDLE = FIRST + "exec sleep 600\n"
SETTINGS = """\
max_concurrent = {at_once}
coder = "bench"
model = ""
min_free_disk = 0
agent_memory = "16MB"

[coders.bench]
argv = ["/bin/sh", {script}]
"""
Record = Mapping[str, Any]


# --- a home with a supervisor -------------------------------------------------------------------------------------


class Log:
    """What the supervisor says that it did, as it says it."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "logging"
        self._read: dict[Path, int] = {}

    def fresh(self) -> list[Record]:
        """What was written since the last call."""
        found: list[Record] = []
        for path in sorted(self._directory.glob("fleet-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            found += [json.loads(line) for line in whole.splitlines()]
        return found

    def until(self, event: str, count: int) -> list[Record]:
        """Everything that happened until something had happened so often."""
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE
        while len(named(found, event)) < count:
            if time.monotonic() > deadline:
                raise BenchError(f"{len(named(found, event))} times {event!r} in {PATIENCE:.0f} s, and not {count}")
            time.sleep(0.05)
            found += self.fresh()
        return found


def named(records: list[Record], event: str) -> list[Record]:
    return [record for record in records if record["event"] == event]


@dataclass(slots=True)
class Crew:
    """A home with one kind of agent, and its supervisor once it was started."""

    bench: Bench
    place: Path
    pid: int = 0
    cpu: list[float] = field(default_factory=list)  # of the supervisor, in each round, in milliseconds a task

    @property
    def home(self) -> Path:
        return self.bench.home

    @property
    def tracker(self) -> Local:
        return Local(self.home)

    def add(self, title: str, *after: str) -> str:
        """Put a task in the queue without waking anybody."""
        spec = Spec(str(self.place), kind=TaskKind.RESEARCH)  # its agents leave a note, and change nothing
        made = self.tracker.add(NewTask(title, after=after), lambda task: specs.write(self.home, task, spec))
        return made.id

    def gates(self, count: int) -> list[str]:
        """Tasks that nobody works on. What waits for one of them is ready at once when it is closed."""
        found = [self.add("a gate") for _ in range(count)]
        for gate in found:
            self.tracker.block(gate, "closed by the bench")
        return found

    def start(self) -> None:
        said: list[str] = []
        self.bench.run(FLEET, "run", "--detach", "--json", check=said.append)
        self.pid = int(json.loads(said[0])["pid"])

    def stop(self) -> None:
        """End the supervisor, and then every agent: in this order none is started meanwhile."""
        if self.pid:
            self._stop_supervisor()
        self.end_agents()
        deadline = time.monotonic() + GONE_WITHIN
        while left := keepers(self.home):
            if time.monotonic() > deadline:
                raise BenchError(f"these keepers do not end: {left}")
            time.sleep(0.1)

    def _stop_supervisor(self) -> None:
        try:
            self.bench.run(FLEET, "run", "stop")
        except (BenchError, subprocess.TimeoutExpired):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def end_agents(self) -> None:
        for task in self.tracker.unfinished():
            self.tracker.close(task.id, "cancelled: the bench is over")
        for attempt in Ledger(self.home).unsettled():
            keeper.abort(attempt_directory(self.home, attempt))


@contextmanager
def crew(bench: Bench, name: str, at_once: int, script: str, git: bool = False) -> Iterator[Crew]:
    """A home of its own; whatever was started in it is gone at the end."""
    own = replace(bench, own=f"fleet-{name}")
    own.home.mkdir(mode=0o700)
    program = own.write(f"{name}.sh", script)
    settings = SETTINGS.format(at_once=at_once, script=json.dumps(str(program)))
    (own.home / "runtime.toml").write_text(settings)
    place = own.scratch / f"place-{name}"
    place.mkdir()
    if git:
        repository(place)
    (place / "README").write_text("nothing is to be done here\n")
    found = Crew(own, place)
    try:
        yield found
    finally:
        found.stop()


def repository(place: Path) -> None:
    """A repository with one commit, and a file that is not committed yet."""
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
    for words in (("init", "--quiet"), (*who, "commit", "--quiet", "--allow-empty", "--message", "begin")):
        subprocess.run(["git", *words], cwd=place, check=True, stdin=subprocess.DEVNULL)


# --- what the system says of a process ----------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """The time a process has spent on a core, with all its threads: utime and stime of /proc, but in nanoseconds."""
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) does it


def memory(pid: int, which: str) -> float:
    """Megabytes of real memory: VmRSS is now, VmHWM the most it ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) * 1024 / MB


def keepers(home: Path) -> list[int]:
    """The keepers of this home: each is told its directory on its command line."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and keeps(entry, home)]


def keeps(process: Path, home: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    below = os.fsencode(home / "tasks") + b"/"
    return any(word.startswith(below) for word in words) and any(b"keep" in word for word in words[:4])


# --- the groups of rows -------------------------------------------------------------------------------------------


def bench_add(bench: Bench) -> Iterator[Row]:
    own = replace(bench, own="fleet-add")
    adding, helping = in_turns(15, partial(own.run, FLEET, "add", "look at it"), partial(own.run, FLEET, "--help"))
    yield Row("add", "fleet add", adding, "fleet --help", helping, goal=2.0)


def bench_first(bench: Bench) -> Iterator[Row]:
    with crew(bench, "first", 3, FIRST) as own:
        own.start()
        log = Log(own.home)

        def once() -> float:
            said: list[str] = []
            own.bench.run(FLEET, "add", "say when", "--json", "--cwd", own.place, check=said.append)
            returned = time.time_ns()
            log.until("settled", 1)
            time.sleep(0.2)
            return (first_word(own.home, json.loads(said[0])["id"]) - returned) / 1e9

        (took,) = in_turns(9, once)
    yield within("first", "fleet add done to the agent's first word", took, 0.5)


def first_word(home: Path, task: str) -> int:
    """When the agent of a task did its first thing, in nanoseconds since 1970."""
    return int((home / "tasks" / task / "artifacts" / "first").read_text())


def bench_rate(bench: Bench) -> Iterator[Row]:
    for at_once, rounds in ((10, 3), (50, 3)):
        yield from rate(bench, f"{TASKS} no-op tasks, {at_once} at once", at_once, rounds)
    yield from rate(bench, f"{TASKS} no-op tasks, 10 at once, git", 10, 1, git=True)


def rate(bench: Bench, what: str, at_once: int, rounds: int, git: bool = False) -> Iterator[Row]:
    with crew(bench, f"rate-{at_once}{'-git' * git}", at_once, NOOP, git) as own:
        gates = iter(own.gates(rounds + 1))
        own.start()
        log = Log(own.home)
        ours, floor = in_turns(rounds, lambda: noop(own, log, next(gates)), partial(bare, own, at_once))
    yield Row("rate", what, ours, "bare keepers", floor, goal=6.0 if git else 3.0)
    if not git:
        yield Row("rate", what, ours, SEED, Times((SEED_TASKS,)), goal=1 / 25)
    yield Row("rate", "  the supervisor's CPU for one of them", Times(tuple(own.cpu[1:])), unit="ms")


def noop(own: Crew, log: Log, gate: str) -> float:
    """Seconds from the first claim until the last task is settled, the queue being full when it begins."""
    for number in range(TASKS):
        own.add(f"no-op {number}", gate)
    log.fresh()
    before = cpu_seconds(own.pid)
    own.tracker.close(gate, "opened")
    wake(own.home)
    seen = log.until("settled", TASKS)
    own.cpu.append((cpu_seconds(own.pid) - before) / TASKS * 1000)
    verdicts = [record["verdict"] for record in named(seen, "settled")]
    if verdicts != ["accepted"] * TASKS:
        raise BenchError(f"of {TASKS} tasks, {verdicts.count('accepted')} were accepted")
    claims, ends = ([float(record["at"]) for record in named(seen, event)] for event in ("claimed", "settled"))
    return max(ends) - min(claims)


def bare(own: Crew, at_once: int) -> float:
    """The floor: the same program as often, under keepers that nobody supervises."""
    said: list[str] = []
    program = own.bench.scratch / f"{own.bench.own.removeprefix('fleet-')}.sh"
    with own.bench.fresh() as directory:
        asked = (str(TASKS), str(at_once), directory, "/bin/sh", program)
        own.bench.run(OURS.bin / "python", FLOOR, *asked, check=said.append)
    return float(said[0])


def bench_idle(bench: Bench) -> Iterator[Row]:
    with crew(bench, "idle", AGENTS, IDLE) as own:
        tasks = [own.add(f"wait {number}") for number in range(AGENTS)]
        log = Log(own.home)
        began = time.time_ns()
        own.start()
        log.until("agent started", AGENTS)
        up = (max(wait_for(partial(first_word, own.home, task)) for task in tasks) - began) / 1e9
        yield Row("idle", f"fleet run to {AGENTS} agents up", Times((up,)), SEED, Times((SEED_AGENTS,)))
        yield within("idle", f"supervisor's CPU, {AGENTS} idle agents", Times((idle(own.pid),)), 0.5, "%")
        held = [memory(pid, "VmHWM") for pid in keepers(own.home)]
        if len(held) != AGENTS:
            raise BenchError(f"{len(held)} keepers run, and {AGENTS} were started")
        yield within("idle", f"memory of a keeper, the largest of {AGENTS}", Times((max(held),)), 12.0, "MB")
        yield Row("idle", f"memory of the supervisor, {AGENTS} agents", Times((memory(own.pid, "VmRSS"),)), unit="MB")
        own.end_agents()
        log.until("settled", AGENTS)
        yield within("idle", "supervisor's CPU, no agent", Times((idle(own.pid),)), 0.2, "%")


def idle(pid: int) -> float:
    """Percent of a core that a process uses when it has had time to come to rest."""
    time.sleep(SETTLE)
    began, before = time.monotonic(), cpu_seconds(pid)
    time.sleep(WATCH)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


def wait_for(ask: Callable[[], int]) -> int:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except (OSError, ValueError):  # not there yet, or not written yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def bench_tasks(bench: Bench) -> Iterator[Row]:
    with crew(bench, "tasks", 3, NOOP) as own:
        ledger = Ledger(own.home)
        for number in range(FINISHED):
            finish(own, ledger, own.add(f"finished task {number}"))
        (short,) = in_turns(11, partial(own.bench.run, FLEET, "tasks"))
        (took,) = in_turns(11, partial(own.bench.run, FLEET, "tasks", "--all", check=all_done))
        (as_json,) = in_turns(5, partial(own.bench.run, FLEET, "tasks", "--all", "--json", check=all_listed))
    yield within("tasks", f"fleet tasks, {FINISHED} finished", short, 0.25)
    yield within("tasks", f"fleet tasks --all, {FINISHED} finished", took, 0.25)
    yield within("tasks", f"fleet tasks --all --json, {FINISHED} finished", as_json, 0.25)


def finish(own: Crew, ledger: Ledger, task: str) -> None:
    """Leave behind what a supervisor leaves when a task was done at the first attempt."""
    own.tracker.claim(task, "bench")
    now = time.time()
    begun = ledger.begin(Attempt("", task, 0, "bench", None, str(own.place), "bench", now))
    done = replace(
        begun, started=now, ended=now + 60, ending=Ending.FINISHED, verdict=Verdict.ACCEPTED, cause="1 commit",
        session="5f0c1a2e-0000-4000-8000-000000000000", events=40, last_event=now + 59, tokens=120_000,
        peak_context=60_000, context_limit=200_000, cost=0.42, tools={"Bash": 12, "Edit": 5, "Read": 9},
        local=(), limits=Limits(7200, 3, 10**9),
        origins={"timeout": "machine", "attempts": "machine", "output": "machine"},
    )  # fmt: skip
    ledger.save(done)
    own.tracker.close(task, "1 commit")


def all_done(said: str) -> None:
    found = sum("finished task" in line for line in said.splitlines())
    if found != FINISHED:
        raise BenchError(f"{found} finished tasks were listed, and there are {FINISHED}")


def all_listed(said: str) -> None:
    states = [row["state"] for row in json.loads(said)]
    if states != ["done"] * FINISHED:
        raise BenchError(f"{states.count('done')} of {len(states)} tasks were done, and there are {FINISHED}")


GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "add": bench_add,
    "first": bench_first,
    "rate": bench_rate,
    "idle": bench_idle,
    "tasks": bench_tasks,
}

"""A real supervisor in a scratch home under agents that misbehave, killed now and then; and what is seen from outside.

The judge's facts come from the witness, git, /proc and what `fleet` itself prints: never from this home's own files.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fleet
from fleet.app.add import add
from fleet.app.home import SETTINGS
from fleet.chaos.judge import SETTLED, Facts, Recovery, Scorecard, Seen, read_witness, score
from fleet.chaos.script import PROGRAM, TRAITS, Behaviour, Case, Kill, Script, Victim
from fleet.core import FleetError, NotFound
from fleet.core.task import NewTask, Spec
from fleet.host import files, process
from fleet.host.run import Ran, run

PROCESSES = Path("/proc/self")
AT_ONCE = 6
TICK = 0.2
SAY_EVERY = 10.0
ANSWERS_WITHIN = 60.0
STOPS_WITHIN = 20.0
ORPHANS_WITHIN = 5.0
ASKED_AT_ONCE = 4
MOST_STARTS = 200
FORGED = "forged by the agent"
CHECK = "sh check.sh"
FILES = {
    "README.md": "# A scratch repository of fleet chaos\n\nThe answer is wanted in answer.txt.\n",
    "answer.txt": "unknown\n",
    "check.sh": "for test in tests/*.sh; do [ ! -e $test ] || sh $test || exit 1; done\n",
    "tests/test_answer.sh": "grep -qx 42 answer.txt\n",
}
AUTHOR = ("-c", "user.name=fleet", "-c", "user.email=fleet@fleet.invalid", "-c", "commit.gpgSign=false")
SAFELY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")  # agents have been there
KEEPER_OF = re.compile(r"/tasks/([^/]+)/attempts/([0-9]+)(/|\Z)")
Say = Callable[[str], None]
Row = Mapping[str, Any]


def chaos(script: Script, say: Say, *, keep: bool = False) -> tuple[Scorecard, Path | None]:
    """Play a script to its end, or to the end of its time; the scorecard, and where all of it is if it was kept."""
    if not PROCESSES.is_dir():
        raise FleetError("fleet chaos looks for processes in /proc, which this system has not", hint="run it on Linux")
    with _told_to_stop(), _scratch(keep) as root:
        stage = Stage(root)
        tasks = stage.prepare(script)
        try:
            drive = Drive(stage, script, tasks, say)
            in_time = drive.play()
            facts = Look(stage, tasks, drive).facts()
        finally:
            stage.clear()
        taken = time.monotonic() - drive.began
        return score(script.seed, round(taken, 1), facts, drive.recoveries(), in_time=in_time), root if keep else None


@contextmanager
def _told_to_stop() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: nothing may be left behind."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _scratch(keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(tempfile.mkdtemp(prefix="fleet-chaos-")).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="fleet-chaos-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch).resolve()


@dataclass(frozen=True, slots=True)
class Stage:
    """A home, repositories and a witness, apart from everything of the user's."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home" / ".fleet"

    @property
    def witness(self) -> Path:
        return self.root / "witness" / "lines"

    @property
    def env(self) -> dict[str, str]:
        """Nothing of the user's but the way to programs, and to this very copy of fleet."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home.parent),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(fleet.__file__).parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def prepare(self, script: Script) -> dict[str, Case]:
        """Settings, a repository for each case, and its task in the queue; the cases by their tasks."""
        files.private_dir(self.home)
        files.private_dir(self.witness.parent)
        files.write(self.home / SETTINGS, self._settings().encode(), files.PRIVATE)
        self._template()
        return {self._add(case): case for case in script.cases}

    def _settings(self) -> str:
        lines = [
            'coder = "honest-fast"', 'model = ""', f"max_concurrent = {AT_ONCE}", 'backoff = "0s"',
            'min_free_disk = "1MB"', 'agent_memory = "64MB"',
        ]  # fmt: skip
        for name in Behaviour:
            argv = [sys.executable, "-I", "-S", str(PROGRAM), name.value, str(self.witness)]
            lines += [f"[coders.{name}]", f"argv = {json.dumps(argv)}", 'events = "claude"']
        return "\n".join(lines) + "\n"

    def _template(self) -> None:
        template = self.root / "template"
        for name, text in FILES.items():
            files.write(template / name, text.encode())
        self.git(template, "init", "--quiet", "--initial-branch=main")
        self.git(template, "add", "--all")
        self.git(template, *AUTHOR, "commit", "--quiet", "--message", "begin")

    def _add(self, case: Case) -> str:
        place, trait = self.place(case), TRAITS[case.behaviour]
        self.git(self.root, "clone", "--quiet", "template", str(place))
        spec = Spec(
            cwd=str(place), coder=case.behaviour, check=CHECK, timeout=trait.timeout, silence=trait.silence,
            attempts=3 if trait.honest else 1, output=trait.output, tokens=trait.tokens, cost=trait.cost,
        )  # fmt: skip
        new = NewTask(f"Write the answer (case {case.number})", "42, into answer.txt, committed.", case.priority)
        return add(new, spec, self.home)[0].id

    def place(self, case: Case) -> Path:
        return self.root / "work" / str(case.number)

    def git(self, cwd: Path, *args: str) -> str:
        env = self.env | {"GIT_CONFIG_NOSYSTEM": "1"}
        done = run(["git", *SAFELY, *args], cwd=cwd, env=env, timeout=ANSWERS_WITHIN)
        if done.code != 0:
            raise FleetError(f"git {args[0]} failed: {done.said}", hint="git --version")
        return done.out.decode(errors="replace")

    def start(self, name: str, *args: str) -> process.Child:
        """The program itself, in this home; what it prints is in a file of this name."""
        return process.detach([sys.executable, "-m", "fleet", *args], self.env, self.root / name)

    def ask(self, *args: str) -> Ran:
        return run([sys.executable, "-m", "fleet", *args], cwd=self.root, env=self.env, timeout=ANSWERS_WITHIN)

    def processes(self) -> list[process.Process]:
        return process.mentioning(str(self.root))

    def clear(self) -> None:
        """End everything of this stage, and see that it is gone."""
        process.end_all(self.processes)


@dataclass
class Drive:
    """Plays the script: starts supervisors, kills them and keepers when their time comes, and listens meanwhile."""

    stage: Stage
    script: Script
    tasks: Mapping[str, Case]
    say: Say
    shown: dict[str, set[str]] = field(default_factory=dict)
    robbed: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)
    _kills: list[tuple[Recovery, float, int]] = field(default_factory=list)  # when, and which supervisor came after it
    _starts: list[float] = field(default_factory=list)
    _heard: int = 0
    _unfinished: int | None = None
    _aborted: dict[str, process.Child] = field(default_factory=dict)  # by us, who were asked what is to become of it

    def play(self) -> bool:
        """Whether all came to its end in time."""
        waiting, spoken = list(self.script.kills), 0.0
        watch = self.stage.start("watch.out", "tasks", "--watch", "--json")
        child = self._supervise()
        try:
            while (now := time.monotonic() - self.began) < self.script.seconds:
                code = process.ended(child, TICK)
                self._listen()
                if code == 0:
                    return True
                if code is not None:
                    child = self._supervise()
                if waiting and now >= waiting[0].at:
                    child = self._kill(child, waiting.pop(0), now)
                if now - spoken >= SAY_EVERY:
                    spoken = now
                    self.say(f"{now:.0f} s: {self._progress()}")
        finally:
            self._listen()
            for one in (child, watch, *self._aborted.values()):
                _end(one, signal.SIGKILL)
        return False

    def _supervise(self) -> process.Child:
        if len(self._starts) >= MOST_STARTS:
            raise FleetError("the supervisor does not stay up", hint="fleet chaos --keep")
        self._starts.append(time.time())
        return self.stage.start(self._talk(len(self._starts)), "run", "--drain", "--json")

    def _talk(self, number: int) -> str:
        return f"supervisor-{number}.out"

    def _kill(self, child: process.Child, kill: Kill, now: float) -> process.Child:
        """Do what the script says; the supervisor that is there afterwards."""
        if kill.victim is Victim.KEEPER:
            whom = self._rob(kill.pick)
        else:
            whom = f"process {child.pid}"
            _end(child, signal.SIGKILL if kill.victim is Victim.SUPERVISOR else signal.SIGTERM)
        at = time.time()
        if kill.victim is not Victim.KEEPER:
            child = self._supervise()
        self._kills.append((Recovery(round(now, 1), kill.victim, whom), at, len(self._starts)))
        self.say(f"{now:.0f} s: {kill.victim}: {whom}")
        return child

    def _rob(self, pick: float) -> str:
        """Kill one of the keepers that are there; whose it was."""
        found = sorted(_keepers(self.stage).items())
        if not found:
            return "nobody, there was none"
        attempt, one = found[int(pick * len(found))]
        self.robbed.add(attempt)
        one.send(signal.SIGKILL)
        return attempt

    def _listen(self) -> None:
        """Take in what `fleet tasks --watch` has printed since."""
        new = files.read_from(self.stage.root / "watch.out", self._heard, 64 * 1024 * 1024) or b""
        whole = new[: new.rfind(b"\n") + 1]
        self._heard += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                self._note(json.loads(line))

    def _note(self, rows: list[Row]) -> None:
        for row in rows:
            task, said = str(row["id"]), states(row)
            self.shown.setdefault(task, set()).update(said)
            trait = TRAITS[self.tasks[task].behaviour]
            if trait.asks and said & set(trait.states) and task not in self._aborted:
                self._aborted[task] = self.stage.start(f"abort-{task}.out", "abort", task)
        self._unfinished = sum(row["state"] not in SETTLED for row in rows)

    def _progress(self) -> str:
        left = "?" if self._unfinished is None else self._unfinished
        return f"{left} of {len(self.tasks)} tasks to go, {len(self._kills)} of {len(self.script.kills)} kills done"

    def recoveries(self) -> list[Recovery]:
        """The kills, each with how long it took until somebody went on: the new supervisor, or the robbed task's next
        agent.
        """
        return [replace(kill, recovered=self._next(kill, at, number)) for kill, at, number in self._kills]

    def _next(self, kill: Recovery, at: float, number: int) -> float | None:
        if kill.victim is Victim.KEEPER:
            task = kill.whom.rpartition(".")[0]
            times = [seen.at - at for seen in witness(self.stage) if seen.what == "start" and seen.task == task]
        else:
            times = [when - self._starts[number - 1] for when in self._at_work(number)]
        return next((round(when, 2) for when in times if when > 0), None)

    def _at_work(self, number: int) -> Iterator[float]:
        """When a supervisor took over an attempt or claimed a task, as it printed."""
        text = files.read(self.stage.root / self._talk(number)) or b""
        for line in text.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["event"] in ("claimed", "took over"):
                    yield float(record["at"])


@dataclass(frozen=True, slots=True)
class Look:
    """After all is over: what the queue, the receipts, the witness, git and the processes say of each case."""

    stage: Stage
    tasks: Mapping[str, Case]
    drive: Drive

    def facts(self) -> list[Facts]:
        rows = {str(row["id"]): row for row in self._data("tasks", "--all", "--json")}
        left = self._left(rows)
        with ThreadPoolExecutor(ASKED_AT_ONCE) as several:
            return list(several.map(lambda one: self._fact(one[0], one[1], rows.get(one[0]), left), self.tasks.items()))

    def _fact(self, task: str, case: Case, row: Row | None, left: Mapping[str, tuple[int, ...]]) -> Facts:
        seen = tuple(one for one in witness(self.stage) if one.task == task)
        receipt = self._data("task", task, "receipt") if row else {}
        shown = self.drive.shown.get(task, set()) | (states(row) if row else set())
        return Facts(
            case=case,
            task=task,
            state=str(row["state"]) if row else None,
            cause=str(row["cause"]) if row else "",
            proof=(row or {}).get("proof") or receipt.get("verdict"),
            shown=frozenset(shown),
            endings=self._endings(task, receipt, TRAITS[case.behaviour].endings),
            leftovers=int((receipt.get("process") or {}).get("leftovers") or 0),
            forged=FORGED in json.dumps(receipt),
            seen=seen,
            landed=frozenset(self.stage.git(self.stage.place(case), "ls-tree", "--name-only", "HEAD:work").split())
            if self._has_work(case)
            else frozenset(),
            robbed=frozenset(one for one in self.drive.robbed if one.rpartition(".")[0] == task),
            orphans=left.get(task, ()),
        )

    def _has_work(self, case: Case) -> bool:
        return bool(self.stage.git(self.stage.place(case), "ls-tree", "HEAD", "work"))

    def _endings(self, task: str, receipt: Row, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """How its last attempt ended; where that is not what is looked for, how each of them did."""
        last = str((receipt.get("attempt") or {}).get("ending") or "")
        if last in wanted or not wanted:
            return (last,) if last else ()
        history = self._data("show", task, "--json").get("history") or []
        return tuple(str(one["ending"]) for one in history if one.get("ending"))

    def _left(self, rows: Mapping[str, Row]) -> dict[str, tuple[int, ...]]:
        """The processes of tasks that are settled, after a while in which they may go."""
        deadline = time.monotonic() + ORPHANS_WITHIN
        while (found := self._orphans(rows)) and time.monotonic() < deadline:
            time.sleep(TICK)
        return found

    def _orphans(self, rows: Mapping[str, Row]) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for one in self.stage.processes():
            task = _owner(one.pid)
            if task in rows and rows[task]["state"] in SETTLED:
                found[task] = (*found.get(task, ()), one.pid)
        return found

    def _data(self, *args: str) -> Any:
        """What a command says as JSON; nothing when there is no such thing. Any other answer is no fact to judge by."""
        done = self.stage.ask(*args)
        if done.code == NotFound.exit_code:
            return {}
        try:
            return json.loads(done.out)
        except ValueError:
            said = f"fleet {' '.join(args)} gave no answer: {done.said or f'exit {done.code}'}"
            raise FleetError(said, hint="fleet chaos --keep") from None


def states(row: Row) -> set[str]:
    """Every word that a row of `fleet tasks` has for what its agent is doing."""
    life = row.get("life")
    said = life.get("state") if isinstance(life, dict) else life
    return {str(row["state"])} | ({str(said)} if said else set())


def witness(stage: Stage) -> tuple[Seen, ...]:
    return read_witness((files.read(stage.witness) or b"").decode(errors="replace"))


def _keepers(stage: Stage) -> dict[str, process.Process]:
    """The living keepers of agents and checks, by attempt."""
    found = {}
    for one in process.mentioning(str(stage.home / "tasks")):
        words = process.arguments(one.pid)
        place = next((match for word in words if (match := KEEPER_OF.search(word))), None)
        if place is not None and any("keep" in os.path.basename(word) for word in words[:5]):
            found[f"{place[1]}.{place[2]}"] = one
    return found


def _owner(pid: int) -> str:
    """The task that a process belongs to, by its environment or, of a keeper, by its command line."""
    named = next((match for word in process.arguments(pid) if (match := KEEPER_OF.search(word))), None)
    return process.variable(pid, "FLEET_TASK_ID") or (named[1] if named else "")


def _end(child: process.Child, sign: signal.Signals) -> None:
    """End a child of ours, and bury it."""
    if process.ended(child, 0) is None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, sign)
    if process.ended(child, STOPS_WITHIN) is None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        process.ended(child, STOPS_WITHIN)

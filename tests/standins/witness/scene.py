"""A scratch home with stand-in agents, and the means to do harm to it; whatever a scene started, it ends.

FLEET_SRC=/tmp/copy/src judges another copy of the program: break that, and see the suite turn red.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LARGE = os.environ.get("FLEET_TORTURE") == "large"
SEED = int(os.environ.get("FLEET_SEED") or random.SystemRandom().randrange(10**6))
PATIENCE = 4  # how much slower than promised a busy machine may be before it counts
Row = dict[str, Any]


def scale(small: int, large: int) -> int:
    return large if LARGE else small


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Seen:
    """One line of the witness."""

    what: str
    task: str
    attempt: str
    pid: int


@dataclass
class Scene:
    root: Path
    report: Callable[[str, str, object], None] = lambda fault, figure, value: None
    seed: int = SEED
    supervisors: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.home = self.root / "home" / ".fleet"
        self.witness = self.root / "witness"
        self.work = self.root / "work"
        self.talk = self.root / "supervisors.out"
        self.work.mkdir(parents=True)
        self.home.parent.mkdir()
        self.witness.touch()
        self._coders: dict[str, dict[str, object]] = {}
        self._settings: dict[str, object] = {"max_concurrent": 5, "backoff": "0s", "min_free_disk": "1MB"}

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home.parent),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",  # a supervisor whose writes fail would leave half of one for everybody
        } | ({"PYTHONPATH": os.environ["FLEET_SRC"]} if "FLEET_SRC" in os.environ else {})

    # ---- the home

    def settings(self, **values: object) -> None:
        self._settings |= values
        self._write_settings()

    def coder(self, name: str, *argv: object, **facts: object) -> str:
        self._coders[name] = {"argv": [str(word) for word in argv], **facts}
        self._settings.setdefault("coder", name)
        self._write_settings()
        return name

    def works(self, name: str = "short", steps: int = 2, pause: float = 0.1) -> str:
        return self.coder(name, HERE / "works.sh", self.witness, steps, pause)

    def script(self, name: str, text: str, **facts: object) -> str:
        """A coder made of a few lines of shell; $WITNESS is the witness file."""
        path = self.root / f"{name}.sh"
        path.write_text(f"#!/bin/sh\nWITNESS='{self.witness}'\n{text}\n")
        path.chmod(0o755)
        return self.coder(name, path, **facts)

    def python(self, name: str, text: str, **facts: object) -> str:
        path = self.root / f"{name}.py"
        path.write_text(f"WITNESS = {str(self.witness)!r}\n{text}\n")
        return self.coder(name, sys.executable, "-S", "-E", path, **facts)

    def _write_settings(self) -> None:
        tables: dict[str, dict[str, object]] = {"": {}}
        for key, value in self._settings.items():
            table, _, name = key.rpartition("__")
            tables.setdefault(table.replace("__", "."), {})[name] = value
        tables |= {f"coders.{name}": facts for name, facts in self._coders.items()}
        lines = []
        for table, facts in tables.items():
            lines += [f"[{table}]"] if table else []
            lines += [f"{key} = {json.dumps(value)}" for key, value in facts.items()]
        self.home.mkdir(mode=0o700, exist_ok=True)
        draft = self.home / "runtime.toml.draft"
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(self.home / "runtime.toml")

    def directory(self, name: str, *, repository: bool = False) -> Path:
        path = self.work / name
        path.mkdir(exist_ok=True)
        if repository:
            git(path, "init", "-q", "--template=", "-b", "main")
            (path / "seed").write_text("seed\n")
            commit(path, "seed")
        return path

    # ---- the program

    def fleet(self, *args: object, stdin: str | None = None, timeout: float = 120) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *map(str, args)], env=self.env, cwd=self.root, capture_output=True,
            input=(stdin or "").encode(), timeout=timeout, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def add(self, title: str = "task", *, cwd: Path | None = None, **options: object) -> str:
        return self.fill([{"title": title, "cwd": str(cwd or self.work), **options}])[0]

    def fill(self, tasks: Sequence[dict[str, object]]) -> list[str]:
        text = "\n".join(json.dumps(task) for task in tasks)
        done = subprocess.run(
            [sys.executable, HERE / "fill.py"], env=self.env, input=text.encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().split()

    def tasks(self) -> dict[str, Row]:
        done = self.fleet("tasks", "--all", "--json")
        assert done.code == 0, done.err
        return {row["id"]: row for row in json.loads(done.out)}

    def show(self, task: str) -> Row:
        done = self.fleet("show", task, "--json")
        assert done.code == 0, done.err
        found: Row = json.loads(done.out)
        return found

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.tasks().items()}

    def start(self, *args: str, before: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """A supervisor of this home; with --json what it does is in `talk`.

        One whose writes are made to fail must not write bytecode: half of it would outlive the test.
        """
        env = self.env | ({"PYTHONDONTWRITEBYTECODE": "1"} if before else {})
        with self.talk.open("ab") as talk:
            child = subprocess.Popen(
                [sys.executable, "-m", "fleet", "run", "--json", *args], env=env, cwd=self.root,
                stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, preexec_fn=before,
            )  # fmt: skip
        self.supervisors.append(child)
        return child

    def drain(self, timeout: float = 120) -> None:
        """Let a supervisor finish everything that can be finished."""
        child = self.start("--drain")
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not drained within {timeout:.0f} s: {self.states()}\n{self.said()}") from None
        assert code == 0, self.said()

    def kill(self, child: subprocess.Popen[bytes], sign: int = signal.SIGKILL) -> None:
        if child.poll() is None:
            child.send_signal(sign)
            if sign == signal.SIGKILL:
                child.wait()

    def ring(self) -> bool:
        """Wake the supervisor, if there is one. False, so that it can stand before a condition."""
        with suppress(OSError):
            bell = os.open(self.home / "wake", os.O_WRONLY | os.O_NONBLOCK)
            os.write(bell, b"\0")
            os.close(bell)
        return False

    def said(self, limit: int = 3000) -> str:
        """The end of what the supervisors said, for people."""
        return self.talk.read_text(errors="replace")[-limit:] if self.talk.exists() else ""

    # ---- what the judge looks at

    def seen(self, *what: str) -> list[Seen]:
        found = []
        for line in self.witness.read_text().splitlines():
            parts = line.split()
            if len(parts) == 4 and (not what or parts[0] in what):
                found.append(Seen(parts[0], parts[1], parts[2], int(parts[3])))
        return found

    def log(self, *events: str) -> list[Row]:
        """The supervisors' own log, for its times only."""
        rows = []
        for file in sorted((self.home / "logging").glob("fleet-*.jsonl")):
            rows += [json.loads(line) for line in file.read_text().splitlines()]
        return [row for row in rows if not events or row["event"] in events]

    def torn(self) -> int:
        """Lines of any journal of this home that are not JSON objects."""
        bad = 0
        for file in self.home.rglob("*.jsonl"):
            if file.is_file() and not file.is_symlink():
                data = file.read_bytes()
                bad += bool(data) and not data.endswith(b"\n")
                bad += sum(not _is_object(line) for line in data.splitlines())
        return bad

    def held(self) -> list[str]:
        """Locks of this home that some process holds."""
        locks = [*self.home.glob("*.lock"), *self.home.glob("tasks/*/attempts/**/lock")]
        mine = {(file.stat().st_dev, file.stat().st_ino): str(file) for file in locks}
        found = []
        for line in Path("/proc/locks").read_text().splitlines():
            where = next((part for part in line.split() if part.count(":") == 2), "0:0:0")
            major, minor, inode = where.split(":")
            key = os.makedev(int(major, 16), int(minor, 16)), int(inode)
            found += [mine[key]] if key in mine else []
        return found

    def keepers(self) -> dict[str, int]:
        """The living keepers, by attempt directory; not what one has just forked, and is not yet the agent."""
        found: dict[str, int] = {}
        for pid in sorted(processes()):
            words = _proc(pid, "cmdline").split(b"\0")
            if any(b"keep" in word for word in words[:5]) and any(os.fsencode(self.home) in word for word in words):
                directory = next(word for word in words if word.startswith(os.fsencode(self.home)))
                found.setdefault(os.fsdecode(directory), pid)
        return found

    def agents(self) -> list[int]:
        """The living processes of agents of this home, by what is in their environment."""
        mark = b"FLEET_TASK_DIR=" + os.fsencode(self.home)
        return [pid for pid in processes() if mark in _proc(pid, "environ") and not is_zombie(pid)]

    def all(self) -> list[int]:
        """Every living process that has to do with this scene, by its command line or its environment."""
        mark, own = os.fsencode(self.root), {os.getpid(), os.getppid()}
        return [
            pid for pid in processes()
            if pid not in own and (mark in _proc(pid, "cmdline") or mark in _proc(pid, "environ"))
        ]  # fmt: skip

    def close(self) -> None:
        """End everything of this scene, by process number, and see that it is gone."""
        for child in self.supervisors:
            self.kill(child)
        deadline = time.monotonic() + 10
        while (left := [pid for pid in self.all() if not is_zombie(pid)]) and time.monotonic() < deadline:
            for sign in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, sign)
            time.sleep(0.02)


@contextmanager
def scene(root: Path) -> Iterator[Scene]:
    made = Scene(root)
    try:
        yield made
    finally:
        made.close()


def until(condition: Callable[[], object], seconds: float, what: object = "") -> float:
    """Wait for something to become true; how long it took. What did not happen is said."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {seconds:.1f} s: {said}")
        time.sleep(0.02)
    return time.monotonic() - began


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_zombie(pid: int) -> bool:
    fields = _proc(pid, "stat").rpartition(b")")[2].split()
    return not fields or fields[0] in (b"Z", b"X")


def children(pid: int) -> dict[int, bytes]:
    """The children of a process, with their state."""
    found = {}
    for other in processes():
        fields = _proc(other, "stat").rpartition(b")")[2].split()
        if len(fields) > 1 and int(fields[1]) == pid:
            found[other] = fields[0]
    return found


def memory(pid: int, what: str = "VmRSS") -> int:
    """Bytes."""
    for line in _proc(pid, "status").splitlines():
        if line.startswith(what.encode() + b":"):
            return int(line.split()[1]) * 1024
    return 0


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def git(cwd: Path, *args: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=w", "-c", "user.email=w@w", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *args], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def commit(cwd: Path, message: str) -> None:
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "-m", message)


@contextmanager
def locked(database: Path, *, whole: bool = False) -> Iterator[None]:
    """Nobody else can write to the database meanwhile, nor read it when it is locked whole."""
    holder = sqlite3.connect(database, isolation_level=None, timeout=30)
    try:
        holder.execute(f"PRAGMA locking_mode = {'EXCLUSIVE' if whole else 'NORMAL'}")
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("COMMIT")
    finally:
        holder.close()


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False

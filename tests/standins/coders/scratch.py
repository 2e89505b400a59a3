"""A scratch home with the real program in it, stand-in agents beside it, and nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
TRANSCRIPTS = HERE.parents[1] / "transcripts"
WITHIN = 60.0
T = TypeVar("T")
Record = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def until(look: Callable[[], T], within: float = WITHIN) -> T:
    """What a look gives, as soon as it is true."""
    deadline, pause = time.monotonic() + within, threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline, f"not true within {within:.0f} s"
        pause.wait(0.02)
    return found


class Supervisor:
    """A running `fleet run --json`, heard line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.records: list[Record] = []
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def hear(self, event: str, **facts: object) -> Record:
        """The first record of this event with these facts, waited for."""
        wanted = {"event": event, **facts}

        def found() -> Record | None:
            return next((one for one in self.records if wanted.items() <= one.items()), None)

        with self._news:
            assert self._news.wait_for(lambda: found() or self._ended, WITHIN), f"no {wanted} in {self.records}"
            record = found()
        assert record is not None, f"no {wanted} in {self.records}"
        return record

    def all(self, event: str) -> list[Record]:
        return [one for one in self.records if one["event"] == event]

    def stop(self, sign: int = signal.SIGTERM) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(sign)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        return code

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                with self._news:
                    self.records.append(json.loads(line))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Scratch:
    """One $FLEET_HOME, and directories to work in."""

    def __init__(self, root: Path, python: Path = Path(sys.executable)) -> None:
        self.root = root
        self.python = str(python)
        self.user = root / "user"
        self.home = self.user / ".fleet"
        self.user.mkdir()
        self.env = {
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(self.user),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
        } | {
            name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ
        }  # a copy of the tree, broken on purpose
        self._supervisors: list[Supervisor] = []

    # ---- calling the program

    def fleet(
        self, *args: object, stdin: str | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        done = subprocess.run(
            [self.python, "-m", "fleet", *map(str, args)],
            cwd=cwd or self.root, env=self.env | dict(env or {}), input=(stdin or "").encode(),
            capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *args: object, **how: Any) -> Ran:
        ran = self.fleet(*args, **how)
        assert ran.code == 0, f"{args}: {ran.err}{ran.out}"
        return ran

    def settle(self, *assignments: str, coders: Mapping[str, Mapping[str, object]] | None = None) -> None:
        """Change settings; a coder without an argv is the stand-in of its name."""
        own = [f"coders.{name}.{key}={_toml(value)}" for name, key, value in _facts(coders or {})]
        self.ok("config", "set", *assignments, *own)

    def add(self, title: str, *args: object, **how: Any) -> str:
        return str(self.ok("add", "--json", *args, "--", title, **how).json()["id"])

    def add_all(self, tasks: Mapping[str, tuple[object, ...]]) -> dict[str, str]:
        """Add many at once, each titled by its name; their ids."""
        with ThreadPoolExecutor(3) as pool:
            return dict(zip(tasks, pool.map(lambda name: self.add(name, *tasks[name]), tasks), strict=True))

    def tasks(self) -> dict[str, Record]:
        return {row["id"]: row for row in self.ok("tasks", "--all", "--json").json()}

    def task(self, name: str) -> Record:
        return self.tasks()[name]

    def shown(self, name: str) -> Record:
        found: Record = self.ok("show", name, "--json").json()
        return found

    def receipt(self, name: str) -> Record:
        found: Record = self.ok("task", name, "receipt").json()
        return found

    def drain(self, *args: str, env: Mapping[str, str] | None = None) -> list[Record]:
        """Work through everything that is ready; what the supervisor said."""
        said = self.ok("run", "--drain", "--json", *args, env=env).out
        return [json.loads(line) for line in said.splitlines()]

    def run(self, *args: str, env: Mapping[str, str] | None = None) -> Supervisor:
        """Start a supervisor in the background of the test, and wait until it has the home."""
        process = subprocess.Popen(
            [self.python, "-m", "fleet", "run", "--json", *args],
            cwd=self.root, env=self.env | dict(env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        supervisor = Supervisor(process)
        self._supervisors.append(supervisor)
        supervisor.hear("supervisor started")
        return supervisor

    # ---- places and agents

    def place(self, name: str, *, git: bool = False, commit: bool = True) -> Path:
        """A directory to work in; with git a repository on the branch `main`, with one commit unless it is unborn."""
        path = self.root / name
        path.mkdir(parents=True)
        if git:
            _git(path, "init", "-q", "-b", "main")
        if git and commit:
            (path / "README").write_text("read me\n")
            _git(path, "add", "README")
            _git(path, "commit", "-qm", "first")
        return path

    def artifact(self, task: str, name: str) -> Path:
        return self.home / "tasks" / task / "artifacts" / name

    def open_gate(self, task: str, gate: str = "gate") -> None:
        """Let an agent go on that waits at its gate."""
        path = self.artifact(task, gate)
        until(path.exists)
        with os.fdopen(until(lambda: _opened(path)) or -1, "w") as pipe:
            pipe.write("go on\n")

    @property
    def waits_for_an_answer(self) -> str:
        """A check that runs until `answer_in_its_check` has answered."""
        return f"until test -e {shlex.quote(str(self.root / '.answered'))}; do sleep 0.05; done"

    def answer_in_its_check(self, task: str, words: str) -> None:
        """Answer once the agent of the first attempt has ended, and before there is a verdict: its check runs."""
        until((self.home / "tasks" / task / "attempts" / "1" / "check").exists)
        self.ok("answer", task, words)
        (self.root / ".answered").touch()

    def agents(self) -> list[int]:
        """Every living process that was started for an attempt of this home."""
        mark = f"FLEET_TASK_DIR={self.home}/".encode()
        return [pid for pid, environment in _environments() if any(one.startswith(mark) for one in environment)]

    def close(self) -> None:
        """End what is left, by its number, and wait until it is gone."""
        for supervisor in self._supervisors:
            supervisor.stop(signal.SIGKILL)

        def gone() -> bool:
            left = self.agents()
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left and not self.keepers()

        until(gone)

    def keepers(self) -> list[int]:
        mark = f"{self.home}/".encode()
        return [pid for pid, words in _command_lines() if any(word.startswith(mark) for word in words)]


@contextmanager
def scratch(root: Path, python: Path = Path(sys.executable)) -> Iterator[Scratch]:
    made = Scratch(root, python)
    try:
        yield made
    finally:
        made.close()


def alive(pid: int) -> bool:
    """Whether a process lives; one that is only waiting to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X")


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def _facts(coders: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, str, object]]:
    for name, facts in coders.items():
        for key, value in ({"argv": [str(HERE / name)]} | dict(facts)).items():
            yield name, key, value


def _toml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _git(path: Path, *args: str) -> None:
    identity = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
    subprocess.run(["git", *identity, *args], cwd=path, check=True, capture_output=True)


def _opened(path: Path) -> int | None:
    """The pipe's end for writing, once somebody reads."""
    with suppress(OSError):
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    return None


def _environments() -> Iterable[tuple[int, list[bytes]]]:
    return _files("environ")


def _command_lines() -> Iterable[tuple[int, list[bytes]]]:
    return _files("cmdline")


def _files(name: str) -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            with suppress(OSError):
                yield int(entry.name), (entry / name).read_bytes().split(b"\0")

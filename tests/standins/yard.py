"""A scratch home, projects in it, and agents on branches that talk: a stand-in Claude Code in a real tmux."""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fleet.sessions import Server
from standins.coders.scratch import Ran, Record, Scratch, alive, until

HERE = Path(__file__).parent
REAL = {"git": "/usr/bin/git", "tmux": "/usr/bin/tmux"}
IDENTITY = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
# Counts the calls of its program in a file. At the n-th it kills whoever called: before it does its work, after it, or
# before it and then does it nevertheless, when nobody waits for it any more.
WRAPPER = """#!/bin/sh
echo x >>{count}
n=$(wc -l <{count})
if [ "$n" -ne {at} ]; then exec {real} "$@"; fi
case {when} in
  before) kill -9 $PPID; exit 1 ;;
  orphan) kill -9 $PPID; exec {real} "$@" ;;
  after) {real} "$@"; code=$?; kill -9 $PPID; exit $code ;;
esac
"""


class Yard(Scratch):
    """One home, and one project to begin with; `fleet` is called in it."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root)
        self.env["PATH"] = f"{HERE / 'talking'}:{self.env['PATH']}"
        self.project = self.place("project", git=True)
        self.projects = [self.project]

    # ---- calling the program

    def fleet(
        self, *args: object, stdin: str | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        return super().fleet(*args, stdin=stdin, env=env, cwd=cwd or self.project)

    def start(self, *args: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """The program in the background; whoever starts it waits for it."""
        return subprocess.Popen(
            [self.python, "-m", "fleet", *map(str, args)], cwd=self.project, env=self.env | dict(env or {}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def create(self, branch: str, prompt: str = "", *args: object, **how: Any) -> Record:
        """An agent on a branch that has taken its prompt, and has come to the end of its turn unless it is to work."""
        told = ("-p", prompt) if prompt else ()
        made: Record = self.ok("create", "--json", *args, *told, "--", branch, **how).json()[0]
        assert made["made"], made
        assert made["prompt_taken"] is (True if prompt else None), made
        first = {line.partition(" ")[0] for line in prompt.splitlines()}
        if prompt and not first & {"ask", "work", "exit"}:
            self.rested(made["attempt"])
        return made

    def rested(self, attempt: str, times: int = 1) -> None:
        until(lambda: self.signals(attempt).count(b'\\"Stop\\"') >= times)

    def rows(self, *args: object, **how: Any) -> dict[str, Record]:
        return {row["branch"]: row for row in self.ok("list", "--json", *args, **how).json()}

    def kill(self, *args: object, **how: Any) -> list[Record]:
        found: list[Record] = self.ok("kill", "--force", "--json", *args, **how).json()
        return found

    # ---- what agents took

    def took(self, attempt: str) -> list[bytes]:
        return self._kept("took", attempt).split(b"\0")[:-1]

    def strays(self, attempt: str) -> bytes:
        return self._kept("strays", attempt)

    def daemons(self) -> list[int]:
        found = [int(line) for path in (self.user / "daemons").glob("*") for line in path.read_text().split()]
        return [pid for pid in found if alive(pid)]

    def signals(self, attempt: str) -> bytes:
        path = self.directory(attempt) / "signals.jsonl"
        return path.read_bytes() if path.exists() else b""

    def directory(self, attempt: str) -> Path:
        task, _, number = attempt.rpartition(".")
        return self.home / "tasks" / task / "attempts" / number

    def _kept(self, folder: str, name: str) -> bytes:
        path = self.user / folder / name
        return path.read_bytes() if path.exists() else b""

    # ---- git and tmux as a person uses them

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [REAL["git"], *IDENTITY, *words], cwd=cwd or self.project, check=True, capture_output=True
        )
        return done.stdout.decode(errors="surrogateescape").strip()

    def branches(self, project: Path | None = None) -> set[str]:
        return set(self.git("branch", "--format=%(refname:short)", cwd=project).splitlines())

    def salvage(self, project: Path | None = None) -> dict[str, str]:
        """The names of what was saved, and their commits."""
        listed = self.git(
            "for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/fleet/salvage", cwd=project
        )
        return {name: commit for name, _, commit in (line.partition(" ") for line in listed.splitlines())}

    def saved(self, name: str, path: str, folder: str = "files") -> bytes:
        """The bytes of a file as a salvage has it."""
        what = f"refs/fleet/salvage/{name}:{folder}/{path}"
        argv = [REAL["git"], "cat-file", "blob", what]
        return subprocess.run(argv, cwd=self.project, check=True, capture_output=True).stdout

    def socket(self, project: Path | None = None) -> str:
        return Server(self.home, project or self.project).socket

    def tmux(self, *words: str, project: Path | None = None) -> str:
        argv = [REAL["tmux"], "-u", "-L", self.socket(project), *words]
        env = {"PATH": os.environ["PATH"], "LC_CTYPE": "C.UTF-8", "TERM": "screen-256color"}
        return subprocess.run(argv, env=env, capture_output=True, check=False).stdout.decode().strip()

    def sessions(self, project: Path | None = None) -> list[str]:
        return self.tmux("list-sessions", "-F", "#{session_name}", project=project).splitlines()

    @contextmanager
    def attached(self, *args: object) -> Iterator[Watcher]:
        """`fleet attach` with a terminal of its own."""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.project)
            os.execve(
                self.python,
                [self.python, "-m", "fleet", "attach", *map(str, args)],
                self.env | {"TERM": "xterm-256color"},
            )
        watcher = Watcher(pid, fd)
        try:
            yield watcher
        finally:
            watcher.close()

    # ---- crashes

    def crashing(self, program: str, at: int, when: str) -> dict[str, str]:
        """An environment in which whoever calls the program for the n-th time is killed."""
        folder = self.root / f"crash-{program}-{at}-{when}"
        folder.mkdir()
        path = folder / program
        path.write_text(WRAPPER.format(count=folder / "count", at=at, real=REAL[program], when=when))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {"PATH": f"{folder}:{self.env['PATH']}"}

    def mended(self) -> list[str]:
        """`fleet list --repair` until it has nothing to do, twice at most; what it did."""
        done: list[str] = []
        for _ in range(3):
            said = self.ok("list", "--repair", "--json").json()
            if not said:
                return done
            done += [f"{one['what']}: {one['done']}" for one in said]
        raise AssertionError(f"it is never done repairing: {done}")

    # ---- nothing is left

    def leaked(self) -> list[str]:
        """Everything that is left although no agent is there any more."""
        found = [f"process {pid}" for pid in (*self.agents(), *self.keepers(), *self.daemons())]
        for project in self.projects:
            if project.exists():
                found += [f"terminal {name}" for name in self.sessions(project)]
                found += [f"worktree {line}" for line in self.git("worktree", "list", cwd=project).splitlines()[1:]]
                found += [f"lock {path}" for path in (project / ".git").rglob("*.lock")]
                found += [f"entry {path}" for path in (project / ".git").glob("worktrees/*")]
                found += [
                    f"ref {ref}" for ref in self.git("for-each-ref", "refs/fleet/incoming", cwd=project).splitlines()
                ]
        for root in (self.home / "places").glob("*"):
            found += [f"place {path}" for path in root.iterdir() if path.name != ".places"]
            found += [f"record {path}" for path in root.glob(".places/*.json")]
        return found + self._unfinished() + self._held()

    def _unfinished(self) -> list[str]:
        if not (self.home / "fleet.db").exists():
            return []
        tasks = self.ok("tasks", "--all", "--json", cwd=self.root).json()
        open_ones = [f"task {one['id']} {one['state']}" for one in tasks if one["state"] not in ("cancelled", "done")]
        with suppress(sqlite3.OperationalError), sqlite3.connect(self.home / "fleet.db") as db:
            open_ones += [f"ports of {row[0]}" for row in db.execute("SELECT attempt FROM ports")]
        return open_ones

    def _held(self) -> list[str]:
        held = Path("/proc/locks").read_text()
        mine = {str(path.stat().st_ino): path for path in self.home.rglob("*lock") if path.is_file()}
        return [f"held {path}" for number, path in mine.items() if f":{number} " in held]

    def ended(self) -> list[str]:
        """End every agent that a test left at work; what is left of anything."""
        for project in self.projects:
            ran = self.fleet("kill", "--force", "*", cwd=project)
            assert ran.code in (0, 3), ran
        return self.leftovers()

    def leftovers(self) -> list[str]:
        """What has not gone within some seconds."""
        left: list[str] = []

        def gone() -> bool:
            left[:] = self.leaked()
            return not left

        with suppress(AssertionError):
            until(gone, 10.0)
        return left

    def close(self) -> None:
        for project in self.projects:
            self.tmux("kill-server", project=project)
        for pid in self.daemons():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().close()


class Watcher:
    """Somebody at a terminal in which `fleet attach` runs."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid, self.fd, self.seen = pid, fd, b""
        self.code: int | None = None
        os.set_blocking(fd, False)

    def shows(self, text: str) -> None:
        until(lambda: text.encode() in self._read())

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def left(self) -> int:
        """How it ended, once it has."""

        def over() -> bool:
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            return pid != 0

        if self.code is None:
            until(over)
        assert self.code is not None
        return self.code

    def close(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.left()
        os.close(self.fd)

    def _read(self) -> bytes:
        with suppress(OSError):
            while piece := os.read(self.fd, 65536):
                self.seen += piece
        return self.seen


@contextmanager
def yard(root: Path) -> Iterator[Yard]:
    """A yard in which nothing is left once it is done with."""
    made = Yard(root)
    try:
        yield made
        left = made.ended()
        assert not left, left
    finally:
        made.close()

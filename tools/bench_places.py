"""The rows of agents on branches: a real git, a real tmux, and a stand-in for Claude Code that starts at once.

ai-fleet types its prompt and does not look whether it was taken; ours returns when the agent has said that it was. The
floor is what nobody can do without: `git worktree add` and `tmux new-session`, one after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench_rows import AI_FLEET, LONGEST, OURS, Bench, BenchError, Row, in_turns
from fleet.sessions import Server

AGENT = Path(__file__).parent.parent / "tests" / "standins" / "talking"
PROMPT = "Look at the parser, and say what you see"
FILES, IN_ONE = 10_000, 100
LISTED, THEIRS_LISTED, KILLED = 50, 27, 20
GONE_WITHIN = 10.0
CONFIG = """\
[project]
name = "project"
worktree_root = "{root}"
[agent]
default = "claude"
claude_flags = ""
[setup]
credential_files = []
commands = []
[tmux]
prefix = "ai_"
"""


@dataclass(frozen=True, slots=True)
class Yard:
    """A repository, and what is needed to begin agents in it with either program, or with neither."""

    where: Path

    @property
    def project(self) -> Path:
        return self.where / "project"

    @property
    def environ(self) -> dict[str, str]:
        """tmux of the others is kept apart; ours has a socket of its own anyway."""
        return {
            "PATH": f"{AGENT}:{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(self.where / "home"),
            "FLEET_HOME": str(self.where / "home" / "fleet"),
            "TMUX_TMPDIR": str(self.where / "tmux"),
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }

    def call(self, *argv: str | Path) -> float:
        """Seconds from start to exit."""
        began = time.perf_counter()
        done = subprocess.run(
            argv, cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LONGEST, check=False,
        )  # fmt: skip
        took = time.perf_counter() - began
        if done.returncode:
            raise BenchError(
                f"exit {done.returncode} from {' '.join(map(str, argv))}: {(done.stderr or done.stdout)[-500:]}"
            )
        return took

    def ours(self, *args: str) -> float:
        return self.call(OURS.bin / "fleet", *args)

    def ours_until(self, count: int, *args: str) -> float:
        """Seconds until so many terminals are open: as far as ai-fleet goes, and nothing proven yet."""
        began = time.perf_counter()
        seen = Server(Path(self.environ["FLEET_HOME"]), self.project)
        with subprocess.Popen(
            [OURS.bin / "fleet", *args], cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as child:  # fmt: skip
            while len(seen.seen()) < count and child.poll() is None:
                time.sleep(0.01)
            took = time.perf_counter() - began
            if child.wait(LONGEST):
                raise BenchError(f"exit {child.returncode} from fleet {' '.join(args)}")
        return took

    def theirs(self, *args: str) -> float:
        return self.call(AI_FLEET.bin / "fleet", *args)

    def kill_ours(self, pattern: str = "*") -> float:
        return self.ours("kill", pattern, "--force")

    def kill_theirs(self, pattern: str = "*") -> float:
        took = self.theirs("kill", pattern, "--force")
        for branch in self._branches():
            self.call("git", "branch", "-q", "-D", branch)
        return took

    def _branches(self) -> list[str]:
        said = subprocess.run(
            ["git", "branch", "--format=%(refname:short)"], cwd=self.project, capture_output=True, text=True, check=True
        )
        return [one for one in said.stdout.split() if one != "main"]

    def floor(self, count: int) -> float:
        """Bare worktrees and sessions, and nothing else; taken away again outside of the time."""
        names = [f"floor-{n}" for n in range(count)]
        began = time.perf_counter()
        for name in names:
            self.call("git", "worktree", "add", "-q", "-b", name, str(self.where / name))
            self.call("tmux", "new-session", "-d", "-s", name, "-c", str(self.where / name), "sleep 600")
        took = time.perf_counter() - began
        self.call("tmux", "kill-server")
        for name in names:
            self.call("git", "worktree", "remove", "--force", str(self.where / name))
            self.call("git", "branch", "-q", "-D", name)
        return took


@contextmanager
def yard(bench: Bench, files: int) -> Iterator[Yard]:
    with bench.fresh() as where:
        made = Yard(where)
        for folder in ("project", "home", "tmux"):
            (where / folder).mkdir()
        for n in range(files):
            shelf = made.project / f"d{n // IN_ONE}"
            shelf.mkdir(exist_ok=True)
            (shelf / f"f{n}.txt").write_text(f"file {n}\n" * 10)
        (made.project / ".aifleet").mkdir()
        (made.project / ".aifleet" / "config.toml").write_text(CONFIG.format(root=where / "theirs"))
        made.call("git", "init", "-q", "-b", "main")
        made.call("git", "add", "-A")
        made.call("git", "-c", "user.name=b", "-c", "user.email=b@example.invalid", "commit", "-qm", "first")
        made.ours("config", "set", "model=")
        try:
            yield made
        finally:
            with suppress(BenchError):
                made.kill_ours()
            with suppress(BenchError):
                made.call("tmux", "kill-server")
            wait_until(lambda: not left(where))


def left(where: Path) -> list[int]:
    """Processes that were started below a directory."""
    mark, found = os.fsencode(where), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GONE_WITHIN
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.05)


def once(begin: Callable[[], float], end: Callable[[], object]) -> float:
    took = begin()
    end()
    return took


def bench_create(bench: Bench) -> Iterator[Row]:
    for files in (1, FILES):
        with yard(bench, files) as here:
            ours, theirs, floor = in_turns(
                3,
                partial(once, partial(here.ours, "create", "one", "-p", PROMPT), here.kill_ours),
                partial(once, partial(here.theirs, "create", "one", "--prompt", PROMPT), here.kill_theirs),
                partial(here.floor, 1),
            )
        size = f", {files} files" if files > 1 else ""
        yield Row("create", f"fleet create{size}, prompt proven", ours, "ai-fleet, not proven", theirs, goal=0.25)
        yield Row("create", f"fleet create{size}", ours, "worktree + session", floor, goal=1.5)


def bench_fanout(bench: Bench) -> Iterator[Row]:
    for files, counts in ((1, (5, 20)), (FILES, (5,))):
        with yard(bench, files) as here:
            for count in counts:
                yield from _fanout(here, count, f", {files} files" if files > 1 else "")


def _fanout(here: Yard, count: int, size: str) -> Iterator[Row]:
    wanted = ("fanout", str(count), "f", "-p", PROMPT)
    proven, opened, theirs, floor = in_turns(
        2,
        partial(once, partial(here.ours, *wanted), here.kill_ours),
        partial(once, partial(here.ours_until, count, *wanted), here.kill_ours),
        partial(once, partial(here.theirs, "fanout", str(count), "f", "--prompt", PROMPT), here.kill_theirs),
        partial(here.floor, count),
    )
    what = f"fleet fanout {count}{size}"
    yield Row("fanout", f"{what}, terminals open", opened, "ai-fleet", theirs, goal=1.0)
    yield Row("fanout", f"{what}, prompts proven", proven, "ai-fleet, not proven", theirs)
    yield Row("fanout", f"{what}, terminals open", opened, "worktrees + sessions", floor, goal=1.5)


def bench_list(bench: Bench) -> Iterator[Row]:
    for files in (1, FILES):
        with yard(bench, files) as here:
            for start in range(0, LISTED, 25):
                here.ours("fanout", "25", f"l{start}", "-p", PROMPT)
            here.theirs("fanout", "26", "t", "--prompt", PROMPT)
            here.theirs("create", "one", "--prompt", PROMPT)
            ours, theirs = in_turns(5, partial(here.ours, "list"), partial(here.theirs, "list"))
            here.theirs("kill", "*", "--force")
        size = f", {files} files each" if files > 1 else ""
        what = f"fleet list, {LISTED} agents{size}"
        yield Row("list", what, ours, f"ai-fleet, {THEIRS_LISTED} agents", theirs, goal=1 / 3)


def bench_kill(bench: Bench) -> Iterator[Row]:
    with yard(bench, 1) as here:
        begin = partial(here.ours, "fanout", str(KILLED), "k", "-p", PROMPT)
        theirs_begin = partial(here.theirs, "fanout", str(KILLED), "k", "--prompt", PROMPT)
        ours, theirs = in_turns(
            2, partial(_killed, begin, here.kill_ours), partial(_killed, theirs_begin, here.kill_theirs)
        )
    yield Row("kill", f"fleet kill, {KILLED} agents, places saved", ours, "ai-fleet, nothing saved", theirs)


def _killed(begin: Callable[[], float], kill: Callable[[], float]) -> float:
    begin()
    return kill()


GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "create": bench_create,
    "fanout": bench_fanout,
    "list": bench_list,
    "kill": bench_kill,
}

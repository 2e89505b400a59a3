"""Claude Code, Codex and OpenCode, the real programs, each in a terminal on a branch; only the model is scripted."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.agent_desk import MODELS, Desk, desk
from standins.agent_models import Answer, results
from standins.coders.scratch import Ran, until
from standins.model_server import Asked, Call, Say

pytestmark = [pytest.mark.agents, pytest.mark.tmux, pytest.mark.timeout(240)]

PROMPT = "-x Say 'hello' to \"$(whoami)\" and `id`;\nüber 🦆 漢字\n\n\t- and nothing else"
LONG = PROMPT + "\n" + "a line of 40 characters, more or less..\n" * 1250 + "the very end"
SECONDS = 120
HERON = "HERON"
NEWS = {"raw.githubusercontent.com:443"}  # Codex in a terminal looks for announcements; no switch for it was found


def mind(asked: Asked) -> Answer:
    """Writes a file when it is told to, and says a word otherwise."""
    if not asked.tools:
        return Say("a title")
    wanted = "WRITE IT" in json.dumps(asked.body) and "Write" in asked.tools and not results(asked)
    return Call("Write", {"file_path": "heron.txt", "content": HERON}) if wanted else Say(HERON)


@dataclass(frozen=True)
class Yard:
    """A project with the real agents on the path, and a home that belongs to nobody."""

    desk: Desk

    @property
    def env(self) -> dict[str, str]:
        own = self.desk.environment()
        path = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        proxies = {name: value for name, value in own.items() if name.lower().endswith("_proxy")}
        fixed = {"HOME": own["HOME"], "FLEET_HOME": str(self.desk.home / ".fleet"), "LANG": "C.UTF-8", "TERM": "xterm"}
        return {"PATH": path} | proxies | fixed

    def fleet(self, *args: str, stdin: str = "", code: int = 0) -> Ran:
        argv = [sys.executable, "-m", "fleet", *args]
        done = subprocess.run(
            argv, cwd=self.desk.project, env=self.env, input=stdin.encode(), capture_output=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == code, f"{args}: {ran.out}{ran.err}"
        return ran

    def json(self, *args: str, stdin: str = "") -> Any:
        return json.loads(self.fleet(*args, "--json", stdin=stdin).out)

    def state(self, branch: str) -> str:
        return next(str(row["state"]) for row in self.json("list") if row["branch"] == branch)

    def git(self, *args: str) -> str:
        who = ("-c", "user.name=person", "-c", "user.email=p@example.invalid")
        argv = ["git", "-C", str(self.desk.project), *who, *args]
        return subprocess.run(argv, check=True, capture_output=True, text=True, env=self.env).stdout

    def said(self) -> str:
        """Everything that models were asked."""
        return "\n".join(json.dumps(asked.body, ensure_ascii=False) for asked in self.desk.model.asked)

    def left(self) -> list[int]:
        """Processes that were started for this home and still live: agents, keepers, terminals."""
        mark = os.fsencode(self.desk.home / ".fleet")
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                try:
                    words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark in words:
                    found.append(int(entry.name))
        return found

    def nothing_is_left(self) -> None:
        assert self.json("list") == []
        assert len(self.git("worktree", "list").splitlines()) == 1
        assert list((self.desk.home / ".fleet").glob("places/*/[!.]*")) == []
        assert until(lambda: not self.left(), 10)
        assert set(self.desk.strangers) <= NEWS


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with desk(tmp_path, mind) as where:
        (where.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
        found = Yard(where)
        found.git("init", "-q", "-b", "main")
        found.git("commit", "-q", "--allow-empty", "-m", "first")
        own = {name: value for name, value in where.environment().items() if name not in found.env}
        given = [f"coders.{coder}.env.{name}={value}" for coder in MODELS for name, value in own.items()]
        found.fleet("config", "set", *given, "model=")
        try:
            yield found
        finally:
            for pid in found.left():
                os.kill(pid, signal.SIGKILL)


@contextmanager
def attached(yard: Yard, branch: str) -> Iterator[int]:
    """`fleet attach` in a terminal of its own."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(yard.desk.project)
        os.execvpe(sys.executable, [sys.executable, "-m", "fleet", "attach", branch], yard.env)
    try:
        yield terminal
        os.write(terminal, b"\x02")  # Ctrl-B, and then D: what comes together tmux takes for a paste
        select.select([], [], [], 0.05)
        os.write(terminal, b"d")
        seen(terminal, b"detached")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        os.close(terminal)


def seen(terminal: int, words: bytes) -> None:
    """Read a terminal until it has shown this."""
    shown, deadline = b"", time.monotonic() + 30
    while words not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
    assert words in shown


def test_claude_code_on_a_branch_is_talked_to_watched_and_ended(yard: Yard) -> None:
    (made,) = yard.json("create", "fix/auth", "--agent", f"claude:{MODELS['claude']}", "--prompt", PROMPT)
    assert (made["prompt_taken"], made["terminal"]) == (True, "ai_fix/auth")
    until(lambda: yard.state("fix/auth") == "waiting")
    assert json.dumps(PROMPT.replace("\t", "    "), ensure_ascii=False)[1:-1] in yard.said().replace("\\t", "    ")

    (said,) = yard.json("prompt", "fix/auth", "-", stdin=LONG)
    assert said["taken"] is True
    until(lambda: "more or less..\\nthe very end" in yard.said())
    assert yard.json("prompt", "fix/*", "WRITE IT")[0]["taken"] is True
    until(lambda: (Path(made["path"]) / "heron.txt").exists())
    until(lambda: yard.state("fix/auth") == "waiting")

    with attached(yard, "fix/auth") as terminal:
        seen(terminal, HERON.encode())
    assert HERON in yard.fleet("logs", "fix/auth").out
    (row,) = yard.json("list")
    assert (row["agent"], row["ahead"], row["changed"], row["tokens"]) == ("claude", 0, 1, 4 * 1115)
    assert row["memory"] > 100_000_000

    (ended,) = yard.json("kill", "fix/auth", "--force")
    assert yard.git("show", f"refs/fleet/salvage/{ended['saved']}:files/heron.txt") == HERON
    assert yard.git("branch", "--list", "fix/auth") == ""
    receipt = json.loads(yard.fleet("task", made["task"], "receipt").out)
    assert (receipt["attempt"]["tokens"], receipt["result"]["uncommitted"]) == (4 * 1115, ["heron.txt"])
    yard.nothing_is_left()


@pytest.mark.long
def test_five_at_once(yard: Yard) -> None:
    made = yard.json("fanout", "5", "auth", "--agent", f"claude:{MODELS['claude']}", "--prompt", "Go on")
    assert [(one["branch"], one["prompt_taken"]) for one in made] == [(f"auth-A{n}", True) for n in range(1, 6)]
    until(lambda: {row["state"] for row in yard.json("list")} == {"waiting"})
    assert {one["taken"] for one in yard.json("prompt", "--batch", "auth", "And on")} == {True}
    assert len(yard.json("kill", "auth", "--batch", "--force")) == 5
    yard.nothing_is_left()


@pytest.mark.long
def test_three_kinds_at_once(yard: Yard) -> None:
    who = ",".join(f"{coder}:{model}" for coder, model in MODELS.items())
    made = yard.json("fanout", "3", "mixed", "--agent", who, "--prompt", PROMPT)
    assert [(one["agent"], one["prompt_taken"]) for one in made] == [(coder, True) for coder in MODELS], made
    until(lambda: {row["state"] for row in yard.json("list")} == {"waiting"})
    assert {one["taken"] for one in yard.json("prompt", "mixed-*", "And on")} == {True}
    until(lambda: {row["state"] for row in yard.json("list")} == {"waiting"})
    assert all(row["tokens"] for row in yard.json("list")), yard.json("list")
    assert len(yard.json("kill", "mixed-*", "--force")) == 3
    yard.nothing_is_left()

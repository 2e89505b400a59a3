"""The real Claude Code with the login that its user has, and without one; only the model is scripted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.agent_desk import Desk, desk
from standins.agent_models import Answer, results
from standins.coders.scratch import Ran, until
from standins.model_server import Asked, Call, Say

pytestmark = [pytest.mark.agents, pytest.mark.tmux, pytest.mark.timeout(240)]

KEY = "sk-ant-api03-of-this-test-and-of-nobody-else-0123456789"
SECONDS = 120
SHELL = ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "FLEET_KEY")  # what the desk sets, and a user's shell might


def mind(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    made = {"file_path": "made.txt", "content": f"made in {asked.attempt}"}
    return Say("done") if results(asked) else Call("Write", made)


@dataclass
class User:
    """Somebody with a project, a shell and Claude Code."""

    desk: Desk
    shell: dict[str, str]

    def fleet(self, *args: str, code: int = 0) -> Ran:
        argv = [sys.executable, "-m", "fleet", *args]
        done = subprocess.run(
            argv, cwd=self.desk.project, env=self.shell, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == code, f"{args}: {ran.code}\n{ran.out}{ran.err}"
        return ran

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self.fleet(*args, "--json", code=code).out)

    def log_in(self) -> None:
        self.shell |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.desk.model.endpoint}

    def written(self, words: str) -> list[Path]:
        """The files below the home in which these words stand."""
        files = [path for path in self.desk.home.rglob("*") if path.is_file() and not path.is_symlink()]
        return [path for path in files if words.encode() in path.read_bytes()]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with desk(tmp_path, mind) as where:
        (where.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
        (where.home / ".gitconfig").write_text("[user]\nname = person\nemail = p@example.invalid\n")
        own = {name: value for name, value in where.environment().items() if name not in SHELL}
        path = os.pathsep.join([str(Path(sys.executable).parent), own.pop("PATH")])
        home = str(where.home / ".fleet")
        shell = {"PATH": path, "HOME": own.pop("HOME"), "FLEET_HOME": home, "LANG": "C.UTF-8", "TERM": "xterm"}
        found = User(where, shell)
        for args in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
            subprocess.run(["git", *args], cwd=where.project, env=shell, check=True, timeout=SECONDS)
        found.fleet("config", "set", *(f"coders.claude.env.{name}={value}" for name, value in own.items()), "model=")
        try:
            yield found
        finally:
            for pid in left(home):
                os.kill(pid, signal.SIGKILL)


def left(home: str) -> list[int]:
    """Processes that were started for this home and still live: agents, keepers, terminals."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if home.encode() in words:
                found.append(int(entry.name))
    return found


def test_an_exported_key_is_the_agents_login_in_the_queue_and_in_a_terminal(user: User) -> None:
    user.log_in()
    user.fleet("config", "set", 'coders.claude.pass_env=["SSH_AUTH_SOCK"]', "max_concurrent=1", "limits.attempts=1")
    for name in ("one", "two"):
        user.fleet("add", name, "--check", "test -f made.txt")
    said = user.fleet("run", "--drain")
    rows = user.json("tasks", "--all")
    assert [row["state"] for row in rows] == ["done", "done"], rows
    given = "claude is given ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL"
    assert said.out.count(given) == 1, "once, and not for every task"
    assert "pass_env names SSH_AUTH_SOCK, which is not set here" in said.out

    made = user.fleet("create", "fix-auth", "--prompt", "Write it")
    assert "prompt taken" in made.out
    assert "claude is given ANTHROPIC_API_KEY" in made.err
    until(lambda: user.json("list")[0]["state"] == "waiting")
    assert user.desk.model.asked[-1].authorization in (KEY, f"Bearer {KEY}")
    own = json.loads((user.desk.home / ".claude.json").read_text())
    assert "customApiKeyResponses" not in own, "the question was answered for this agent alone"
    user.fleet("kill", "fix-auth", "--force")
    assert user.written(KEY) == []


def test_who_is_logged_in_is_not_moved_to_an_exported_key(user: User) -> None:
    user.log_in()
    credentials = user.desk.home / ".claude" / ".credentials.json"
    credentials.parent.mkdir(exist_ok=True)
    credentials.write_text('{"claudeAiOauth": {}}')
    made = user.fleet("create", "fix-auth")
    assert f"claude uses its own login ({credentials}) and is not given ANTHROPIC_API_KEY" in made.err
    user.fleet("kill", "fix-auth", "--force")


def test_an_agent_in_a_terminal_that_is_not_logged_in_is_said_to_be_so(user: User) -> None:
    made = user.fleet("create", "fix-auth", "--prompt", "Write it", code=1)
    assert "claude is not logged in (Not logged in · Please run /login). Log in: claude /login" in made.err
    (row,) = user.json("list")
    assert (row["state"], row["cause"]) == ("not logged in", "Not logged in · Please run /login")
    user.fleet("kill", "fix-auth", "--force")


def test_a_login_that_is_missing_holds_five_tasks_and_then_five_are_done(user: User) -> None:
    user.fleet("config", "set", "max_concurrent=2", "limits.attempts=1", "backoff=0s")
    names = [user.json("add", f"task {n}", "--check", "test -f made.txt")["id"] for n in range(5)]
    said = user.fleet("run", "--drain", code=1)
    cure = "claude is not logged in: 5 tasks are held. Log in: claude /login; then fleet resume --account claude"
    assert f"tasks left held (tasks t1 t2 t3 t4 t5): {cure}" in said.out
    rows = user.json("tasks")
    assert {row["state"] for row in rows} == {"open"}
    shown = user.fleet("show", "t1").out
    assert "claude is not logged in" in shown
    assert '"input_tokens"' not in shown, "no piece of JSON is a cause"
    assert user.desk.model.asked == []

    user.log_in()
    assert "claude is tried again: one task goes first." in user.fleet("resume").out
    user.fleet("run", "--drain")
    rows = user.json("tasks", "--all")
    assert [row["state"] for row in rows] == ["done"] * len(names), rows

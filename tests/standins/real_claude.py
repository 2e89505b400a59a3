"""The real Claude Code at work under `fleet run`, in one repository: only its model is scripted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from standins.agent_desk import MODELS, Desk, desk
from standins.agent_models import Mind
from standins.coders.scratch import Ran
from standins.work_models import SECONDS


@dataclass(frozen=True)
class Claude:
    """A fleet home, a repository, and Claude Code that works there for a scripted model."""

    desk: Desk
    project: Path

    @property
    def env(self) -> dict[str, str]:
        own = self.desk.environment()
        path = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        return {"PATH": path, "HOME": own["HOME"], "FLEET_HOME": str(self.desk.home / ".fleet"), "LANG": "C.UTF-8"}

    def fleet(self, *args: str, code: int = 0) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *args], cwd=self.project, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=2 * SECONDS, check=False,
        )  # fmt: skip
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == code, f"{args}: {ran.err}{ran.out}"
        return ran

    def add(self, title: str, *options: str) -> str:
        added = self.fleet("add", title, "--coder", "claude", "--model", MODELS["claude"], "--json", *options)
        return str(added.json()["id"])

    def prompt(self, task: str, number: int) -> str:
        """What an attempt was told."""
        return (self.desk.home / ".fleet" / "tasks" / task / "attempts" / str(number) / "stdin").read_text()

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=owner", "-c", "user.email=owner@fleet.invalid")
        argv, env = ["git", *who, *words], {"PATH": os.defpath, "HOME": str(self.project)}
        done = subprocess.run(argv, cwd=self.project, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()


@contextmanager
def claude(directory: Path, mind: Mind, files: Mapping[str, str], *settings: str) -> Iterator[Claude]:
    """A repository with these files in its first commit, and a home whose Claude Code asks this model."""
    with desk(directory, mind) as where:
        made = Claude(where, where.project / "plan")
        made.project.mkdir()
        made.git("init", "--quiet", "--initial-branch=main")
        for name, text in files.items():
            (made.project / name).write_text(text)
        made.git("add", "-A")
        made.git("commit", "--quiet", "-m", "begin")
        made.fleet("init", "--home-only")
        own = {name: value for name, value in where.environment().items() if name not in made.env}
        given = [f"coders.claude.env.{name}={value}" for name, value in own.items()]
        made.fleet("config", "set", *given, "backoff=0s", *settings)
        yield made

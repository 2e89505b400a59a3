"""Which coder and model a task gets, and where its attempts are kept: what the supervisor and its doors agree on."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from fleet.config.runtime import Runtime
from fleet.core.frozen import dataclass
from fleet.core.task import Spec
from fleet.core.work import Attempt

LOCK = "supervisor.lock"
KNOWN = 256  # directories that are not put together again


@dataclass(frozen=True, slots=True)
class Choice:
    """Which coder and model a task gets, and whether the task itself asked for them."""

    coder: str
    model: str | None
    own_coder: bool
    own_model: bool
    account: str | None = None  # the one the task asks for


def attempt_directory(home: Path, attempt: Attempt) -> Path:
    return _attempt_directory(home, attempt.task, attempt.number)


@lru_cache(KNOWN)  # asked for twenty times an attempt
def _attempt_directory(home: Path, task: str, number: int) -> Path:
    return task_directory(home, task) / "attempts" / str(number)


@lru_cache(KNOWN)
def task_directory(home: Path, task: str) -> Path:
    return home / "tasks" / task


def where(spec: Spec | None) -> str | None:
    """Where a task works, by the real name of the directory: limits and pauses of a project go by that."""
    return os.path.realpath(spec.cwd) if spec else None


def choose(spec: Spec | None, run_coder: str | None, runtime: Runtime) -> Choice:
    """Task, then whose account it asks for, then `fleet run --coder`, then runtime.toml. The machine's model belongs to
    the machine's coder: another coder without a model of its own uses that agent's own default.
    """
    own_coder = spec.coder if spec else None
    own_model = spec.model if spec else None
    account = spec.account if spec else None
    pinned = runtime.accounts.get(account or "")
    coder = own_coder or (pinned.coder if pinned else None) or run_coder or runtime.coder
    inherited = runtime.model if coder == runtime.coder else None
    return Choice(coder, own_model or inherited or None, own_coder is not None, own_model is not None, account)

"""The directory of a task, made before the task is: making it is what keeps two tasks from sharing one id."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError
from fleet.core.task import task_id
from fleet.host import files


def directory(home: Path, task: str) -> Path:
    """Everything that is kept about one task."""
    return home / "tasks" / task_id(task)


def reserve(home: Path, candidates: Iterable[str]) -> str:
    """The first of the ids whose directory nobody has made, which is now ours."""
    files.private_dir(home / "tasks")
    for task in candidates:
        with suppress(FileExistsError):
            directory(home, task).mkdir(mode=0o700)
            return task
    raise FleetError(f"no id is left in {home / 'tasks'}")


def give_back(home: Path, task: str) -> None:
    """Remove the directory of a task that came to nothing; one that holds more than its spec stays."""
    with suppress(OSError):
        (directory(home, task) / "task.json").unlink(missing_ok=True)
        directory(home, task).rmdir()

"""Putting a task in the queue. People script this, so it loads next to nothing."""

from __future__ import annotations

from pathlib import Path

from fleet import tracker
from fleet.app.home import SETTINGS, ensure_home, wake
from fleet.config import peek
from fleet.core import BadConfig
from fleet.core.task import NewTask, Spec, Task


def add(new: NewTask, spec: Spec, home: Path | None = None) -> tuple[Task, bool]:
    """Put a task in the queue, and wake the supervisor; whether there is one."""
    home = home or ensure_home()
    if not Path(spec.cwd).is_dir():
        raise BadConfig(f"the directory {spec.cwd} does not exist", hint="fleet add --cwd DIRECTORY …")
    if spec.coder is not None:
        _must_know(home, spec.coder)
    desk = tracker.open(home, peek.tracker(home / SETTINGS))
    made = desk.add(new, lambda task: tracker.spec.write(home, task, spec))
    return made, wake(home)


def _must_know(home: Path, coder: str) -> None:
    from fleet.config import runtime
    from fleet.core.text import clean, nearest

    settings = runtime.read(home / SETTINGS)
    if not settings.knows(coder):
        known = settings.known_coders
        raise BadConfig(
            f"there is no coder {clean(coder)!r}{nearest(coder, known)}; there are {', '.join(known)}",
            hint="a coder of your own: fleet config set 'coders.NAME.argv=[\"my-agent\"]'",
        )

"""What a supervisor works with: the rooms, picked by the hall, and where things are kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from fleet.coders import Coder
from fleet.config.runtime import Live, Runtime
from fleet.core.frozen import dataclass
from fleet.core.work import Attempt
from fleet.evidence.ledger import Ledger
from fleet.supervisor.choice import attempt_directory, task_directory
from fleet.supervisor.log import Log
from fleet.tracker import Tracker


@dataclass(frozen=True, slots=True)
class House:
    """`coder` is what `fleet run --coder` said; a task's own wish goes before it."""

    home: Path
    tracker: Tracker
    ledger: Ledger
    settings: Live
    find_coder: Callable[[str, Runtime], Coder]
    log: Log
    actor: str
    coder: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    now: Callable[[], float] = time.time
    also_hidden: tuple[Path, ...] = ()  # from checks, beside the home
    lock: Path | None = None  # of the supervisor without which nobody wants its checks; None: they come to their end

    @property
    def runtime(self) -> Runtime:
        return self.settings.runtime

    def task_directory(self, task: str) -> Path:
        return task_directory(self.home, task)

    def artifacts(self, task: str) -> Path:
        """Where the agents of a task keep their notes."""
        return self.task_directory(task) / "artifacts"

    def attempt_directory(self, attempt: Attempt) -> Path:
        return attempt_directory(self.home, attempt)

    def earlier(self, attempt: Attempt) -> list[Attempt]:
        """The attempts at the same task before this one."""
        if attempt.number == 1:
            return []
        return [one for one in self.ledger.of(attempt.task) if one.number < attempt.number]

"""What the supervisor did, one JSON object a line: logging/fleet-<date>.jsonl for all, log.jsonl for each task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fleet.core import FleetError
from fleet.evidence.journal import Journal, Record
from fleet.host import files

Hear = Callable[[Record], None]


class Log:
    """Writes where it can: a disk that is full, or a file that an agent replaced, never stops the work."""

    def __init__(self, home: Path, hear: Hear = lambda record: None, now: Callable[[], float] = time.time) -> None:
        self._home = home
        self._hear = hear
        self._now = now
        self._turn = threading.Lock()  # steps of several attempts speak at once, each from a thread of its own
        self._said: set[tuple[str, str]] = set()
        self._day = ""
        self._journal: Journal | None = None

    def say(self, event: str, *, task: str | None = None, level: str = "info", **facts: object) -> None:
        """Note one thing that happened."""
        record = {"at": round(self._now(), 3), "level": level, "event": event}
        record |= {"task": task} if task else {}
        record |= {name: value for name, value in facts.items() if value is not None}
        with self._turn:
            self._write(record)
            if task:
                self._note(task, record)
        with suppress(OSError, ValueError):  # whoever listened is gone; the file has it all
            self._hear(record)

    def say_once(self, event: str, *, text: str, level: str = "info", change: str | None = None) -> None:
        """Note something that is so until the supervisor ends, the first time that it is seen."""
        with self._turn:
            is_new = (event, text) not in self._said
            self._said.add((event, text))
        if is_new:
            self.say(event, level=level, text=text, change=change)

    def _write(self, record: Record) -> None:
        day = datetime.fromtimestamp(self._now(), UTC).date().isoformat()
        with suppress(OSError, FleetError):
            if day != self._day or self._journal is None:
                if self._journal:
                    self._journal.close()
                    self._journal = None
                self._journal = Journal(files.private_dir(self._home / "logging") / f"fleet-{day}.jsonl")
                self._day = day
            self._journal.append([record])

    def _note(self, task: str, record: Record) -> None:
        with suppress(OSError, FleetError):
            journal = Journal(self._home / "tasks" / task / "log.jsonl")
            try:
                journal.append([record])
            finally:
                journal.close()

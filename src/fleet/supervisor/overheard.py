"""What a library logs, let into our log. Apart, because most who write our log have nothing to do with `logging`."""

from __future__ import annotations

import logging

from fleet.supervisor.log import Log


class Handler(logging.Handler):
    """Lets what a library logs into our log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.say("engine said", level=record.levelname.lower(), text=record.getMessage()[:2000])

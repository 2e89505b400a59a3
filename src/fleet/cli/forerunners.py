"""What programs that came before fleet left here, said wherever somebody would expect it to count."""

from __future__ import annotations

from pathlib import Path

from fleet.cli.show import warn
from fleet.core.text import clean


def warn_of_unread(*, project: bool = True, home: Path | None = None) -> None:
    """Say on stderr which settings and queues nothing reads, each with the command that takes it over."""
    from fleet.app.legacy import unread, unread_queue

    for found in (unread(Path.cwd()) if project else None, unread_queue(home) if home else None):
        if found:
            warn(clean(f"{found.finding}; take it over with: {found.remedy}", 2000))

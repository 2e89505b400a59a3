"""A terminal as tmux has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """A session on our own tmux server. It is told by the attempt it was made for: people rename sessions."""

    id: str
    name: str
    attempt: str
    pid: int | None  # of the keeper in its pane
    dead: bool  # what ran there has ended; the last picture is kept
    attached: int  # how many people look at it

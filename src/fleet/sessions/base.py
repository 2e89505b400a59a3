"""A terminal as tmux has it, and how it is called."""

from __future__ import annotations

from hashlib import sha256

from fleet.core.frozen import dataclass

LONGEST = 120
PLAIN = "-_/"


@dataclass(frozen=True, slots=True)
class Seen:
    """A session on our own tmux server. It is told by the attempt it was made for: people rename sessions."""

    id: str
    name: str
    attempt: str
    pid: int | None  # of the keeper in its pane
    dead: bool  # what ran there has ended; the last picture is kept
    attached: int  # how many people look at it
    pane: str | None = None  # the one the keeper is in: people split windows; None when they closed it


def session_name(prefix: str, branch: str) -> str:
    """What a session is called, for people to find it.

    tmux gives a meaning to some characters and replaces others; then a hash tells apart what would look the same.
    """
    wanted = prefix + branch
    plain = "".join(c if c.isalnum() or c in PLAIN else "_" for c in wanted)[:LONGEST]
    return wanted if plain == wanted else f"{plain}-{sha256(wanted.encode(errors='surrogatepass')).hexdigest()[:8]}"

"""What an agent was seen to touch that it may not, as it is written down: people are told so without any watch."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fleet.host import files

FILE = "breaches.json"


class Flagged(msgspec.Struct, frozen=True):
    """What an agent was seen to touch that it may not; whether it was ended for that."""

    reasons: tuple[str, ...] = ()
    ended: bool = False


READ = msgspec.json.Decoder(Flagged)


def flagged(directory: Path) -> Flagged:
    """What is written down of an attempt, by the directory it has in the home."""
    try:
        return READ.decode(files.read(directory / FILE) or b"{}")
    except (OSError, msgspec.MsgspecError):
        return Flagged()


def flag(directory: Path, seen: Flagged) -> None:
    """Write down what was seen of an attempt."""
    files.write(directory / FILE, msgspec.json.encode(seen), files.PRIVATE)


def summary(seen: Flagged) -> str:
    """What people are told while the agent works."""
    more = f" (and {len(seen.reasons) - 1} more)" if len(seen.reasons) > 1 else ""
    return f"outside its scope: {seen.reasons[0]}{more}" if seen.reasons else ""

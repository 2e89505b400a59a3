"""What agent CLIs have in common that can be talked to in a terminal and tell nothing of themselves there."""

from __future__ import annotations

from fleet.core.talk import Signal
from fleet.core.work import Event


class Quiet:
    """Of such a one only its screen is known."""

    __slots__ = ()

    @property
    def tells(self) -> bool:
        return False

    def pasted(self, prompt: str) -> str:
        """A `!` in front would run the rest in a shell."""
        return f" {prompt}" if prompt.startswith("!") else prompt

    def signals(self, line: bytes) -> list[Signal]:
        return []

    def recall(self, line: bytes) -> list[Event]:
        return []

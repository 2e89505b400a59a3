"""What holds tasks back: a person, the hour, a provider, the machine. Each gate knows its own reason and no other."""

from __future__ import annotations

from fleet.gates.accounts import Book, Standing
from fleet.gates.base import Closed
from fleet.gates.memory import Needs
from fleet.gates.pauses import Pause, Pauses, Scope

__all__ = ["Book", "Closed", "Needs", "Pause", "Pauses", "Scope", "Standing"]

"""The keeper: a process that owns one agent, and outlives the supervisor that started it."""

from fleet.host.process import label, strays, sweep
from fleet.keeper.base import Cause, Exit, Fence, Start
from fleet.keeper.hold import Hold, abort, adopt, fence_fault, forget, hold, in_terminal, is_alive, rouse

__all__ = [
    "Cause",
    "Exit",
    "Fence",
    "Hold",
    "Start",
    "abort",
    "adopt",
    "fence_fault",
    "forget",
    "hold",
    "in_terminal",
    "is_alive",
    "label",
    "rouse",
    "strays",
    "sweep",
]

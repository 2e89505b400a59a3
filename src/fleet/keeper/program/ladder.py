"""The ladder of ending."""

from __future__ import annotations

from fleet.keeper.program.kernel import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Ladder:
    """Steps that end a tree, each followed by a pause in which it may end by itself."""

    def __init__(self) -> None:
        self.due = NEVER
        self.spent = False
        self._steps: Iterable[tuple[Callable[[], None], float]] = ()

    def begin(self, steps: list[tuple[Callable[[], None], float]], now: float) -> None:
        self._steps, self.due = iter(steps), now

    def climb(self, now: float) -> None:
        """Take the next step, once the pause after the last one is over."""
        if now < self.due:
            return
        for act, pause in self._steps:
            act()
            self.due = now + pause
            return
        self.spent = True

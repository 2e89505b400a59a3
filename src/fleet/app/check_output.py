"""What the checks of a task's last attempt printed, whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet.app.tasks import Desk, content
from fleet.core import NotFound
from fleet.core.frozen import dataclass
from fleet.core.task import task_id
from fleet.core.work import Attempt
from fleet.evidence.receipt import Check, load_receipt
from fleet.supervisor.choice import attempt_directory
from fleet.supervisor.verify import STREAMS, TRIES


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """One check, and the files with all that it printed; without them its receipt's end of that is all there is."""

    attempt: str
    check: Check
    files: tuple[Path, ...]

    def pieces(self) -> Iterator[bytes]:
        """What it printed, in pieces that fit in memory."""
        if not self.files:
            yield self.check.tail.encode()
        for path in self.files:
            position = 0
            while piece := content(path, position):
                yield piece
                position += len(piece)


def last_checks(desk: Desk, name: str) -> list[CheckOutput]:
    """The checks of the last attempt that had any, in the order in which they ran: of one that was held, those that ran
    before its agent.
    """
    task = desk.tracker.get(task_id(name))
    for attempt in reversed(desk.ledger.of(task.id)):
        directory = attempt_directory(desk.home, attempt)
        receipt = load_receipt(directory / "receipt.json")
        if receipt is not None and receipt.checks:
            return _outputs(attempt, directory, receipt.checks)
        if receipt is not None and receipt.before:
            return [CheckOutput(attempt.id, check, ()) for check in receipt.before]
    raise NotFound(f"no check of {task.id} has been run yet", hint=f"fleet show {task.id}")


def _outputs(attempt: Attempt, directory: Path, checks: Sequence[Check]) -> list[CheckOutput]:
    return [CheckOutput(attempt.id, check, _files(directory, n)) for n, check in enumerate(checks)]


def _files(directory: Path, n: int) -> tuple[Path, ...]:
    """The streams of the last try of the nth check."""
    numbers = range((n + 1) * TRIES, n * TRIES, -1)
    tries = (directory / ("check" if number == 1 else f"check.{number}") for number in numbers)
    last = next((one for one in tries if one.is_dir() and not one.is_symlink()), None)
    return tuple(last / name for name in STREAMS if (last / name).exists()) if last is not None else ()

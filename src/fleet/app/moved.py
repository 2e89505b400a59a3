"""What people are told of branches and tags that moved while an agent ran, beside what others remarked on its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet.core.task import Comment
from fleet.core.work import Attempt
from fleet.evidence.moved import said, way_back
from fleet.evidence.receipt import load_receipt
from fleet.supervisor.choice import attempt_directory

NAMED = 5  # of one attempt; its receipt has the others
WHO = "fleet"


def told(home: Path, history: Sequence[Attempt]) -> Iterator[Comment]:
    """A remark for each branch or tag, with the command that sets it back."""
    for attempt in history:
        receipt = load_receipt(attempt_directory(home, attempt) / "receipt.json") if attempt.ended else None
        found = (receipt.result.moved if receipt else None) or []
        for one in found[:NAMED]:
            back = way_back(one, attempt.repository or attempt.cwd)
            whose = f"while {attempt.id} ran, by its agent or by somebody else"
            yield Comment(WHO, f"{said(one)}: {whose}; to set it back: {back}", attempt.ended or 0.0)
        if more := len(found) - NAMED if len(found) > NAMED else 0:
            text = f"and {more} more moved while {attempt.id} ran: result.moved of its receipt"
            yield Comment(WHO, text, attempt.ended or 0.0)

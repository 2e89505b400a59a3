"""What stands where an agent is going to work, kept before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fleet.core.work import Attempt
from fleet.evidence.receipt import save
from fleet.evidence.snapshot import Snapshot, look, walk
from fleet.supervisor.house import House
from fleet.supervisor.refs import refs_before


def note_before(house: House, attempt: Attempt) -> Attempt:
    """Keep what stands there before the agent runs, apart from the tree that the attempt found, if it has one."""
    artifacts = house.artifacts(attempt.task)
    if attempt.began_tree is None:
        before = look(Path(attempt.cwd), artifacts)
    else:
        before = Snapshot(attempt.began_at, None, walk(artifacts))
    save(house.attempt_directory(attempt) / "before.json", replace(before, refs=refs_before(attempt)))
    return replace(attempt, began_at=before.head)

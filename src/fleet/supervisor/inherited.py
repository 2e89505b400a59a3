"""What an attempt finds that an earlier one, which worked in the user's own directory, was refused for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleet.core import NotFound
from fleet.core.proof import ChangeKind
from fleet.core.task import Status, is_cancelled
from fleet.core.text import clean, sayable
from fleet.core.work import Attempt
from fleet.evidence.receipt import Receipt, load_receipt
from fleet.host import git
from fleet.supervisor.house import House

MOST = 20  # refused attempts that are looked at, the newest first
NAMED = 3  # paths in one sentence


def inherited(house: House, attempt: Attempt, directory: str) -> str:
    """Why the result of an attempt proves nothing: its base has what another was refused for in the directory that the
    task is about. Empty when there is no such thing, or when the result is compared with what was there before.
    """
    if not attempt.base_tree:
        return ""
    refused = house.ledger.refused_in(directory)[:MOST]
    asked = [one for one in refused if one.left_tree and one.base_tree != attempt.base_tree]
    found = git.find(Path(directory).resolve()) if asked else None
    if found is None:
        return ""
    with git.mirror(found) as ours:
        for one in asked:
            receipt = load_receipt(house.attempt_directory(one) / "receipt.json")
            between = ours.between(one.left_tree or "", attempt.base_tree)
            if receipt is None or between is None:  # git has forgotten what it left
                continue
            kept = [path for path in _refused_for(receipt) if path not in _paths(between)]
            if kept and not _is_accepted(house, one.task):
                return _said(one, kept)
    return ""


def _refused_for(receipt: Receipt) -> list[str]:
    """The paths that an attempt was refused for, as everybody can say them."""
    breaches, changes = receipt.result.breaches, receipt.result.changes
    paths = [one.path for one in breaches if one.path]
    if any(one.rule == "deletions" for one in breaches):
        paths += [one.path for one in changes if one.change is ChangeKind.DELETED]
    return list(dict.fromkeys(paths))


def _paths(between: str) -> set[str]:
    """Every path of `git diff-tree --raw -z`, which says first what became of it."""
    return {sayable(path) for path in between.split("\0")[1::2]}


def _is_accepted(house: House, task: str) -> bool:
    """Whether a person, or a later attempt, has closed the task since; of one that is gone nobody can decide more."""
    try:
        found = house.tracker.get(task)
    except NotFound:
        return True
    return found.status is Status.CLOSED and not is_cancelled(found)


def _said(one: Attempt, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    named = ", ".join(clean(path, 120) for path in paths[:NAMED])
    return (
        f"it began from what {one.id} was refused for: {named}{more}; a person looks at it first: fleet show {one.task}"
    )

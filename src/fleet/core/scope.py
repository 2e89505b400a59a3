"""What a result may touch: a pure judgement over its changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fleet.core.proof import Breach, Change, Scope


def combine(project: Scope, task: Scope) -> Scope:
    """The scope of one task: what it says itself goes before what its project says, but a project's `deny` stays."""
    return Scope(
        allow=task.allow or project.allow,
        deny=(*project.deny, *task.deny),
        files=task.files if task.files is not None else project.files,
        deletions=task.deletions if task.deletions is not None else project.deletions,
        protected=(*project.protected, *task.protected),
    )


def breaches(changes: Sequence[Change], scope: Scope, *, check_files: Collection[str] = ()) -> list[Breach]:
    """What of these changes is outside the scope. `check_files` are what the checks themselves are made of."""
    return []

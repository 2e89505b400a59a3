"""What bd prints, read with patience: a field that is missing, new or of another kind never stops the reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fleet.core.task import TASK_ID, Comment, Status, Task
from fleet.tracker.base import is_done

WAITING = frozenset({"blocks", "conditional-blocks", "waits-for"})
KNOWN = {
    "open": Status.OPEN,
    "in_progress": Status.IN_PROGRESS,
    "blocked": Status.BLOCKED,
    "closed": Status.CLOSED,
}


@dataclass(frozen=True, slots=True)
class Issue:
    """One entry of bd's: the task but for what it waits for, and what bd said of the ones it depends on."""

    task: Task
    word: str
    depends: Mapping[str, Task | None]


def data(out: bytes) -> Any:
    """What the envelope holds, or the whole where there is no envelope; None when it is not JSON."""
    try:
        found = json.loads(out)
    except (ValueError, RecursionError):
        return None
    return found["data"] if isinstance(found, dict) and "data" in found else found


def issues(found: Any) -> list[Issue]:
    """Every entry that names a task; the rest is left out."""
    entries = found if isinstance(found, list) else [found]
    return [issue for entry in entries if (issue := _issue(entry)) is not None]


def tasks(found: list[Issue], others: Mapping[str, Task] | None = None) -> list[Task]:
    """The tasks, with what each still waits for worked out from one another and from the others given."""
    known = {issue.task.id: issue.task for issue in found} | dict(others or {})
    return [_waiting(issue, known) for issue in found]


def comments(found: Any) -> list[Comment]:
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [Comment(_text(e, "author"), _text(e, "text"), _moment(e.get("created_at"))) for e in entries]


def ids(found: Any) -> list[str]:
    """The ids of everything that a `create` made: one task, a list of them, or a graph by name."""
    if isinstance(found, dict) and isinstance(found.get("ids"), dict):
        return [task for task in found["ids"].values() if isinstance(task, str) and TASK_ID.match(task)]
    return [issue.task.id for issue in issues(found)]


def complaint(out: bytes, err: bytes) -> str:
    """Why bd failed, in its own words, wherever it put them."""
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    found = [*_errors(data(out)), *(error for line in lines for error in _errors(data(line.encode())))]
    spoken = [line for line in lines if not line.startswith(("{", "warning:", "  "))]
    return (found or spoken or lines or [out.decode(errors="replace").strip() or "nothing"])[0]


def _errors(found: Any) -> Iterator[str]:
    if not isinstance(found, dict):
        return
    failed = found.get("failed")
    for entry in failed if isinstance(failed, list) else []:
        if isinstance(entry, dict) and _text(entry, "error"):
            yield _text(entry, "error")
    if _text(found, "error"):
        yield _text(found, "error")


def _issue(entry: Any) -> Issue | None:
    if not isinstance(entry, dict) or not TASK_ID.match(_text(entry, "id")):
        return None
    word = _text(entry, "status") or "open"
    notes = _text(entry, "notes")
    depends = dict(_dependencies(entry.get("dependencies")))
    priority = entry.get("priority")
    task = Task(
        id=entry["id"],
        title=_text(entry, "title"),
        description=_text(entry, "description"),
        status=KNOWN.get(word, Status.BLOCKED),
        priority=priority if isinstance(priority, int) else 2,
        created=_moment(entry.get("created_at")),
        after=tuple(depends),
        assignee=_text(entry, "assignee"),
        notes=notes if word in KNOWN else f"bd says {word}\n{notes}".rstrip(),
        reason=_text(entry, "close_reason"),
    )
    return Issue(task, word, depends)


def _dependencies(entries: Any) -> Iterator[tuple[str, Task | None]]:
    """What a task depends on. `show` gives each one whole, `list` and `ready` give its id."""
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        kind = _text(entry, "dependency_type") or _text(entry, "type") or "blocks"
        needs = _text(entry, "depends_on_id") or _text(entry, "id")
        if kind in WAITING and needs:
            whole = _issue({**entry, "dependencies": None}) if "id" in entry else None
            yield needs, whole.task if whole else None


def _waiting(issue: Issue, known: Mapping[str, Task]) -> Task:
    """The task with what it waits for. One that bd has no more is not waited for; one of another project is."""
    waits = []
    for needs, whole in issue.depends.items():
        task = whole or known.get(needs)
        if needs.startswith("external:") if task is None else not is_done(task):
            waits.append(needs)
    return replace(issue.task, waits_for=tuple(waits))


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _moment(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0

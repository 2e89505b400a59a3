"""What is done and not on its branch yet, and where a result was landed: for who only looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleet import places
from fleet.app.tasks import Desk
from fleet.core.proof import Proof
from fleet.core.task import Status, Task, is_cancelled
from fleet.core.work import Attempt
from fleet.evidence.tree import LANDING
from fleet.host import repository
from fleet.host.repository.finish import LANDED_REFS
from fleet.landing.record import Landing, Landings

SHORT_COMMIT = 7  # characters


def not_landed(desk: Desk, proven: Sequence[str]) -> list[str]:
    """Of tasks whose work is proven, those with a result that is not on its branch: by what fleet has landed, and by
    what git has, since a person may have merged it.
    """
    if not proven:
        return []
    landed = still_landed(desk.home)
    lasts = desk.ledger.last_of(proven)
    waiting: dict[tuple[str, str], list[Attempt]] = {}
    for task in proven:
        last = lasts.get(task)
        if last is not None and last.id not in landed and _has_result(last):
            waiting.setdefault((last.repository, last.onto), []).append(last)
    found = set()
    for (top, onto), attempts in waiting.items():
        merged = _merged(Path(top), onto)
        found |= {one.task for one in attempts if one.id not in merged}
    return [task for task in proven if task in found]


def where_landed(desk: Desk, task: Task, last: Attempt | None) -> str:
    """Where the result of a finished task is, or the command that lands it; empty when it has none to land."""
    if last is None or task.status is not Status.CLOSED or not _has_result(last):
        return ""
    landing = still_landed(desk.home).get(last.id)
    if landing is not None:
        commit = next(one.landed for one in landing.results if one.attempt == last.id)
        return f"on {landing.branch} as {commit[:SHORT_COMMIT]}"
    if last.id in _merged(Path(last.repository), last.onto):
        return f"on {last.onto or 'the branch that is checked out'} already"
    is_aborted = is_cancelled(task) and not last.interactive
    if is_aborted or (last.proof is Proof.REFUSED and not last.accepted):
        return ""
    return f"not yet: fleet merge {task.id}"


def still_landed(home: Path) -> dict[str, Landing]:
    """Every attempt whose result was landed and is on its branch yet: a person may have wound that back."""
    landings = Landings(home).landed_attempts()
    there: dict[tuple[str, str], set[str]] = {}
    for one in landings.values():
        key = (one.repository, one.branch)
        if key not in there:
            there[key] = _refs_in(Path(one.repository), one.branch, f"{LANDED_REFS}/")
    return {name: one for name, one in landings.items() if one.new in there[one.repository, one.branch]}


def _has_result(last: Attempt) -> bool:
    """Whether an attempt left a change, in a place apart from the user's own directory."""
    return bool(last.repository) and last.left_tree is not None and last.left_tree != last.base_tree


def _merged(top: Path, onto: str) -> set[str]:
    """The attempts whose results are on the branch that they are meant for."""
    project = places.project(top)
    branch = onto or (repository.branch_of(project.common) if project else "")
    return merged_results(project.common, branch) if project is not None and branch else set()


def merged_results(common: Path, branch: str) -> set[str]:
    """The attempts whose results are on a branch, by whatever way."""
    return _refs_in(common, branch, LANDING)


def _refs_in(common: Path, branch: str, prefix: str) -> set[str]:
    """What comes after a prefix of the refs there whose commits a branch has."""
    done = repository.ask(common, "for-each-ref", "--format=%(refname)", f"--merged=refs/heads/{branch}", prefix)
    return {name.removeprefix(prefix) for name in done.out.decode(errors="surrogateescape").split()}

"""A whole plan put in the queue: read and checked whole before the first task is added."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fleet import tracker
from fleet.app.add import must_be_a_branch, must_be_known
from fleet.app.home import SETTINGS, ensure_home, wake
from fleet.config import runtime
from fleet.config.problems import MANY, InvalidFile, Problem
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.task import NewTask, Spec
from fleet.core.text import clean, nearest
from fleet.host import files
from fleet.host.checked_out import branch_of
from fleet.tracker import Tracker
from fleet.tracker.plan import NAMES, Circle, Plan, Planned, form_of, order, problem, read

LARGEST = 10 * 1024 * 1024
SHOWN = 20
STDIN = Path("stdin")


@dataclass(frozen=True, slots=True)
class Added:
    """A task of a plan, with the id that it got; without one, nothing was added."""

    key: str
    id: str | None
    title: str
    cwd: str
    after: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan without a problem, in the order in which its tasks can be added."""

    home: Path
    desk: Tracker
    plan: Plan
    ordered: tuple[Planned, ...]


def content(path: Path) -> bytes:
    found = files.read(path, follow=True, limit=LARGEST)
    if found is None:
        raise NotFound(f"there is no file {path}", hint="fleet add --file plan.md, or - for stdin")
    return found


def prepare(source: bytes, path: Path, form: str | None, new: NewTask, spec: Spec) -> Checked:
    """Read a plan and look at all of it; every problem is told at once, and nothing is written."""
    home = ensure_home()
    settings = runtime.read(home / SETTINGS)
    desk = tracker.open(home, settings.tracker)
    text = _text(source, path)
    plan = read(text, form or form_of(path.suffix, text), new, spec)
    problems = [*plan.problems, *_misfits(plan, settings, desk), *_unknown(plan, desk)]
    ordered: list[Planned] = []
    try:
        ordered = order(plan.tasks)
    except Circle as circle:
        problems.append(_waits_for_itself(circle.tasks))
    if problems:
        raise InvalidFile(path, problems, hint="mend them and try again; nothing was added")
    for needed in new.after:
        desk.get(needed)
    tasks = (replace(task, new=replace(task.new, after=(*task.new.after, *new.after))) for task in ordered)
    return Checked(home, desk, plan, tuple(tasks))


def would_add(checked: Checked) -> list[Added]:
    return [_added(task, None, task.new.after) for task in checked.ordered]


def put(checked: Checked, told: Callable[[Added], None]) -> list[Added]:
    """Add the tasks one by one, what others wait for first. When one cannot be added, the rest is kept in a file."""
    ids: dict[str, str] = {}
    made: list[Added] = []
    try:
        for task in checked.ordered:
            after = tuple(dict.fromkeys(ids.get(name, name) for name in task.new.after))
            id = checked.desk.add(replace(task.new, after=after), _record(checked.home, task.spec)).id
            ids[task.key] = id
            made.append(_added(task, id, after))
            told(made[-1])
    except (FleetError, OSError, KeyboardInterrupt) as stopped:
        wake(checked.home)
        raise _stopped(checked, ids, stopped) from stopped
    return made


def ring(checked: Checked) -> bool:
    """Wake the supervisor; whether there is one."""
    return wake(checked.home)


def _record(home: Path, spec: Spec) -> Callable[[str], None]:
    known = replace(spec, checked_out=branch_of(Path(spec.cwd)))
    return lambda task: tracker.spec.write(home, task, known)


def _added(task: Planned, id: str | None, after: tuple[str, ...]) -> Added:
    return Added(task.key, id, task.new.title, task.spec.cwd, after, task.line)


def _text(source: bytes, path: Path) -> str:
    if len(source) > LARGEST:
        raise BadConfig(f"{path} is larger than {LARGEST // 1024**2} MiB", hint="make two plans of it")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = source.count(b"\n", 0, wrong.start) + 1
        raise InvalidFile(path, [problem(line, "it is not UTF-8")], hint=f"file {path}") from wrong


def _misfits(plan: Plan, settings: runtime.Runtime, desk: Tracker) -> Iterator[Problem]:
    """Words that the tracker could not keep, coders that nobody knows, directories that are not there."""
    there: dict[str, bool] = {}
    for task in plan.tasks:
        try:
            desk.check(task.new)
            must_be_known(settings, task.spec)
            if task.spec.onto is not None and Path(task.spec.cwd).is_dir():
                must_be_a_branch(task.spec)
        except (BadConfig, NotFound) as misfit:
            yield problem(task.line, misfit.message)
        cwd = task.spec.cwd
        if cwd not in there:
            there[cwd] = Path(cwd).is_dir()
        if not there[cwd]:
            yield problem(task.line, f"the directory {clean(cwd)} does not exist")


def _unknown(plan: Plan, desk: Tracker) -> Iterator[Problem]:
    """What tasks wait for that is neither in the plan nor in the queue, which is asked once, and only if it must be."""
    keys = dict.fromkeys(task.key for task in plan.tasks)
    outside = [(task, name) for task in plan.tasks for name in task.new.after if name not in keys]
    known = {task.id for task in desk.all()} if outside else set()
    missing = [(task, name) for task, name in outside if name not in known]
    for n, (task, name) in enumerate(missing):
        near = nearest(name, keys) if n < MANY else ""
        yield problem(task.line, f"it waits for {clean(name, 80)!r}, which is no task of this file or the queue{near}")


def _waits_for_itself(circle: list[Planned]) -> Problem:
    first, *others = map(_name, [*circle, circle[0]])
    return problem(circle[0].line, f"{first} waits for itself: {first} after {' after '.join(others)}")


def _name(task: Planned) -> str:
    return f"line {task.line}" if task.key.startswith("#") else task.key


def _stopped(checked: Checked, ids: dict[str, str], problem: BaseException) -> FleetError:
    """What was added, what was not and why, and the file to go on with."""
    why = problem.message if isinstance(problem, FleetError) else str(problem) or "stopped by hand"
    rest = checked.ordered[len(ids) :]
    said = f"{why}\n{len(ids)} of {len(checked.ordered)} tasks were added{_listed(list(ids.values()))}"
    if not rest:
        return FleetError(said, hint="fleet tasks")
    said += f"\nthe next was {_name(rest[0])}, {clean(rest[0].new.title, 80)!r}; look whether it is there: fleet tasks"
    path = checked.home / f"plan-{time.time_ns()}.json"
    try:
        files.write(path, json.dumps([_said(task, ids) for task in rest], indent=2).encode(), files.PRIVATE)
    except OSError as full:
        return FleetError(f"{said}\nthe others could not be kept in {path}: {full.strerror}", hint="fleet tasks")
    return FleetError(said, hint=f"add the others, which are kept in a file: fleet add --file {path}")


def _listed(ids: list[str]) -> str:
    shown = ids if len(ids) <= SHOWN else [*ids[: SHOWN - 1], "…", ids[-1]]
    return f": {', '.join(shown)}" if ids else ""


def _said(task: Planned, ids: dict[str, str]) -> dict[str, object]:
    """A task as a file says it, waiting for the ids that others got meanwhile."""
    words = {"title": task.new.title, "description": task.new.description, "priority": task.new.priority}
    after = [ids.get(name, name) for name in task.new.after]
    told = {name: value for name, value in asdict(task.spec).items() if name in NAMES}
    return {"id": task.key, **words, "after": after, **told}

"""Many tasks in one text: what each asks for, what it waits for, and in which order they can be added. It is all pure.

A text says of each task what `fleet add` says by its options. What it does not say comes from the defaults it is read
with. Reading never fails: what is wrong is among the plan's problems, each with its line, all of them at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from fleet.config import units
from fleet.config.problems import MANY, Place, Problem
from fleet.core import BadConfig
from fleet.core.task import NewTask, Spec
from fleet.core.text import clean, nearest
from fleet.tracker import spec as specs

WORDS = ("id", "title", "description", "priority", "after")
# An interactive task is begun by a person in a terminal, and what is checked out fleet sees for itself.
NOT_TOLD = ("interactive", "checked_out")
TOLD = tuple(name for name in specs.NAMES if name not in NOT_TOLD)
NAMES = (*WORDS, *TOLD)
SUFFIXES = {".md": "md", ".markdown": "md", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
UNITS: dict[str, Callable[[str], float]] = {
    "timeout": units.seconds,
    "output": units.size,
    "silence": partial(units.switchable, "silence"),
    "tokens": lambda text: int(units.switchable("tokens", text)),
    "cost": partial(units.switchable, "cost"),
}
COUNTS = ("attempts", "files", "deletions")
KEY = re.compile(r"#?\w[\w.-]{0,99}\Z")
JSON = re.compile(r"\s*(\{|\[\s*[{\]])")
MOST = 10_000
MOST_AFTER = 1_000


@dataclass(slots=True)
class Entry:
    """What a text says of one task, by the names of NAMES, before any of it is looked at."""

    line: int
    said: dict[str, object]
    done: bool = False
    parent: int | None = None


@dataclass(slots=True)
class Found:
    """What a text holds: its entries, and what could not be read at all."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, line: int, message: str) -> None:
        self.problems.append(problem(line, message))


@dataclass(frozen=True, slots=True)
class Planned:
    """A task that is not in the tracker yet. It waits for keys of its plan, and for ids of tasks that are there."""

    key: str
    line: int
    new: NewTask
    spec: Spec


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a text in its order, the lines of those that are done already, and everything that is wrong."""

    tasks: tuple[Planned, ...]
    done: tuple[int, ...]
    problems: tuple[Problem, ...]


class Circle(Exception):
    """Tasks of which each waits for the next, and the last for the first."""

    def __init__(self, tasks: list[Planned]) -> None:
        self.tasks = tasks


def problem(line: int, message: str) -> Problem:
    return Problem(Place(line, 1), (), message)


def read(text: str, form: str, new: NewTask, spec: Spec) -> Plan:
    """The plan of a text, `md` or `json`; `new` and `spec` say what a task does not say itself."""
    if form == "json":
        from fleet.tracker.objects import find
    else:
        from fleet.tracker.markdown import find
    return build(find(text), new, spec)


def form_of(suffix: str, text: str) -> str:
    """Which format a file has: by its suffix, or else by how it begins."""
    return SUFFIXES.get(suffix.lower()) or ("json" if JSON.match(text) else "md")


def build(found: Found, new: NewTask, spec: Spec) -> Plan:
    """Entries as tasks: each with a key, its own values or the defaults, and everything it waits for."""
    entries, problems = found.entries, list(found.problems)
    if len(entries) > MOST:
        too_many = problem(entries[MOST].line, f"there are more than {MOST:,} tasks in it; make several files of it")
        return Plan((), (), (*problems, too_many))
    keys = [_key(entry, n, problems) for n, entry in enumerate(entries)]
    problems += _twice(entries, keys)
    waits = _waits(entries, keys, problems)
    built: list[Planned] = []
    for n, entry in enumerate(entries):
        priority, base = _passed_on(None if entry.parent is None else built[entry.parent], new, spec)
        words = _new(entry, waits[n], priority, problems)
        built.append(Planned(keys[n], entry.line, words, _spec(entry, base, problems)))
    tasks = tuple(task for task, entry in zip(built, entries, strict=True) if not entry.done)
    return Plan(tasks, tuple(entry.line for entry in entries if entry.done), tuple(problems))


def _passed_on(around: Planned | None, new: NewTask, spec: Spec) -> tuple[int, Spec]:
    """What a task has that does not say so: how urgent, where and by whom is as with the task around it."""
    if around is None:
        return new.priority, spec
    return around.new.priority, replace(spec, cwd=around.spec.cwd, coder=around.spec.coder, model=around.spec.model)


def order(tasks: Sequence[Planned]) -> list[Planned]:
    """The tasks so that each comes after those it waits for, and otherwise as they stand. Circle if that cannot be."""
    sorter = TopologicalSorter(_graph(tasks))
    try:
        sorter.prepare()
    except CycleError as found:
        path = found.args[1][:0:-1]  # each waits for the next
        first = path.index(min(path))
        raise Circle([tasks[n] for n in path[first:] + path[:first]]) from found
    free: list[int] = []
    ordered: list[Planned] = []
    while sorter.is_active():
        for n in sorter.get_ready():
            heappush(free, n)
        ordered.append(tasks[free[0]])
        sorter.done(heappop(free))
    return ordered


def _graph(tasks: Sequence[Planned]) -> dict[int, list[int]]:
    place: dict[str, int] = {}
    for n, task in enumerate(tasks):
        place.setdefault(task.key, n)
    return {n: [place[name] for name in task.new.after if name in place] for n, task in enumerate(tasks)}


def _key(entry: Entry, n: int, problems: list[Problem]) -> str:
    """The name of a task in its plan; one without an id is called by its number."""
    given = entry.said.get("id")
    if given is None:
        return f"#{n + 1}"
    if not isinstance(given, str) or not KEY.match(given):
        said = clean(str(given), 80)
        problems.append(problem(entry.line, f"id must be a word of letters, digits, '.', '_' and '-', not {said!r}"))
        return f"#{n + 1}"
    return given


def _twice(entries: Sequence[Entry], keys: Sequence[str]) -> list[Problem]:
    first: dict[str, int] = {}
    for entry, key in zip(entries, keys, strict=True):
        first.setdefault(key, entry.line)
    seen: set[str] = set()
    found = []
    for entry, key in zip(entries, keys, strict=True):
        if key in seen:
            found.append(problem(entry.line, f"id {key} is given twice; first in line {first[key]}"))
        seen.add(key)
    return found


def _waits(entries: Sequence[Entry], keys: Sequence[str], problems: list[Problem]) -> list[tuple[str, ...]]:
    """What each entry waits for: what it says, what those around it say, and what is nested in it. Done is done."""
    place = {key: n for n, key in enumerate(keys)}
    waits = [[] if entry.done else _after(entry, problems) for entry in entries]
    outer: list[list[str]] = []  # what an entry says for those nested in it too
    for n, entry in enumerate(entries):
        own = [name for name in waits[n] if n not in _around(entries, place.get(name))]
        above = outer[entry.parent] if entry.parent is not None else []
        outer.append(above + own)
        waits[n] = waits[n] + above
    for n, entry in enumerate(entries):
        open_above = [m for m in _around(entries, n) if not entries[m].done]
        if open_above and not entry.done:
            waits[open_above[0]].append(keys[n])
    over = {keys[n] for n, entry in enumerate(entries) if entry.done}
    return [tuple(dict.fromkeys(name for name in names if name not in over)) for names in waits]


def _around(entries: Sequence[Entry], n: int | None) -> list[int]:
    """The entries that one is nested in, the nearest first."""
    found = []
    while n is not None and (n := entries[n].parent) is not None:
        found.append(n)
    return found


def _after(entry: Entry, problems: list[Problem]) -> list[str]:
    given = entry.said.get("after")
    names = [given] if isinstance(given, str) else given
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        problems.append(problem(entry.line, f"after must name tasks, not {clean(repr(given), 80)}"))
        return []
    return names


def _new(entry: Entry, after: tuple[str, ...], usual: int, problems: list[Problem]) -> NewTask:
    """The words of a task. Which of them a tracker can keep is for the tracker to say."""
    told = {}
    for name in ("title", "description"):
        value = entry.said.get(name)
        if value is not None and not isinstance(value, str):
            problems.append(problem(entry.line, f"{name} must be text, not {clean(repr(value), 80)}"))
        told[name] = value if isinstance(value, str) else ""
    priority = _number(entry.said.get("priority"))
    if priority is not None and (not isinstance(priority, int) or isinstance(priority, bool)):
        problems.append(problem(entry.line, f"priority must be 0 (most urgent) to 4, not {clean(repr(priority), 80)}"))
        priority = None
    if len(after) > MOST_AFTER:
        problems.append(problem(entry.line, f"it waits for {len(after):,} tasks; {MOST_AFTER:,} are the most"))
    return NewTask(told["title"], told["description"], usual if priority is None else priority, after)


def _spec(entry: Entry, spec: Spec, problems: list[Problem]) -> Spec:
    """How a task is to be worked on, by the same rules as its task.json."""
    told: dict[str, object] = {}
    for name in TOLD:
        value = entry.said.get(name)
        if value is None:
            continue
        try:
            told[name] = _fitting(name, value, spec)
        except (ValueError, OverflowError) as misfit:
            problems.append(problem(entry.line, f"{name} {misfit}"))
        except BadConfig as misfit:
            problems.append(problem(entry.line, misfit.message.removeprefix("plan: ")))
    return replace(spec, **told)  # type: ignore[arg-type]


def _fitting(name: str, value: object, spec: Spec) -> object:
    if name in UNITS and isinstance(value, str):
        value = UNITS[name](value)
    elif name in COUNTS:
        value = _number(value)
    elif name == "cwd" and isinstance(value, str):
        value = os.path.join(spec.cwd, os.path.expanduser(value))
    return getattr(specs.parse({"cwd": spec.cwd, name: value}, "plan"), name)


def _number(value: object) -> object:
    """A whole number that is written as text, as Markdown has nothing else."""
    return int(value) if isinstance(value, str) and re.match(r"[0-9]{1,9}\Z", value) else value


def unknown(name: str, known: Sequence[str], so_far: Sequence[Problem]) -> str:
    """What is said of a name that no task has."""
    near = nearest(name, known) if len(so_far) < MANY else ""
    return f"{clean(name, 80)} is nothing that a task can say{near}; there are {', '.join(known)}"

"""`fleet bd`: bd in the home, and a record of where each task that it creates is to be worked on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fleet.app.home import ensure_home, settings_path, wake
from fleet.core import BadConfig, FleetError, ToolMissing
from fleet.core.task import Spec
from fleet.core.text import clean, nearest
from fleet.host import machine, run
from fleet.tracker import arguments, beads, envelope, reserve, spec

if TYPE_CHECKING:
    from fleet.config.runtime import Runtime

ELSEWHERE = ("BEADS_DB", "BD_DB", "BEADS_DIR")  # these would lead bd away from the home


@dataclass(frozen=True, slots=True)
class Made:
    """What a `create` printed and made: the ids with their titles. A code other than 0 is bd's refusal."""

    code: int
    out: bytes
    tasks: tuple[tuple[str, str], ...]
    spec: Spec
    options: frozenset[str]

    @property
    def complaint(self) -> str:
        return envelope.complaint(self.out, b"") if self.code and self.out.strip() else ""


def call(args: Sequence[str], cwd: Path) -> Made:
    """Become bd, for good; only a `create` comes back, once what it made is recorded."""
    create = arguments.read_create(args)
    if create is None:
        _become(args)
    how = overrides(create, cwd)
    if create.makes_nothing:
        _become(create.argv())
    return _create(create, how, _home())


def settings() -> Runtime:
    from fleet.config import runtime

    return runtime.read(settings_path())


def overrides(create: arguments.Create, cwd: Path) -> Spec:
    """How the new task is to be worked on; refused before bd is called, so that nothing half-made is left."""
    if (create.coder is None) != (create.model is None):
        raise BadConfig("--coder and --model belong together: give both, or neither to inherit the defaults")
    if create.coder is not None and not (now := settings()).knows(create.coder):
        known = now.known_coders
        near = nearest(create.coder, known)
        raise BadConfig(f"there is no coder {clean(create.coder)!r}{near}; there are {', '.join(known)}")
    found = {"cwd": str(cwd), "coder": create.coder, "model": create.model}
    return spec.parse(found, "fleet bd create")


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The caller's own environment, turned to the home; what bd would ask or send is answered unless the caller did."""
    env = {name: value for name, value in given.items() if name not in ELSEWHERE}
    number = int(count) if (count := env.get("GIT_CONFIG_COUNT", "")).isdecimal() else 0
    env |= {f"GIT_CONFIG_KEY_{number}": "beads.role", f"GIT_CONFIG_VALUE_{number}": "maintainer"}
    env |= {"GIT_CONFIG_COUNT": str(number + 1), "BEADS_DIR": str(home / ".beads")}
    env.setdefault("BD_DISABLE_METRICS", "1")
    return env


def _home() -> Path:
    home = ensure_home()
    if machine.program(beads.PROGRAM) is None:
        raise _no_bd()
    beads.check_home(home)
    return home


def _become(args: Sequence[str]) -> NoReturn:
    home = _home() if arguments.needs_home(args) else ensure_home()
    try:
        run.become([beads.PROGRAM, *args], cwd=home, env=environment(home, os.environ))
    except ToolMissing as problem:
        raise _no_bd() from problem


def _create(create: arguments.Create, how: Spec, home: Path) -> Made:
    """Call bd with an id whose record is already written, where the id is ours to choose, and record the rest after."""
    named = _reserve(home, how) if create.may_be_named else None
    added = [f"--id={named}", "--force"] if named else []
    try:
        ran = _hear([beads.PROGRAM, *create.argv("--json", *added)], home)
    except FleetError:
        _give_back(home, named)
        raise
    tasks = _made(ran) if ran.code == 0 else ()
    if ran.code > 0 or (tasks and named not in dict(tasks)):
        _give_back(home, named)  # one that was killed may have made the task all the same
    for task, _ in tasks:
        if task != named:
            spec.write(home, task, how)
    wake(home)
    return Made(ran.code, ran.out, tasks, how, create.options)


def _hear(argv: list[str], home: Path) -> run.Ran:
    env = environment(home, os.environ) | {"BD_JSON_ENVELOPE": "1"}
    try:
        return run.hear(argv, cwd=home, env=env)
    except ToolMissing as problem:
        raise _no_bd() from problem


def _made(ran: run.Ran) -> tuple[tuple[str, str], ...]:
    found = envelope.data(ran.out)
    titles = {issue.task.id: issue.task.title for issue in envelope.issues(found)}
    made = tuple((task, titles.get(task, "")) for task in envelope.ids(found))
    if not made:
        said = clean(ran.out.decode(errors="replace"), 200)
        raise FleetError(f"bd create did not say what it made: {said!r}", hint="fleet bd list")
    return made


def _reserve(home: Path, how: Spec) -> str:
    task = reserve.reserve(home, beads.new_ids(time.time()))
    spec.write(home, task, how)
    return task


def _give_back(home: Path, task: str | None) -> None:
    if task is not None:
        reserve.give_back(home, task)


def _no_bd() -> ToolMissing:
    return ToolMissing("bd (beads) is not installed", hint=beads.GET_BD)

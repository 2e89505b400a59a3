"""Files of ours in someone's directory: what is there, what may be replaced, and the writing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.assist.base import File
from fleet.core import FleetError
from fleet.host import files


class State(StrEnum):
    """What is found where a file of ours would go."""

    ABSENT = "absent"
    SAME = "same"
    DIFFERS = "differs"
    """Something that --force may replace: a file with other content, or a link, which is never followed."""
    BLOCKED = "blocked"
    """Nothing can be written there: a directory is in the way, or a parent is no directory or leads elsewhere."""


class Result(StrEnum):
    WRITTEN = "written"
    SAME = "same"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Found:
    path: str
    state: State
    why: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    path: str
    result: Result


def install(root: Path, wanted: Sequence[File], *, force: bool) -> tuple[Installed, ...]:
    """Write every file, or none when one of them is refused."""
    found = look(root, wanted)
    refuse(root, found, force=force)
    return tuple(_put(root, file, seen.state) for file, seen in zip(wanted, found, strict=True))


def look(root: Path, wanted: Iterable[File]) -> tuple[Found, ...]:
    return tuple(_look(root, file) for file in wanted)


def refuse(root: Path, found: Sequence[Found], *, force: bool) -> None:
    """Raise one error that names every file that must not be written."""
    stuck = [seen for seen in found if seen.state is State.BLOCKED]
    kept = [seen for seen in found if seen.state is State.DIFFERS and not force]
    if not stuck and not kept:
        return
    lines = ["nothing was written, because:", *(f"  {root / seen.path}: {seen.why}" for seen in (*stuck, *kept))]
    hint = "move away what is in the way" if stuck else "look at them, then run it again with --force to replace them"
    raise FleetError("\n".join(lines), hint)


def _look(root: Path, file: File) -> Found:
    path = root / file.path
    if trouble := _parent_trouble(root, path.parent):
        return Found(file.path, State.BLOCKED, trouble)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return Found(file.path, State.ABSENT)
    except OSError as problem:
        return Found(file.path, State.BLOCKED, problem.strerror or str(problem))
    return _compare(path, mode, file)


def _compare(path: Path, mode: int, file: File) -> Found:
    if stat.S_ISLNK(mode):
        return Found(file.path, State.DIFFERS, "is a link")
    if not stat.S_ISREG(mode):
        return Found(file.path, State.BLOCKED, "is not a file")
    try:
        same = files.read(path) == file.content
    except OSError as problem:
        return Found(file.path, State.DIFFERS, f"cannot be read ({problem.strerror})")
    return Found(file.path, State.SAME) if same else Found(file.path, State.DIFFERS, "exists and differs")


def _parent_trouble(root: Path, parent: Path) -> str:
    """Why nothing may be written into a directory below the root; empty when it may."""
    steps = [step for step in (parent, *parent.parents) if step.is_relative_to(root)]
    for step in reversed(steps):
        if os.path.lexists(step) and not os.path.isdir(step):
            return f"{step} is not a directory"
    if not Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(root)):
        return f"its directory leads outside {root}"
    return ""


def _put(root: Path, file: File, state: State) -> Installed:
    if state is State.SAME:
        return Installed(file.path, Result.SAME)
    try:
        files.write(root / file.path, file.content)
    except OSError as problem:
        what = f"cannot write {root / file.path}: {problem.strerror}"
        raise FleetError(what, "mend that, then run it again") from problem
    return Installed(file.path, Result.WRITTEN if state is State.ABSENT else Result.REPLACED)

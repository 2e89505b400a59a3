"""Whether a check failed because it could not even start: purely, from what it printed and what is there.

A check cannot start when its program is no path of the repository, or its runner's own module is not installed. What
the task could create, such as ./build.sh or a package that is not written yet, is merely red.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from fleet.core.frozen import dataclass

NOT_FOUND_EXIT = 127  # of a shell; a runner such as make says that number and exits with another
NOT_FOUND = r"(?:command )?not found|No such file or directory"
SHELL_LINE = re.compile(
    rf"^(?:[\w./-]*\b(?:da|ba|z|k|a)?sh|make(?:\[\d+\])?|env): (?:line )?(?:\d+: )?'?([^\s:']+)'?: (?:{NOT_FOUND})\.?$",
    re.MULTILINE,
)
FAILED_BELOW = re.compile(r"\bError 127\b|\bcode 127\b|\bexit status 127\b")
MODULE_LINE = re.compile(r"^(\S*python[\d.]*): No module named ([A-Za-z_]\w*)$", re.MULTILINE)
RUNNER_MODULES = {
    "behave", "black", "coverage", "flake8", "isort", "mypy", "nose2", "nox", "pre_commit", "pylint", "pyright",
    "pytest", "ruff", "stestr", "tox", "ward",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Missing:
    """What a check wanted to run and did not find: a program, or a module of an interpreter."""

    name: str
    interpreter: str = ""  # that was to run the module; empty: it is a program


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of that name in the repository and in the project's own working tree."""

    is_in_tree: bool = False  # what the check ran on has it, or a file of that name
    is_ignored: bool = False  # git ignores its path
    need: str = ""  # what would have to be lent, so that it is there
    is_lent: bool = False
    is_there: bool = False  # whether the project's own working tree has what would have to be lent
    lender: str = ""  # a directory there that has a program of this name, and that git ignores


def missing(code: int | None, output: str) -> Missing | None:
    """What a failed check did not find, by its exit and the end of what it printed."""
    module = MODULE_LINE.search(output)
    if module is not None and code:
        return Missing(module[2], module[1])
    if code != NOT_FOUND_EXIT and not FAILED_BELOW.search(output):
        return None
    named = SHELL_LINE.findall(output)
    return Missing(named[-1]) if named else None


def obstacle(found: Missing, around: Surroundings, *, task: str, project: str) -> str:
    """Why a check cannot start, and what to do about it; empty when the task could mend it: then it is merely red."""
    if around.is_in_tree or not _is_outside(found, around):
        return ""
    again = f"then: fleet retry {task}"
    if found.interpreter:
        why = f"{PurePosixPath(found.interpreter).name} has no module {found.name}"
        ways = _ways(found, around, task) or f"Install it for {found.interpreter}, {again}"
    elif around.is_ignored:
        why = f"{found.name} is ignored by git"
        ways = _lend(around, task, f"{project}/{around.need}", again)
    else:
        why = f"{found.name} is not on PATH" if "/" not in found.name else f"there is no {found.name}"
        ways = _ways(found, around, task) or f"Install it, {again}"
    return f"{why}. {ways}"


def _is_outside(found: Missing, around: Surroundings) -> bool:
    """Whether nothing that the task could commit would be what is missing."""
    if found.interpreter:
        return found.name in RUNNER_MODULES
    return around.is_ignored or "/" not in found.name or found.name.startswith("/")


def _lend(around: Surroundings, task: str, source: str, again: str) -> str:
    match around.is_there, around.is_lent:
        case True, False:
            return f"Lend it: {_edit(task, around.need)}"
        case True, True:
            return f"What is lent, {source}, cannot run it: mend that, {again}"
        case _, True:
            return f"Make {source} first, {again}"
        case _:
            return f"Make {source} first, then lend it: {_edit(task, around.need)}"


def _ways(found: Missing, around: Surroundings, task: str) -> str:
    """What would bring a program that stands in a directory of the project's, which git ignores."""
    if not around.lender:
        return ""
    if around.lender.endswith("node_modules"):  # npm finds what is in there by itself
        return f"Lend {around.lender}: {_edit(task, around.lender)}"
    python = f"{around.lender}/bin/python -m {found.name}" if found.interpreter else f"{around.lender}/bin/{found.name}"
    return f"{around.lender} has it; run {python}: {_edit(task, around.lender)} --check {shlex.quote(python)}"


def _edit(task: str, need: str) -> str:
    return f"fleet edit {task} --needs {shlex.quote(need)}"


def need_for(path: str, ignored: Sequence[str], tracked: Sequence[str]) -> str:
    """The directory to lend so that an ignored path is there: the highest one that has nothing of git's in it."""
    steps = PurePosixPath(path).parts
    for count in range(1, len(steps) + 1):
        above = "/".join(steps[:count])
        if not any(name == above or name.startswith(f"{above}/") for name in tracked):
            return above
    return ignored[0] if ignored else path

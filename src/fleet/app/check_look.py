"""What can be seen of a check as its task is added: nothing is run, and what is not sure is not said."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

FIRST_WORD = re.compile(r"\s*(?:[A-Za-z_]\w*=[\w./:-]*\s+)*([\w./+@-]+)(?=\s|$)")
SHELL_WORDS = {
    ".", ":", "case", "cd", "command", "eval", "exec", "exit", "export", "for", "if", "set", "source", "time", "trap",
    "ulimit", "umask", "until", "wait", "while",
}  # fmt: skip


def doubt_about(command: str, cwd: Path, needs: Sequence[str], task: str) -> str:
    """Why a check could not start in a clean checkout, by its first word; empty when nothing speaks against it."""
    found = FIRST_WORD.match(command)
    if found is None:
        return ""
    program = found[1]
    if "/" not in program:
        return "" if program in SHELL_WORDS or _is_on_path(program) else f"{program} is not on PATH here"
    return "" if program.startswith("/") else _ignored(program, cwd, needs, task)


def _is_on_path(program: str) -> bool:
    return any(os.access(os.path.join(one, program), os.X_OK) for one in os.get_exec_path())


def _ignored(program: str, cwd: Path, needs: Sequence[str], task: str) -> str:
    """Why a path of the project will not be there: git ignores it, and it is not lent."""
    from fleet.host import git, machine  # what nobody pays for whose check is a program on PATH

    here = cwd.resolve()
    path, repository = Path(os.path.normpath(here / program)), git.find(here)
    top = repository.top if repository is not None else None
    if top is None or not path.exists() or not path.is_relative_to(top):
        return ""
    inside = PurePosixPath(path.relative_to(top))
    if any(inside.is_relative_to(need) for need in needs) or not machine.is_ignored_by_git(path):
        return ""
    above = [one for one in reversed(inside.parents) if one.name]
    need = next((one for one in above if not machine.is_tracked_by_git(top / one)), inside)
    return f"{program} is ignored by git, so a clean checkout is without it. Lend it: fleet edit {task} --needs {need}"

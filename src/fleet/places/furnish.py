"""What a place gets before an agent begins: files that git does not have, variables, and the set-up commands."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.template import fill
from fleet.core.text import clean
from fleet.core.workspace import Workspace
from fleet.host import files, git, inside, process
from fleet.host.shell import TOO_LONG, Ended, shell
from fleet.places import record, unstaged

MARK = "FLEET_SETUP"
LAST_LINES = 15
LARGEST = 64 * 1024 * 1024
EDIT = "mend `workspace` in the project's fleet.yaml"
PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]*\Z")
NO_SINGLE = re.compile(r"['\\\n\r]")
NO_DOUBLE = re.compile(r"[\"\\$`\n\r]")


@dataclass(frozen=True, slots=True)
class Furnished:
    """What was put into a place. The variables are for its agent too."""

    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    commands: int = 0
    skipped: int = 0
    seconds: float = field(default=0.0, compare=False)  # that the commands took


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    content: bytes
    mode: int


def furnish(
    place: Path,
    project: Path,
    workspace: Workspace,
    values: Mapping[str, str],
    *,
    environment: Mapping[str, str],
    quick: bool,
    log: Path,
    hear: Callable[[str], None],
) -> Furnished:
    """Copy the credential files, write the variables, run the set-up commands; the first that fails is a FleetError.

    May be done again in the same place. In the project itself, nothing is copied or written.
    """
    if workspace.setup:
        end_setup(place)
    env = {name: fill(text, values) for name, text in workspace.env.items()}
    found, warnings = ([], []) if place.samefile(project) else _collect(project, workspace, env)
    written, named = _put(place, found)
    commands = () if quick or workspace.quick else workspace.setup
    marks = {MARK: str(place)}
    began = time.monotonic()
    if commands:
        _run(commands, workspace.setup_timeout, place, dict(environment) | env, marks, log, hear)
    return Furnished(
        env, tuple(written), (*warnings, *named), len(commands), len(workspace.setup) - len(commands),
        time.monotonic() - began,
    )  # fmt: skip


def end_setup(place: Path) -> int:
    """End what set-up commands of a place still run, when whoever started them is gone; how many processes."""
    return process.sweep({MARK: str(place)})


def _collect(project: Path, workspace: Workspace, env: Mapping[str, str]) -> tuple[list[_File], list[str]]:
    """Everything that goes into the place, read before anything is written there."""
    found, warnings = {}, []
    for path in workspace.credential_files:
        file = _source(project, path)
        if file is None:
            warnings.append(f"there is no {path} in {project}, so it was not copied")
        else:
            found[path] = file
    if workspace.env_file and env:
        before = found.get(workspace.env_file)
        found[workspace.env_file] = _variables(workspace.env_file, env, before)
    return list(found.values()), warnings


def _source(project: Path, path: str) -> _File | None:
    """A file of the project; None when it is not there. Links are followed only as long as they stay in the project."""
    top = project.resolve()
    real = Path(os.path.realpath(top / path))
    steps = real.relative_to(top).parts if real.is_relative_to(top) else (".git",)
    if ".git" in (step.lower() for step in steps):
        raise FleetError(f"{clean(path)} leads out of the project, to {real}; it was not copied", hint=EDIT)
    try:
        facts = real.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise FleetError(f"{clean(path)} is a directory, and only files are copied", hint=EDIT)
        content = files.read(real, limit=LARGEST)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise FleetError(f"{real} cannot be copied: {problem.strerror}", hint=EDIT) from None
    return None if content is None else _File(path, content, stat.S_IMODE(facts.st_mode) & 0o777)


def _variables(path: str, env: Mapping[str, str], before: _File | None) -> _File:
    """The variables as a dotenv file; after what stood in a credential file of the same name, so that they win."""
    start = before.content if before else b""
    if start and not start.endswith(b"\n"):
        start += b"\n"
    return _File(
        path, start + "".join(f"{name}={quoted(name, value)}\n" for name, value in env.items()).encode(), 0o600
    )


def quoted(name: str, value: str) -> str:
    """A value as a shell and every reader of dotenv files understand it alike; FleetError when there is no such way."""
    if PLAIN.match(value):
        return value
    if not NO_SINGLE.search(value):
        return f"'{value}'"
    if not NO_DOUBLE.search(value):
        return f'"{value}"'
    raise FleetError(
        f"{name} is {clean(value)!r}, which readers of dotenv files do not agree about",
        hint="use {slug} in place of {branch}, or leave env_file out: agents get the variable anyway",
    )


def _put(place: Path, found: Sequence[_File]) -> tuple[list[str], list[str]]:
    """Write the files that git does not have in the place; their paths, and what is to be said of the others."""
    repository = git.find(place)
    kept: set[str] = set()
    if found and repository is not None:
        paths = [file.path for file in found]
        kept = unstaged.tracked(place, paths)
        unstaged.keep_out(repository, place, [path for path in paths if path not in kept])
    record.furnish(place, [file.path for file in found if file.path not in kept])
    for file in found:
        if file.path not in kept:
            _write(place, file)
    named = [f"{path} is in git, so the place has it as it was committed" for path in sorted(kept)]
    return [file.path for file in found if file.path not in kept], named


def _write(place: Path, file: _File) -> None:
    try:
        inside.write(place, file.path, file.content, file.mode)
    except OSError as problem:
        said = f"{clean(file.path)} cannot be written into {place}: {problem.strerror}"
        raise FleetError(said, hint=EDIT) from None


def _run(
    commands: Sequence[str],
    timeout: float,
    place: Path,
    env: Mapping[str, str],
    marks: Mapping[str, str],
    log: Path,
    hear: Callable[[str], None],
) -> None:
    files.private_dir(log.parent)
    files.write(log, b"", files.PRIVATE)
    deadline = time.monotonic() + timeout
    for command in commands:
        last: list[str] = []

        def keep(line: bytes, last: list[str] = last) -> None:
            text = clean(line.decode(errors="replace").rstrip(), 2000)
            last[:] = [*last[1 - LAST_LINES :], text]
            hear(text)

        _note(log, f"$ {command}")
        ended = shell(command, cwd=place, env=env, marks=marks, log=log, deadline=deadline, hear=keep)
        _note(log, f"[{_how(ended, timeout)} after {ended.seconds:.1f} s]")
        if ended.code != 0:
            said = f"the set-up command `{clean(command)}` failed: {_how(ended, timeout)}"
            raise FleetError(
                "\n  ".join([said, *last]),
                hint=f"all it printed is in {log}; mend `setup` in fleet.yaml, or leave set-up out with --quick",
            )


def _how(ended: Ended, timeout: float) -> str:
    if ended.code is None:
        said = f" (setup_timeout is {timeout:g} s for all of them)" if ended.reason == TOO_LONG else ""
        return f"{ended.reason}{said}"
    return f"exit code {ended.code}" if ended.code >= 0 else f"ended by signal {-ended.code}"


def _note(log: Path, line: str) -> None:
    with log.open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")

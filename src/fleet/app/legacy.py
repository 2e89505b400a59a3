"""The settings of ai-fleet, which `fleet init --migrate-legacy` reads and never changes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.config import toml
from fleet.config.problems import Document, InvalidFile
from fleet.config.schema import TasksFile
from fleet.config.shape import fill
from fleet.core import BadConfig, NotFound
from fleet.core.text import clean
from fleet.host import files

OF_MACHINE = ".ai_fleet/config.toml"
OF_PROJECT = ".aifleet/config.toml"
SECTIONS = ("project", "agent", "setup")
# Both shapes: flat, and in the three sections; what a key is called there, and here.
SAME = {
    "worktree_root": "worktree_root",
    "tmux_prefix": "tmux_prefix",
    "branch_prefix": "branch_prefix",
    "default_agent": "agent",
    "agent.default": "agent",
    "credential_files": "credential_files",
    "setup_commands": "setup",
    "setup.commands": "setup",
    "quick_setup": "quick",
}
NAMES = {"codecs": "codex"}
LARGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Legacy:
    """What the old files say, as it is written in fleet.yaml, and what could not be taken over, with the reason."""

    files: tuple[Path, ...]
    workspace: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    left: tuple[str, ...] = ()


def read(home: Path, project: Path) -> Legacy:
    """Both files, the project's over the machine's; NotFound without either, and InvalidFile for one that is broken."""
    paths = (home / OF_MACHINE, project / OF_PROJECT)
    found = {path: table for path in paths if (table := _table(path)) is not None}
    if not found:
        raise NotFound(f"there is neither {paths[0]} nor {paths[1]}", hint="fleet init makes a fleet.yaml without them")
    workspace: dict[str, object] = {}
    left: list[str] = []
    name = None
    for path, table in found.items():
        for key, value in _flat(table):
            if key in ("name", "project.name") and isinstance(value, str):
                name = value
                continue
            why = _carry(_plain(key), value, workspace, project)
            if why:
                left.append(f"{path}: {clean(key)} {why}")
    return Legacy(tuple(found), workspace, name, tuple(left))


def _table(path: Path) -> dict[str, object] | None:
    try:
        content = files.read(path, follow=True, limit=LARGEST)
        text = None if content is None else content.decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadConfig(f"{path} cannot be read: {problem}") from None
    if text is None:
        return None
    document = toml.parse(text)
    if document.problems:
        raise InvalidFile(path, document.problems, hint="mend the line, or move the file away; it is only read")
    return toml.table(text)


def _flat(table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if key in SECTIONS and isinstance(value, dict):
            yield from ((f"{key}.{inner}", item) for inner, item in value.items())
        else:
            yield key, value


def _plain(key: str) -> str:
    """The name of a key whichever section it stands in."""
    return key if key in SAME else key.rpartition(".")[2]


def _carry(key: str, value: object, workspace: dict[str, object], project: Path) -> str:
    """Take one key over; why it cannot be, or nothing."""
    if key == "repo_root":
        same = isinstance(value, str) and Path(value).expanduser().resolve() == project.resolve()
        return "" if same else f"is {value!r}, and fleet.yaml stands in the project itself; run this there"
    if key.endswith("_flags") and isinstance(value, str):
        return _flags(key.removesuffix("_flags"), value, workspace)
    if key not in SAME:
        return "is not known"
    here = SAME[key]
    if isinstance(value, list):
        return _each(here, value, workspace)
    fresh = NAMES.get(value, value) if here == "agent" and isinstance(value, str) else value
    why = _misfit({here: fresh})
    if not why:
        workspace[here] = fresh
    return why


def _flags(coder: str, value: str, workspace: dict[str, object]) -> str:
    try:
        words = shlex.split(value)
    except ValueError as problem:
        return f"is not a line of words: {problem}"
    flags = {NAMES.get(coder, coder): words}
    why = _misfit({"flags": flags})
    if not why and words:
        before = workspace.get("flags")
        workspace["flags"] = (before if isinstance(before, dict) else {}) | flags
    return why


def _each(key: str, value: list[object], workspace: dict[str, object]) -> str:
    """Take over what fits of a list."""
    wrong = {str(item): why for item in value if (why := _misfit({key: [item]}))}
    kept = [item for item in value if str(item) not in wrong]
    if kept:
        workspace[key] = kept
    return "; ".join(f"{clean(item)!r} {why}" for item, why in wrong.items())


def _misfit(part: Mapping[str, object]) -> str:
    document = Document({"workspace": dict(part)})
    fill(TasksFile, document)
    return "; ".join(problem.message.partition(" ")[2] for problem in document.problems)

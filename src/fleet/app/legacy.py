"""The settings of ai-fleet, which `fleet init --migrate-legacy` reads and never changes; and what else of programs
that came before fleet is found unread.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.app.home import SETTINGS
from fleet.config import runtime, toml
from fleet.config.limits import candidates
from fleet.config.problems import Document, InvalidFile
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
BEADS = ".beads"
MIGRATE = "fleet init --migrate-legacy"


@dataclass(frozen=True, slots=True)
class Legacy:
    """What the old files say, as it is written in fleet.yaml, and what could not be taken over, with the reason."""

    files: tuple[Path, ...]
    workspace: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """Something of a program that came before fleet, which nothing reads, and the command that takes it over."""

    finding: str
    remedy: str


def unread(cwd: Path) -> Unread | None:
    """The settings of ai-fleet for the project of a directory, unless its fleet.yaml says all of them."""
    places = list(candidates(cwd))
    top = places[-1].parent
    if not os.path.lexists(top / OF_PROJECT) and not os.path.lexists(Path.home() / OF_MACHINE):
        return None
    try:
        old = read(Path.home(), top)
    except NotFound:
        return None
    except BadConfig as problem:
        return Unread(problem.message, f"mend or remove it, then: {MIGRATE}")
    yaml = next((path for path in places if os.path.lexists(path)), None)
    if yaml is not None and not lacking(old, yaml):
        return None
    named = " and ".join(map(str, old.files))
    what = "nothing reads it" if yaml is None else f"{yaml.name} does not say all of it"
    return Unread(f"settings of ai-fleet are in {named}, and {what}", MIGRATE)


def unread_queue(home: Path) -> Unread | None:
    """A queue of beads in a home whose settings never said which tracker is used: that was fleet with beads."""
    path = home / SETTINGS
    try:
        says = "tracker" in toml.table(runtime.read_text(path) or "")
    except (BadConfig, ValueError):
        return None
    if says or not (home / BEADS).is_dir():
        return None
    finding = f"{home / BEADS} is a queue of beads, and nothing reads it: the tracker is local, as by default"
    return Unread(finding, "fleet init --home-only --tracker beads")


def lacking(old: Legacy, fleet_yaml: Path) -> dict[str, object]:
    """What of the old settings the workspace of a fleet.yaml does not say."""
    says = settings_of(fleet_yaml)
    return {key: value for key, value in old.workspace.items() if says.get(key) != value}


def settings_of(path: Path) -> dict[str, object]:
    """What the workspace of a fleet.yaml says, as it is written there; nothing when it cannot be read."""
    from fleet.config.document import parse
    from fleet.config.fleet_yaml import text_of

    value = parse(text_of(path)).value
    said = value.get("workspace") if isinstance(value, dict) else None
    return said if isinstance(said, dict) else {}


def read(home: Path, project: Path) -> Legacy:
    """Both files, the project's over the machine's; NotFound without either, and InvalidFile for one that is broken.

    A file of the machine that is about another repository is left out whole.
    """
    paths = (home / OF_MACHINE, project / OF_PROJECT)
    found = {path: table for path in paths if (table := _table(path)) is not None}
    if not found:
        raise NotFound(f"there is neither {paths[0]} nor {paths[1]}", hint="fleet init makes a fleet.yaml without them")
    left: list[str] = []
    elsewhere = _elsewhere(found.get(paths[0], {}), project)
    if elsewhere:
        del found[paths[0]]
        left.append(
            f"{paths[0]}: repo_root is {clean(elsewhere)}, another repository, so nothing of it is for this one"
        )
    if not found:
        raise NotFound(f"nothing was taken over: {left[0]}", hint=f"cd {clean(elsewhere)} && {MIGRATE}")
    workspace: dict[str, object] = {}
    name = None
    for path, table in found.items():
        for key, value in _flat(table):
            if key in ("name", "project.name") and isinstance(value, str):
                name = value
                continue
            why = _carry(_plain(key), value, workspace)
            if why:
                left.append(f"{path}: {clean(key)} {why}")
    return Legacy(tuple(found), workspace, name, tuple(left))


def _elsewhere(table: Mapping[str, object], project: Path) -> str:
    """The repository that the settings of the machine are about, when it is another one than the project's."""
    root = dict(_flat(table)).get("repo_root")
    if not isinstance(root, str) or project.resolve().is_relative_to(Path(root).expanduser().resolve()):
        return ""
    return root


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


def _carry(key: str, value: object, workspace: dict[str, object]) -> str:
    """Take one key over; why it cannot be, or nothing."""
    if key == "repo_root":
        return ""
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
    from fleet.config.schema import TasksFile  # what nobody pays for who never used ai-fleet

    document = Document({"workspace": dict(part)})
    fill(TasksFile, document)
    return "; ".join(problem.message.partition(" ")[2] for problem in document.problems)

"""What a test can reach of the real parts: those that its markers name, and no others.

The cache of parts, the cache of LiteLLM and the search path of a test run are directories of ours with nothing but
links in them. Before a test (and all that it uses) is set up, they get the links that its markers ask for, and lose the
rest: a test that uses a part and does not say so fails everywhere, not only on a machine without that part.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import parts
from fleet.gateway import environment
from fleet.host import tmux

SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin")
PROGRAMS = frozenset(
    ("tmux", "bd", "claude", "codex", "opencode", "gemini", "qwen", "claude-agent-acp", "aider", "ollama", "litellm")
)


@dataclass(frozen=True)
class Need:
    """What a marker asks for, and how to get it."""

    is_there: Callable[[], bool]
    install: str
    parts: tuple[str, ...] = ()


def _parts(*names: str, takes: str = "") -> Need:
    install = f"python tools/parts.py install {' '.join(names)}{takes}"
    return Need(lambda: all(parts.find(name).present for name in names), install, names)


MINUTES = "  (builds for several minutes)"
NEEDS = {
    "litellm": Need(lambda: environment.installed() is not None, "make test installs it"),
    "more_agents": _parts("more-agents"),
    "agents": _parts("agents"),
    "aider": _parts("aider"),
    "ollama": _parts("ollama", "smollm2", takes=MINUTES),
    "tmux": Need(lambda: tmux.version() is not None, tmux.INSTALL),
    "bd": _parts("bd", takes=MINUTES),
}


LONG = "long"
SLOW = {LONG} | {name for name, need in NEEDS.items() if any(parts.find(part).slow for part in need.parts)}


class Reach:
    """The directories of links, and which of them are there now."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._links = {marker: dict(self._links_of(marker)) for marker in NEEDS}
        for place in ("parts", "cache/fleet", "bin", "system"):
            (root / place).mkdir(parents=True)
        for name, program in _system_programs().items():
            (root / "system" / name).symlink_to(program)

    def enter(self) -> None:
        """Let this process, and all that it starts, find parts and programs here alone."""
        os.environ["FLEET_PARTS"] = str(self._root / "parts")
        os.environ["XDG_CACHE_HOME"] = str(self._root / "cache")
        os.environ["PATH"] = f"{self._root / 'bin'}:{self._root / 'system'}"
        os.environ["PIP_NO_INDEX"] = "1"  # and what is not there is not fetched either

    def show(self, markers: Collection[str]) -> None:
        wanted = {link: to for marker in markers for link, to in self._links.get(marker, {}).items()}
        for link in {link for links in self._links.values() for link in links}:
            if link not in wanted:
                link.unlink(missing_ok=True)
        for link, to in wanted.items():
            with suppress(FileExistsError):
                link.symlink_to(to)

    def _links_of(self, marker: str) -> Iterator[tuple[Path, Path]]:
        for part in parts.wanted(list(NEEDS[marker].parts)):
            yield self._root / "parts" / part.home.name, part.home
        if marker == "litellm":
            yield self._root / "cache/fleet" / environment.directory().name, environment.directory()
        if marker == "tmux" and (program := shutil.which("tmux")):
            yield self._root / "bin/tmux", Path(program)


def _system_programs() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in map(Path, SYSTEM):
        for program in directory.iterdir() if directory.is_dir() else ():
            if program.name not in PROGRAMS:
                found.setdefault(program.name, program)
    return found

"""Which coders there are, what is known of each, and whether one keeps its promise."""

from __future__ import annotations

import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fleet import coders
from fleet.app.doctor import PROGRAMS
from fleet.app.home import settings_path
from fleet.coders import conformance
from fleet.coders.known import declared
from fleet.config import runtime
from fleet.config.runtime import Runtime
from fleet.core import FleetError, NotFound, ToolMissing
from fleet.core.text import clean
from fleet.host import files, machine
from fleet.host.run import run
from fleet.supervisor.choice import choose

SECONDS = 20.0  # for a program to tell its version
LONGEST = 64 * 1024  # bytes of what it says
LARGEST = 64 * 1024 * 1024  # bytes of a transcript
VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
INSTALL = {name: how for name, (_, how) in PROGRAMS.items()} | {"agy": "the Antigravity CLI, from Google"}


@dataclass(frozen=True, slots=True)
class Listed:
    """One coder as it would be used now. What is None is not known; `problem` says why nothing is."""

    name: str
    origin: str  # built in, declared, installed
    package: str | None = None  # that brings it
    program: str | None = None
    path: str | None = None
    version: str | None = None
    install: str | None = None  # how to get the program, where it is not there
    argv: tuple[str, ...] | None = None
    context_limit: int | None = None
    can: coders.Can | None = None
    unproven: str = ""
    default: bool = False
    problem: str | None = None


def listing() -> list[Listed]:
    """Every coder; the programs are asked for their versions all at once. One that is broken breaks no other."""
    settings = runtime.read(settings_path())
    own, guests = declared(settings), coders.installed()
    names = [*coders.OURS, *(name for name in sorted({*own, *guests}) if name not in coders.OURS)]
    with tempfile.TemporaryDirectory(prefix="fleet-coders-") as scratch, ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(lambda name: _listed(name, settings, Path(scratch)), names))


def _listed(name: str, settings: Runtime, scratch: Path) -> Listed:
    own, guests = declared(settings), coders.installed()
    origin = "declared" if name in own else "built in" if name in coders.OURS else "installed"
    package = guests[name].package if origin == "installed" else None
    default = name == settings.coder
    try:
        coder = coders.find(name, own)
        argv = coder.command(_job(name, settings)).argv
    except FleetError as problem:
        return Listed(name, origin, package, default=default, problem=problem.message)
    path = machine.program(coder.program)
    return Listed(
        name, origin, package, coder.program, path,
        version=_version(path, scratch / name) if path else None,
        install=None if path else INSTALL.get(name),
        argv=argv,
        context_limit=coder.context_limit,
        can=coder.can,
        unproven=coder.unproven,
        default=default,
    )  # fmt: skip


def _job(name: str, settings: Runtime) -> coders.Job:
    """A task that names neither coder nor model, as far as it can be known before there is one."""
    part = settings.coders.get(name)
    model = choose(None, name, settings).model
    return coders.Job("the task", Path.cwd(), model, args=tuple(part.args) if part else ())


def _version(program: str, scratch: Path) -> str | None:
    """What a program says of its version, asked in a place and a home of its own, with nothing of ours in its hands."""
    scratch.mkdir()
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(scratch), "TERM": "dumb", "NO_COLOR": "1"}
    try:
        said = run([program, "--version"], cwd=scratch, env=env, timeout=SECONDS, limit=LONGEST)
    except ToolMissing:
        return None
    if said.code != 0 or said.timed_out:
        return None
    text = (said.out.strip() or said.err.strip()).decode(errors="replace")
    found = VERSION.search(text)
    return found[0] if found else clean(text.partition("\n")[0], 40) or None


def check(name: str, transcript: Path | None) -> list[conformance.Check]:
    """Whether a coder keeps its promise; one that cannot even be made keeps none."""
    lines = None if transcript is None else _read(transcript)
    return conformance.examine(coders.find(name, declared(runtime.read(settings_path())), bare=True), lines)


def _read(path: Path) -> bytes:
    content = files.read(path, follow=True, limit=LARGEST)
    if content is None:
        raise NotFound(f"there is no transcript {path}")
    return content

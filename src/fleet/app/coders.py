"""Which coders there are, what is known of each, and whether one keeps its promise."""

from __future__ import annotations

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
from fleet.core import FleetError, NotFound
from fleet.host import files, machine
from fleet.host.program import version
from fleet.supervisor.choice import choose

LARGEST = 64 * 1024 * 1024  # bytes of a transcript
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
        version=version(path, scratch / name) if path else None,
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


def check(name: str, transcript: Path | None) -> list[conformance.Check]:
    """Whether a coder keeps its promise; one that cannot even be made keeps none."""
    lines = None if transcript is None else _read(transcript)
    return conformance.examine(coders.find(name, declared(runtime.read(settings_path())), bare=True), lines)


def _read(path: Path) -> bytes:
    content = files.read(path, follow=True, limit=LARGEST)
    if content is None:
        raise NotFound(f"there is no transcript {path}")
    return content

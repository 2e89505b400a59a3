"""The packages that fleet needs, as they are installed, held against the ranges that it was tested with."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata, util

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from fleet import DISTRIBUTION

MAX_TEXT = 1000  # characters of a library's own words
ENGINE = "fleet.engine.durable"
IMPORT_NAMES = {"pyyaml": "yaml", "agent-client-protocol": "acp"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A package that is missing, or whose version is outside the range that fleet was tested with."""

    name: str
    known: str
    installed: str | None

    def __str__(self) -> str:
        found = f"{self.name} {self.installed} is installed" if self.installed else f"{self.name} is not installed"
        return f"{found}; known to work: {self.known or 'any version'}"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What is installed of the packages that fleet needs, and what is wrong with it."""

    installed: Mapping[str, str | None]
    faults: tuple[Fault, ...]
    oldest: Mapping[str, str]  # that is known to work
    command: Callable[[Iterable[Fault]], str]  # that brings the right versions

    @property
    def repair(self) -> str | None:
        return self.command(self.faults) if self.faults else None


def find_faults(requirements: Iterable[str], installed: Mapping[str, str | None]) -> list[Fault]:
    """The requirements that apply here and that the installed versions do not meet."""
    faults = []
    for text in requirements:
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        version = installed.get(needed.name)
        if version is None or not _is_within(needed, version):
            known = ",".join(sorted(map(str, needed.specifier), reverse=True))
            faults.append(Fault(needed.name, known, version))
    return faults


def _is_within(needed: Requirement, version: str) -> bool:
    try:
        return needed.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def repair_command(faults: Iterable[Fault], installer: str, python: str) -> str:
    """The command that brings the right versions into the environment of this Python."""
    wanted = [f"{fault.name}{fault.known}" for fault in faults]
    uv = ["uv", "pip", "install", "--python", python]
    return shlex.join([*(uv if installer == "uv" else [python, "-m", "pip", "install"]), *wanted])


def check_dependencies() -> Dependencies | None:
    """The packages as they are installed now; None where no installed distribution says what fleet needs."""
    try:
        own = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    requirements = own.requires or []
    installed = {name: _installed_version(name) for name in (Requirement(text).name for text in requirements)}
    faults = tuple(find_faults(requirements, installed))
    installer = (own.read_text("INSTALLER") or "").strip()
    if util.find_spec("pip") is None:
        installer = "uv"
    oldest = {need.name: bound.version for need in map(Requirement, requirements) for bound in need.specifier
              if bound.operator == ">="}  # fmt: skip
    return Dependencies(installed, faults, oldest, partial(repair_command, installer=installer, python=sys.executable))


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def explain_failure(problem: Exception) -> str:
    """What failed, in its own words; and which package may be the cause, with the versions that are known to work."""
    said = f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:MAX_TEXT]
    try:
        found = check_dependencies()
        suspect = find_suspect(problem, found) if found is not None else None
    except Exception:  # what failed first is what counts
        return said
    if found is not None and found.faults:
        return f"{'; '.join(map(str, found.faults))}: {found.repair} (what failed: {said})"
    return f"{said} ({suspect})" if suspect else said


def find_suspect(problem: Exception, found: Dependencies) -> str | None:
    """The package in which it happened, when that is newer than the oldest that is known to work."""
    frames = traceback.walk_tb(problem.__traceback__)
    names = {getattr(problem, "name", None), *(frame.f_globals.get("__name__") for frame, _ in frames)}
    modules = {str(name).partition(".")[0] for name in names if name}
    if ENGINE in names:
        modules.add("dbos")
    for name in [name for name in found.installed if import_name(name) in modules]:
        version, oldest = found.installed[name], found.oldest.get(name)
        if version and oldest and Version(version) > Version(oldest):
            fault = Fault(name, f"=={oldest}", version)
            return f"it happened with {name} {version}; {oldest} is known to work: {found.command([fault])}"
    return None


def import_name(distribution: str) -> str:
    return IMPORT_NAMES.get(distribution, distribution.replace("-", "_"))

"""The packages that fleet needs, as they are installed, held against the ranges that it was tested with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata, util

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from fleet import DISTRIBUTION

MAX_TEXT = 1000  # characters of a library's own words


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
    repair: str | None = None  # the command that brings the right versions


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
    return Dependencies(installed, faults, repair_command(faults, installer, sys.executable) if faults else None)


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def explain_failure(problem: Exception) -> str:
    """What failed, in its own words; and the packages outside their known ranges, which may be the cause."""
    said = f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:MAX_TEXT]
    try:
        found = check_dependencies()
    except Exception:  # what failed first is what counts
        return said
    if found is None or not found.faults:
        return said
    return f"{'; '.join(map(str, found.faults))}: {found.repair} (what failed: {said})"

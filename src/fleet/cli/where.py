"""A project, seen from where its user stands: paths and next commands that work from here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.core import FleetError

TAKES_OPTIONS = re.compile(r"\bfleet (?:generate|gateway (?:up|down|status|logs))\b")


@dataclass(frozen=True, slots=True)
class Where:
    """The fleet file of a project, and the directory that its files are generated in."""

    config: Path
    out: Path

    @property
    def is_here(self) -> bool:
        return _same(self.out, Path.cwd())

    def path(self, name: str = "") -> str:
        """A file of the project, as it is reached from here."""
        return _near(self.out / name, Path.cwd())

    def command(self, text: str, at: Path | None = None) -> str:
        """The commands in a text, with the options that they need here, or at another directory."""
        options = _options(self.config, self.out, at or Path.cwd())
        return TAKES_OPTIONS.sub(lambda found: found[0] + options, text)

    @contextmanager
    def hints(self) -> Iterator[None]:
        """See to it that the next command that an error names works from here."""
        try:
            yield
        except FleetError as problem:
            problem.hint = problem.hint and self.command(problem.hint)
            raise


def _options(config: Path, out: Path, here: Path) -> str:
    from fleet.config.limits import candidates

    found = next((path for path in candidates(here.absolute()) if os.path.lexists(path)), None)
    named = "" if found and _same(found, config) else f" --config {shlex.quote(_near(config, here))}"
    return named if _same(out, config.parent) else f"{named} --out {shlex.quote(_near(out, here))}"


def _near(path: Path, here: Path) -> str:
    """A path as seen from a directory, or from the root where that is shorter."""
    whole = os.path.abspath(path)
    return min(os.path.relpath(whole, os.path.abspath(here)), whole, key=len)


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)

"""What other packages in our own environment offer by name: entry points, as their metadata states them.

Looking costs a read of every installed package's metadata, and runs none of their code; loading one does.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from fleet.core.frozen import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CODERS = "fleet.coders"  # the group of those who bring coders


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that a package offers, and that package with its version, as far as it says."""

    name: str
    package: str
    point: EntryPoint

    def load(self) -> object:
        """The thing itself. This runs the package's code, which may raise anything at all."""
        return self.point.load()


def offers(group: str) -> dict[str, Offer]:
    """All that is offered in a group. Of two with one name the first counts, as on any search path.

    A package whose metadata cannot be read offers nothing; it keeps no other from offering.
    """
    metadata = import_module("importlib.metadata")  # takes as long to load as all of our own
    found: dict[str, Offer] = {}
    for package in metadata.distributions():
        with suppress(Exception):  # whatever its installer wrote there
            for point in package.entry_points.select(group=group):
                found.setdefault(point.name, Offer(point.name, f"{package.name} {package.version}", point))
    return found

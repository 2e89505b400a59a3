"""Where git keeps what belongs to a place, and where its results are kept: by what fleet knows, not by what it says."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.core.work import PlaceKind
from fleet.host import git, repository
from fleet.host.git import Repository
from fleet.places import clone, record
from fleet.places.base import Place
from fleet.places.paths import Project, origin, project


@dataclass(frozen=True, slots=True)
class Ground:
    """A place in a repository. What comes of it is kept in the main one, whose working tree is nobody's place, unless
    the place is that very tree.
    """

    repository: Repository
    main: Path  # where the main repository keeps its things
    top: Path  # of its working tree
    furnished: tuple[str, ...] = ()  # files that fleet put into the place, which must never get into git

    @property
    def is_apart(self) -> bool:
        """Whether the place has objects of its own."""
        return self.repository.common.resolve() != self.main.resolve()

    @property
    def stores(self) -> tuple[str, ...]:
        """Where git keeps what belongs to it, with every link followed."""
        both = (self.repository.common.resolve(), self.main.resolve())
        return tuple(dict.fromkeys(sayable(str(one)) for one in both))


def ground(place: Place, stores: Collection[str] = ()) -> Ground | None:
    """None when the place is in no repository. Of one whose stores are known, no others are taken for them."""
    place.must_be_itself()
    found = _ground(place)
    if found is not None and stores and not set(found.stores) <= set(stores):
        raise FleetError(
            "its repository is another one than it began in",
            hint=f"git -C {shlex.quote(clean(str(place.path)))} rev-parse --git-common-dir",
        )
    return found


def _ground(place: Place) -> Ground | None:
    if place.kind is not PlaceKind.INPLACE:
        main = origin(place)
        return Ground(repository_of(main, place), main.common, main.top, record.furnished(place.path))
    found = git.find(place.path.resolve())
    if found is None:
        return None
    _must_be_one(found)
    known = project(found.top)
    return Ground(found, found.common, known.top if known is not None else found.top)


def repository_of(project: Project, place: Place) -> Repository:
    """Where git keeps what belongs to a place. What the place itself says of that, an agent may have changed."""
    if place.kind is PlaceKind.WORKTREE:
        for own, where, _ in repository.linked(project.common):
            if where == place.path:
                return Repository(place.path, own, project.common)
    found = git.find(place.path)
    if found is not None and found.top == place.path and found.own == place.path / ".git":
        if place.kind is not PlaceKind.WORKTREE:
            return found
    elif place.kind is PlaceKind.INPLACE and found is not None:
        return found
    return Repository(place.path, place.path / ".git/gone", project.common)  # there is none: every file is a new one


def _must_be_one(found: Repository) -> None:
    """Refuse a `.git` file that leads to what is no repository: an agent can write such a file, and we would write
    there in its stead, also where it is kept from itself.
    """
    leads_away = found.own != found.top / ".git"
    if leads_away and not ((found.own / "HEAD").is_file() and (found.common / "objects").is_dir()):
        raise FleetError(
            f"{clean(str(found.top / '.git'))} leads to {clean(str(found.own))}, which is no repository",
            hint=f"git -C {shlex.quote(clean(str(found.top)))} status",
        )


def bring(place: Place, commit: str, ref: str) -> None:
    """Copy a commit of a clone into the main repository, under a ref there."""
    clone.fetch(origin(place), place.path, {commit: ref})

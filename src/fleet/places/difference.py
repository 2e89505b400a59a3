"""What a place has against its base: commits, what is not committed, and new files, in one diff."""

from __future__ import annotations

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import git, repository
from fleet.places.base import Place
from fleet.places.paths import Project

LOOK = ("diff", "--cached", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


def difference(place: Place, *, stat: bool = False) -> bytes:
    """The diff from the base to what stands in the place now. Nothing that stands there is run."""
    found = git.find(place.path)
    if found is None or place.base is None:
        raise FleetError(f"{clean(str(place.path))} is in no git repository, so there is nothing to compare with")
    with repository.workshop(found) as shop:
        _take_in(shop)
        form = ("--stat=100",) if stat else ("--patch",)
        done = shop.ask(*LOOK, *form, place.base, "--", tree=True)
    if done.code:
        raise repository.refused(done, f"{place.path} cannot be compared with {place.base}")
    return done.out


def _take_in(shop: repository.Workshop) -> None:
    """Add what changed to our copy of the index; a repository inside is left as the index has it."""
    changed = sorted({one.path for one in shop.entries() if one.changed and not one.is_repository})
    done = shop.ask("update-index", "--add", "--remove", "-z", "--stdin", stdin=b"\0".join([*changed, b""]), tree=True)
    if done.code:
        raise repository.refused(done, f"{shop.top} cannot be read")


def branch_difference(project: Project, base: str, tip: str, *, stat: bool = False) -> bytes:
    """The diff between two commits of the main repository, for a place that is gone."""
    with repository.workshop(git.Repository(project.top, project.common, project.common)) as shop:
        form = ("--stat=100",) if stat else ("--patch",)
        done = shop.ask("diff", *LOOK[2:], *form, base, tip, "--")
    if done.code:
        raise repository.refused(done, f"{tip} cannot be compared with {base}")
    return done.out


def is_merged(project: Project, tip: str) -> bool:
    """Whether what the main repository stands on, or a branch that it follows, has a commit in it already."""
    done = repository.ask(project.common, "merge-base", "--is-ancestor", tip, "HEAD")
    return done.code == 0


def tip_of(place: Place) -> str | None:
    """The commit that a place stands on; of its branch when its directory is gone."""
    found = git.find(place.path) if place.path.is_dir() else None
    return git.head(found).commit if found is not None and found.top == place.path else None

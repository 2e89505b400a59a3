"""Where a task is worked on: one place for all of its attempts, because a session goes on only where it began."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from fleet import places
from fleet.config.workspace import project_workspace
from fleet.core import FleetError, template
from fleet.core.frozen import dataclass
from fleet.core.task import Spec
from fleet.core.text import clean
from fleet.core.work import Attempt, PlaceKind
from fleet.core.workspace import Workspace
from fleet.host import git, repository
from fleet.places import Place, Project, ports
from fleet.places.furnish import Furnished, furnish
from fleet.supervisor.environment import agent_environment, told
from fleet.supervisor.house import House

BRANCH = "fleet/"
REPLACED = "refs/fleet/replaced/"  # the branch of an attempt, before one began anew

SETUP_LOG = "setup.log"


class Slow(Exception):
    """Set-up commands are to be run, which may take minutes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A place, and the directory in it that an agent begins in."""

    place: Place
    cwd: Path
    workspace: Workspace | None = None
    is_new: bool = field(default=False, compare=False)  # made just now: what stands there is what its commit has


@dataclass(frozen=True, slots=True)
class Around:
    """What a task's own directory is: where its agents could work, and how its project wants that."""

    spec: Spec
    here: Place
    workspace: Workspace | None
    kind: PlaceKind
    project: Project | None  # the repository; None outside of git


def look_around(spec: Spec) -> Around:
    cwd = Path(spec.cwd)
    here, workspace = places.prepare(cwd), project_workspace(cwd)
    kind = choose_kind(spec, workspace, can_branch=here.base is not None)
    return Around(spec, here, workspace, kind, places.project(cwd))


def choose_kind(spec: Spec, workspace: Workspace | None, *, can_branch: bool) -> PlaceKind:
    """Task, then project; a project that says nothing wants worktrees, and one without a fleet.yaml none.

    What the project wants is left where it cannot be: outside a repository, or before its first commit.
    """
    if spec.place is not None:
        return PlaceKind(spec.place)
    if workspace is None or not can_branch:
        return PlaceKind.INPLACE
    return workspace.place


def settle_in(
    home: Path,
    task: str,
    around: Around,
    tell: Callable[[str], None] = lambda line: None,
    *,
    base: str | None = None,
    attempt: str = "",
    instead_of: str = "",
) -> Placed:
    """The place of a task, made if it is not there: on a branch of its own, from the base, or else from what the
    directory stands on. `instead_of`: an earlier attempt, whose place is saved and removed first.
    """
    cwd, here, kind, project = Path(around.spec.cwd), around.here, around.kind, around.project
    if kind is PlaceKind.INPLACE:
        return Placed(here, cwd)
    workspace, found = around.workspace, git.find(cwd.resolve())
    if project is None or found is None:
        raise FleetError(
            f"the task's directory {clean(str(cwd))} is in no git repository, so it cannot have a {kind}",
            hint="fleet add --place inplace …",
        )
    asked = workspace.worktree_root if workspace else None
    branch = f"{BRANCH}{task}"
    path = places.path_for(places.root_for(home, project, asked), branch)
    if instead_of:
        put_away(project, branch, path, attempt, instead_of, tell)
    is_new = not os.path.lexists(path)
    place = places.make(kind, project, branch, base or here.base, path, tell, attempt=attempt)
    inside = place.path / cwd.resolve().relative_to(found.top)
    if not inside.resolve().is_relative_to(place.path.resolve()):  # an earlier attempt can have put a link there
        raise FleetError(
            f"{clean(str(inside))} leads out of the place of {task}",
            hint=f"look at it, and remove the link: ls -la {clean(str(inside.parent))}",
        )
    inside.mkdir(parents=True, exist_ok=True)
    return Placed(place, inside, workspace or Workspace(), is_new)


def put_away(
    project: Project, branch: str, path: Path, attempt: str, earlier: str, tell: Callable[[str], None]
) -> None:
    """Save what an earlier attempt left, and remove its place and its branch, for an attempt that begins anew. What was
    committed stays under a ref of that attempt.
    """
    from fleet.places import salvage  # what nobody pays for whose tasks are not opened again

    said = places.record.read(path)
    if said is not None and said.attempt == attempt:
        return  # it is ours already: this was done, and cut off later
    places.must_be_free(project, branch, path)
    if said is not None:
        place = said.place(path)
        saved = salvage.save(place, earlier) if path.is_dir() else None
        if saved is not None:
            tell(f"what stood in the place of {earlier}, is saved: fleet salvage show {saved.name}")
        places.remove(place, saved)
    tip = repository.ref(project.common, f"refs/heads/{branch}")
    if tip is not None:
        repository.make_way(project.common, f"{REPLACED}{earlier}")
        lines = f"update {REPLACED}{earlier} {tip}\ndelete refs/heads/{branch} {tip}\n"
        repository.do(
            project.common, "update-ref", "--stdin", stdin=lines.encode(), what=f"{branch} cannot be made anew"
        )


def place_of(attempt: Attempt) -> Place | None:
    """The place of an attempt that has one of its own; what is known of it goes before what the attempt says, but for
    the repository: what stands above may be anybody's.
    """
    if attempt.place is PlaceKind.INPLACE or not attempt.cwd:
        return None
    for path in (Path(attempt.cwd), *Path(attempt.cwd).parents):
        said = places.record.read(path) if path.name else None
        if said is not None and said.repository == attempt.repository:
            return said.place(path)
    return None


def furnished(
    house: House,
    attempt: Attempt,
    place: Place,
    workspace: Workspace,
    *,
    quick: bool = False,
    hear: Callable[[str], None] = lambda line: None,
) -> Furnished:
    """Put into a place what its project wants there. May be done again."""
    wants_port = template.wants_port(workspace.env.values())
    values = template.values(
        branch=place.branch or "", attempt=attempt.id, task=attempt.task, path=str(place.path),
        port=ports.take(house.home, attempt.id) if wants_port else None,
    )  # fmt: skip
    return furnish(
        place.path, place.repository or place.path, workspace, values, quick=quick, hear=hear,
        environment=agent_environment(house.environment, (), {}, told(house, attempt)),
        log=house.attempt_directory(attempt) / SETUP_LOG,
    )  # fmt: skip

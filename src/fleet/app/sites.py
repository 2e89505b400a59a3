"""Where somebody stands, and whom they mean: the project of a directory, and its agents by their names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from getpass import getuser
from pathlib import Path

from fleet import places, tracker
from fleet.app.home import SETTINGS, ensure_home
from fleet.batches.site import Site
from fleet.coders.known import find_coder
from fleet.config.runtime import Live
from fleet.config.workspace import project_workspace
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.task import task_id
from fleet.core.text import clean, nearest
from fleet.core.work import Attempt
from fleet.core.workspace import Workspace
from fleet.evidence.ledger import Ledger
from fleet.sessions import Server
from fleet.supervisor.house import House
from fleet.supervisor.log import Log


def open_site(cwd: Path | None = None, *, to_create: bool = False) -> Site:
    """The project that somebody stands in, from anywhere in it."""
    here = (cwd or Path()).absolute()
    project = places.project(here)
    if project is None:
        raise NotFound(f"{here} is not in a git repository", hint="cd to your project, or: git init")
    return site_of(open_house(), project, to_create=to_create)


def open_site_of(name: str) -> Site:
    """The project of the agent that a name means: where somebody stands; else the one of a task's or an attempt's id,
    which says it all.
    """
    project = places.project(Path().absolute())
    house = open_house()
    site = None if project is None else site_of(house, project)
    if site is not None and _named(site.attempts(), name, site.workspace.branch_prefix):
        return site
    top = _directory_of(house, name)
    if top is not None:
        return site_of(house, project_of(top))
    return site or open_site()


def _directory_of(house: House, name: str) -> Path | None:
    """Where the task or the attempt of this id is worked on, or will be."""
    attempt = next(iter(house.ledger.of(name)[-1:]), None) or house.ledger.find(name)
    if attempt is not None and (attempt.repository or attempt.cwd):
        return Path(attempt.repository or attempt.cwd)
    with suppress(FleetError):  # no task of this home has such an id
        return Path(tracker.spec.read(house.home, task_id(name)).cwd)
    return None


def every_site() -> list[Site]:
    """Every project that has an agent somebody talks to."""
    house = open_house()
    tops = dict.fromkeys(one.repository for one in house.ledger.talked_to())
    return [site_of(house, project_of(Path(top))) for top in tops]


def project_of(top: Path) -> places.Project:
    """The project that an attempt was begun in, also when it is gone: agents outlive it."""
    return places.project(top) or places.Project(top, top / ".git")


def open_house() -> House:
    home = ensure_home()
    settings = Live(home / SETTINGS)
    desk = tracker.open(home, settings.runtime.tracker)
    return House(home, desk, Ledger(home), settings, find_coder, Log(home), f"person-{getuser()}")


def site_of(house: House, project: places.Project, *, to_create: bool = False) -> Site:
    """A project as it wants its places; for agents that are there already a broken fleet.yaml is no obstacle."""
    try:
        workspace = project_workspace(project.top) or Workspace()
    except BadConfig:
        if to_create:
            raise
        workspace = Workspace()
    return Site(house, project, workspace, Server(house.home, project.top))


def find(site: Site, pattern: str, *, batch: bool = False) -> list[Attempt]:
    """The attempts that a branch, a glob, an attempt's or a task's id, or a batch names. None is an error."""
    known = site.attempts()
    prefix = site.workspace.branch_prefix
    if batch:
        found = [one for one in known if one.batch and fnmatchcase(one.batch, pattern)]
        names = [one.batch for one in known if one.batch]
    else:
        found = _named(known, pattern, prefix)
        names = [one.branch or "" for one in known]
    if not found:
        what = "no batch is called" if batch else "there is no agent on"
        raise NotFound(f"{what} {clean(pattern)}{nearest(pattern, names)}", hint="fleet list")
    return sorted(found, key=lambda one: one.created)


def _named(known: Sequence[Attempt], name: str, prefix: str) -> list[Attempt]:
    """A branch by its whole name goes before everything else, then the id of an attempt or a task, then a pattern."""
    for means in (
        lambda one: one.branch == name,
        lambda one: one.branch == prefix + name,
        lambda one: name in (one.id, one.task),
        lambda one: fnmatchcase(one.branch, name) or fnmatchcase(one.branch, prefix + name),
    ):
        if found := [one for one in known if one.branch and means(one)]:
            return found
    return []


def find_one(site: Site, name: str) -> Attempt:
    found = find(site, name)
    if len(found) > 1:
        raise BadConfig(
            f"{clean(name)} names {len(found)} agents: {', '.join(one.branch or '' for one in found[:5])} …",
            hint="name one branch",
        )
    return found[0]


def find_any(site: Site, name: str) -> Attempt:
    """The attempt of a branch, a task or an attempt's id: one that somebody talks to, or the newest that there was."""
    try:
        return find_one(site, name)
    except NotFound as nobody:
        ledger = site.house.ledger
        over = [one for one in ledger.last_of_each().values() if name in (one.task, one.id)]
        over = over or [
            one
            for one in ledger.last_of_each().values()
            if one.branch in (name, site.workspace.branch_prefix + name) and one.repository == str(site.project.top)
        ]
        if not over:
            raise nobody
        return max(over, key=lambda one: one.created)

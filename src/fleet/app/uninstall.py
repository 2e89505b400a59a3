"""Leaving: what fleet made on this machine, what of it may go, and taking that away.

Nothing goes that is nowhere else: a branch or a result goes when a branch that stays has its commits, a place after it
was saved, the home when it holds no task and no settings. With `everything` the rest goes too, as it was listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fleet import keeper, places
from fleet.app import files as generated
from fleet.app import run
from fleet.app.agents import NotEnded, kill
from fleet.app.home import SETTINGS
from fleet.app.places import known_projects, place_roots, remove_place, with_attempts
from fleet.app.several import abort_all
from fleet.app.sites import every_site
from fleet.app.tasks import Desk
from fleet.config.starter import starter
from fleet.core import FleetError
from fleet.core.errors import of_system
from fleet.core.frozen import dataclass
from fleet.core.work import Attempt, PlaceKind
from fleet.evidence.tree import FOUND, LANDING
from fleet.gateway import run as gateway
from fleet.host import files, locks, repository
from fleet.host.repository.finish import LANDED_REFS
from fleet.host.repository.move import checked_out
from fleet.landing.record import Landings, LandingState
from fleet.places import Place, Project, salvage
from fleet.results import BASE
from fleet.supervisor.choice import LOCK, attempt_directory
from fleet.supervisor.place import BRANCH, REPLACED, place_of

BRANCHES, REMOTES = "refs/heads/", "refs/remotes/"
SCHEMA = "fleet.schema.json"
# What fleet writes into its home. Whatever else stands there is somebody else's, and stays, with the directory.
HOME_ENTRIES = (
    "fleet.db*", ".beads", ".beads.gate.lock", "supervisor.json", "wake", "secrets", "logging", "gateway", "programs",
    "plan-*.json", "tasks", "checkouts", "runtime.*", "*.lock",
)  # fmt: skip


Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that fleet made, whether it goes, and why or why not."""

    kind: str  # supervisor, agent, gateway, place, branch, ref, salvage, file, cache, home
    name: str
    goes: bool
    why: str
    repository: str = ""
    commit: str = ""  # what a branch or a ref is at: one that has moved since it was listed is left alone

    @property
    def key(self) -> Key:
        return self.kind, self.repository, self.name, self.commit


@dataclass(frozen=True, slots=True)
class Gone:
    """What became of one thing that was to go; `note` says what is kept of it."""

    item: Item
    note: str = ""
    problem: FleetError | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """What is known of a branch that an attempt worked on."""

    is_ours: bool  # fleet made it, with the attempt
    ahead: int  # commits that no branch has that fleet did not make, and no remote one
    checked_out: str = ""  # in this working tree, which stays


def judge_branch(branch: Branch, *, everything: bool) -> tuple[bool, str]:
    """Whether a branch goes, and why: pure."""
    if branch.checked_out:
        return False, f"it is checked out in {branch.checked_out}"
    if not branch.is_ours:
        return False, "it may have been there before fleet was"
    if not branch.ahead:
        return True, "other branches have all of it"
    return everything, f"{branch.ahead} commit{'' if branch.ahead == 1 else 's'} that no other branch has"


Made = Mapping[tuple[Path, str], bool]  # branches of attempts, by repository and name: whether fleet made them


def survey(desk: Desk, cwd: Path, *, everything: bool, made: Made | None = None) -> list[Item]:
    """Everything that fleet made, as far as this home knows: what runs first, the home last."""
    made = branches_of(desk) if made is None else made
    standing = list(_places(desk, cwd))
    going = {place.path.resolve() for _, place in standing} | {
        Path(one.cwd).resolve() for one in desk.ledger.talked_to() if one.place is not PlaceKind.INPLACE
    }
    found = [*_running(desk), *(item for item, _ in standing)]
    for project in _projects(desk):
        found += _in_repository(desk, project, made, going, everything)
    found += _saved(desk, everything)
    found += _generated(desk, cwd)
    found += (Item("cache", str(path), True, "LiteLLM, which can be installed again") for path in _caches())
    return [*found, _home(desk, everything)]


def _running(desk: Desk) -> Iterator[Item]:
    who = run.status(desk.home)
    if who.running:
        yield Item("supervisor", f"process {who.pid or 'unknown'}", True, "it is stopped")
    for attempt in _working(desk):
        yield Item("agent", attempt.id, True, f"it is ended, and its task cancelled: {attempt.cwd}")
    for attempt in desk.ledger.talked_to():
        yield Item("agent", attempt.id, True, f"it is ended, its place saved and removed: {attempt.cwd}")
    for mark in gateway.running():
        yield Item("gateway", mark, True, "it is stopped")


def _working(desk: Desk) -> list[Attempt]:
    """The attempts at tasks of the queue of which something runs: the agent, its handover, or a check."""
    found = []
    for attempt in desk.ledger.unsettled():
        directory = attempt_directory(desk.home, attempt)
        if any(map(keeper.is_alive, (directory, directory / "handover", *directory.glob("check*")))):
            found.append(attempt)
    return found


def _places(desk: Desk, cwd: Path) -> Iterator[tuple[Item, Place]]:
    """The places of this home: all that stand in it, and elsewhere those that an attempt of it worked in."""
    for place, attempt in with_attempts(desk, _roots(desk, cwd)):
        if attempt is None and not place.path.is_relative_to(desk.home):
            continue  # another home's
        if attempt is not None and attempt.interactive and attempt.verdict is None:
            continue  # it goes with its agent
        changed = places.conditions([place])[0].changed if place.path.is_dir() else 0
        why = "nothing to save" if changed == 0 else "what is not committed is saved first"
        yield Item("place", str(place.path), True, why), place


def _roots(desk: Desk, cwd: Path) -> list[Path]:
    tops = [cwd, *(project.top for project in _projects(desk))]
    return sorted({root for top in tops for root in place_roots(desk, top)})


def _projects(desk: Desk) -> list[Project]:
    """The repositories that attempts worked in, in their own places or not."""
    tops = dict.fromkeys(one.repository or one.cwd for one in desk.ledger.all())
    found = (places.project(Path(top)) for top in tops if top)
    return list({one.common: one for one in found if one is not None}.values())


def branches_of(desk: Desk) -> dict[tuple[Path, str], bool]:
    """The branches that attempts had in places of their own. Those of tasks of the queue fleet has made; those of
    agents that a person began only where that is written down, and that goes with the place.
    """
    found: dict[tuple[Path, str], bool] = {}
    for one in desk.ledger.all():
        project = places.project(Path(one.repository)) if one.repository else None
        if project is None or not one.branch or one.place is PlaceKind.INPLACE:
            continue
        key = project.common, one.branch
        found[key] = found.get(key, False) or one.branch == f"{BRANCH}{one.task}" or _made_with_its_place(one)
    return found


def _made_with_its_place(attempt: Attempt) -> bool:
    place = place_of(attempt)
    said = places.record.read(place.path) if place is not None else None
    return said is not None and said.own_branch and said.branch == attempt.branch


def _in_repository(desk: Desk, project: Project, made: Made, going: set[Path], everything: bool) -> Iterator[Item]:
    common = project.common
    heads = dict(repository.refs(common, BRANCHES))
    everywhere = [*heads, *(name for name, _ in repository.refs(common, REMOTES))]
    ours = {f"{BRANCHES}{name}": is_ours for (where, name), is_ours in made.items() if where == common}
    others = [name for name in everywhere if not ours.get(name)]
    gone: set[str] = set()
    for name in sorted(heads.keys() & ours.keys()):
        word = name.removeprefix(BRANCHES)
        holders = [one.top for one in checked_out(common, word) if one.top.resolve() not in going]
        known = Branch(ours[name], _ahead(common, heads[name], others), str(holders[0]) if holders else "")
        goes, why = judge_branch(known, everything=everything)
        gone |= {name} if goes else set()
        yield Item("branch", word, goes, why, str(project.top), heads[name])
    stays = [name for name in everywhere if name not in gone]
    mine = {one.id for one in desk.ledger.all()}
    landed = {one.new for one in Landings(desk.home).all(*LandingState)}
    for name, commit in repository.refs(common, "refs/fleet/"):
        last = name.rpartition("/")[2]
        is_mine = last in landed if name.startswith(f"{LANDED_REFS}/") else last in mine
        if name.startswith((FOUND, LANDING, BASE, REPLACED, f"{LANDED_REFS}/")) and is_mine:
            has = _ahead(common, commit, stays) == 0
            why = "a branch that stays has it" if has else "no branch that stays has it"
            yield Item("ref", name, has or everything, why, str(project.top), commit)


def _ahead(common: Path, commit: str, branches: Iterable[str]) -> int:
    """How many commits up to this one none of these branches has."""
    asked = "\n".join([commit, *(f"^{name}" for name in branches), ""]).encode(errors="surrogateescape")
    done = repository.ask(common, "rev-list", "--count", "--stdin", stdin=asked)
    if done.code != 0:
        raise repository.refused(done, f"what the branches of {common} have cannot be counted")
    return int(done.out)


def _saved(desk: Desk, everything: bool) -> Iterator[Item]:
    """What was saved of this home's places; other homes save in the same repositories."""
    cwds = {one.cwd for one in desk.ledger.all()}
    for project in known_projects(desk.ledger):
        for one in salvage.all(project):
            if one.path in cwds or Path(one.path).is_relative_to(desk.home):
                yield Item("salvage", one.name, everything, "it is saved nowhere else", str(project.top), one.commit)


def _generated(desk: Desk, cwd: Path) -> Iterator[Item]:
    here = places.project(cwd)
    tops = [cwd if here is None else here.top, *(project.top for project in _projects(desk))]
    tops += [Path(one.cwd) for one in desk.ledger.all() if one.cwd and one.place is PlaceKind.INPLACE]
    for top in dict.fromkeys(one.resolve() for one in tops):
        if top.is_relative_to(desk.home) or not (top / files.OWN).is_dir():
            continue
        try:
            found = generated.cleaning(top)
        except FleetError as problem:
            yield Item("file", str(top / files.OWN), False, problem.message)
            continue
        removable = [*found.removable, *([f"{files.OWN}/{SCHEMA}"] if (top / files.OWN / SCHEMA).is_file() else [])]
        yield from (Item("file", name, True, "fleet wrote it", str(top)) for name in removable)
        yield from (Item("file", name, False, "it was edited since fleet wrote it", str(top)) for name in found.edited)


def _caches() -> list[Path]:
    return sorted(files.cache().glob("litellm-*"))


def _home(desk: Desk, everything: bool) -> Item:
    tasks = len(desk.tracker.all())
    has = [f"{tasks} task{'' if tasks == 1 else 's'} with receipts and notes"] if tasks else []
    if files.read(desk.home / SETTINGS) != starter().encode():
        has.append("settings of yours")
    why = f"it holds {' and '.join(has)}" if has else "it holds no task, and no settings of yours"
    return Item("home", str(desk.home), everything or not has, why)


def uninstall(desk: Desk, cwd: Path, listed: Sequence[Item], *, everything: bool) -> Iterator[Gone]:
    """End what runs, then remove what was listed, as far as it may still go. While something runs nothing is removed,
    and after something could not be removed the home stays, because it knows what is left.
    """
    made, wanted = branches_of(desk), {item.key for item in listed if item.goes}
    yield from _end_all(desk, listed)
    lock = locks.take(desk.home / LOCK)
    if lock is None:
        raise FleetError("a supervisor was started meanwhile; nothing was removed", hint="fleet uninstall --dry-run")
    failed = False
    try:
        for gone in _remove_all(desk, cwd, wanted, made, everything):
            failed = failed or gone.problem is not None
            yield gone
        home = _home(desk, everything)
        if home.goes and home.key in wanted and not failed:
            yield _tried(home, lambda: _remove_home(desk.home))
    finally:
        locks.release(lock)


def _end_all(desk: Desk, listed: Sequence[Item]) -> Iterator[Gone]:
    """End the supervisor first, so that nothing new begins; then agents, and the gateways that they ask."""
    run.stop()
    for outcome in abort_all(desk, list(dict.fromkeys(one.task for one in _working(desk)))):
        if outcome.problem is not None:
            raise outcome.problem
    for site in every_site():
        for ended in kill(site, site.attempts(), ignored=False, large=True, done=lambda one: None):
            if isinstance(ended, NotEnded):
                raise ended.problem
    gateway.down_all()
    yield from (Gone(item) for item in listed if item.kind in ("supervisor", "agent", "gateway"))


def _remove_all(desk: Desk, cwd: Path, wanted: set[Key], made: Made, everything: bool) -> Iterator[Gone]:
    """Remove places first: what is checked out there may go with them. Everything is judged again before it goes."""
    for item, place in list(_places(desk, cwd)):
        if item.key in wanted:
            yield _tried(item, lambda place=place: _remove_place(desk, place))  # type: ignore[misc]
    for root in _roots(desk, cwd):
        _tidy(root)
    now = [one for one in survey(desk, cwd, everything=everything, made=made) if one.goes and one.key in wanted]
    for item in now:
        if item.kind in REMOVERS:
            yield _tried(item, lambda item=item: REMOVERS[item.kind](item))  # type: ignore[misc]
    for top in dict.fromkeys(item.repository for item in now if item.kind == "file"):
        (Path(top) / files.OWN / SCHEMA).unlink(missing_ok=True)
        generated.clean(Path(top))
    yield from (Gone(item) for item in now if item.kind == "file")
    yield from _left_behind(wanted, {one.key for one in now})


def _left_behind(wanted: Iterable[Key], now: set[Key]) -> Iterator[Gone]:
    """Branches that were to go and were not listed once more: they went with their place, or moved meanwhile."""
    for kind, where, name, commit in sorted(set(wanted) - now):
        if kind in ("branch", "ref"):
            item = Item(kind, name, True, "", where, commit)
            is_there = repository.ref(_common(item), f"{BRANCHES}{name}" if kind == "branch" else name) is not None
            moved = FleetError("it has moved since it was listed", hint="fleet uninstall --dry-run")
            yield Gone(item, problem=moved if is_there else None)


def _tried(item: Item, remove: Callable[[], str]) -> Gone:
    try:
        return Gone(item, remove())
    except FleetError as problem:
        return Gone(item, problem=problem)
    except OSError as problem:
        return Gone(item, problem=of_system(problem))


def _remove_place(desk: Desk, place: Place) -> str:
    attempts = [one for one in desk.ledger.last_of_each().values() if one.branch == place.branch]
    saved, _ = remove_place(place, attempts[0].task if len(attempts) == 1 else "", None)
    return f"saved: fleet salvage show {saved.name}" if saved else ""


def _tidy(root: Path) -> None:
    """Remove what is left beside places that are gone; the directory itself where it is in the home, and empty."""
    if not any((root / places.record.FOLDER).glob("*.json")):
        repository.remove_tree(root / places.record.FOLDER)
    if root.parent.name == places.PLACES:
        with suppress(OSError):
            root.rmdir()


def _remove_ref(item: Item) -> str:
    name = f"{BRANCHES}{item.name}" if item.kind == "branch" else item.name
    common = _common(item)
    repository.do(common, "update-ref", "-d", name, item.commit, what=f"{item.name} cannot be removed")
    return f"it was at {item.commit[:12]}"


def _remove_saved(item: Item) -> str:
    salvage.drop(_project(item), item.name)
    return f"it was {item.commit[:12]}"


def _remove_cache(item: Item) -> str:
    repository.remove_tree(Path(item.name))
    return ""


REMOVERS: Mapping[str, Callable[[Item], str]] = {
    "branch": _remove_ref, "ref": _remove_ref, "salvage": _remove_saved, "cache": _remove_cache,
}  # fmt: skip


def _project(item: Item) -> Project:
    found = places.project(Path(item.repository))
    if found is None:
        raise FleetError(f"{item.repository} is no git repository any more")
    return found


def _common(item: Item) -> Path:
    return _project(item).common


def _remove_home(home: Path) -> str:
    """Remove what fleet writes there, and the directory when nothing else is in it."""
    for path in sorted({path for entry in HOME_ENTRIES for path in home.glob(entry)}):
        repository.remove_tree(path)
    with suppress(OSError):
        (home / places.PLACES).rmdir()
    left = sorted(os.listdir(home))
    if left:
        return f"kept, with what fleet did not write there: {', '.join(left[:5])}"
    home.rmdir()
    return ""

"""What only a place has: looked for without running anything that stands in it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.core import FleetError
from fleet.core.work import PlaceKind
from fleet.host import files, git, repository
from fleet.host.repository import Entry
from fleet.places import record
from fleet.places.base import Place
from fleet.places.ground import repository_of
from fleet.places.paths import Project

REFS = "refs/fleet/salvage/"
STATE = 4 * 1024 * 1024  # bytes of one of git's own files that are searched for commits
NOT_THEIRS = ("refs/fleet/", "refs/stash")  # what we keep ourselves, and what a `git stash pop` lets go
AT_WORK = 100  # files that a git which is killed may be writing at once, and more
HEX = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")


@dataclass(slots=True)
class Finds:
    """What stands in a place and nowhere else."""

    entries: list[Entry] = field(default_factory=list)
    named: set[str] = field(default_factory=set)  # commits that git's own files of the place speak of
    inside: list[bytes] = field(default_factory=list)  # files to be read, from the top of the place
    state: list[tuple[bytes, Path]] = field(default_factory=list)  # git's own files: how they are kept, where they are
    empty: list[bytes] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    head: str | None = None
    staged: bool = False
    taken: frozenset[str] = frozenset()  # names of what was saved before
    size: int = 0
    mark: str = ""

    @property
    def is_nothing(self) -> bool:
        return not (self.inside or self.staged or self.parents or self.gone)

    @property
    def gone(self) -> list[bytes]:
        """Files that the index has and the place has not."""
        read = set(self.inside)
        files = (one for one in self.entries if one.is_tracked and not one.is_repository)
        return [one.path for one in files if one.changed and one.path not in read]


def look(project: Project, place: Place, *, ignored: bool, only_mark: bool = False) -> Finds:
    """Everything that only this place has. For the mark alone, git need not be asked what leads where."""
    place.must_be_itself()
    if not place.path.is_dir():
        return Finds()
    found = repository_of(project, place)
    cut_off = _cut_off(project, place, found)
    finds = Finds(head=cut_off or git.head(found).commit or place.base)
    with repository.workshop(found, project.common / "objects") as shop:
        if cut_off:
            shop.do("read-tree", cut_off)
        listed = shop.entries(ignored=ignored)
        if cut_off:
            listed = _but_gits(project, place.path, listed)
        without = _only_here(shop, finds.head, record.furnished(place.path))
        finds.entries = [one for one in listed if one.path not in without]
        finds.named = _named(found, place)
        if not only_mark:
            finds.staged = _is_staged(shop, finds)
            refs = repository.refs(project.common, "refs/")
            finds.parents = unreachable(shop, finds.named, [to for name, to in refs if not name.startswith(NOT_THEIRS)])
            finds.taken = frozenset(name.removeprefix(REFS) for name, _ in refs if name.startswith(REFS))
    for entry in finds.entries:
        _gather(finds, project, place.path, entry)
    for _, where in repository.linked_below(found.common, place.path):
        finds.inside += _nested(place.path, where)  # also where git ignores it
    if place.path / ".git" != found.own and (place.path / ".git").is_dir():
        finds.inside += below(place.path, place.path / ".git")  # the agent put a repository of its own in the way
    finds.inside = list(dict.fromkeys(finds.inside))
    _gather_state(finds, found, place)
    finds.empty = _empty(place.path, finds)
    _measure(finds, place.path)
    return finds


def _cut_off(project: Project, place: Place, found: git.Repository) -> str | None:
    """The commit that git was killed over while it put it into a place: it writes its index after the last file."""
    said = record.read(place.path)
    if said is None or said.made or (found.own / "index").exists():
        return None
    return repository.ref(project.common, f"refs/heads/{said.branch}") or said.base


def _but_gits(project: Project, top: Path, entries: list[Entry]) -> list[Entry]:
    """The entries of a place that git was killed over: what it did not write, or not to its end, is no change."""
    changed = [one for one in entries if one.is_tracked and one.changed]
    missing = {one.path for one in changed if not os.path.lexists(top / os.fsdecode(one.path))}
    there = [one for one in changed if one.path not in missing][:AT_WORK]
    gits = missing | {one.path for one in there if _is_begun(project, top / os.fsdecode(one.path), one)}
    return [replace(one, changed=False) if one.path in gits else one for one in entries]


def _is_begun(project: Project, at: Path, entry: Entry) -> bool:
    """Whether a file has the first bytes of what it was to be, and no others."""
    facts = at.lstat()
    if not stat.S_ISREG(facts.st_mode) or bool(facts.st_mode & stat.S_IXUSR) != (entry.mode == "100755"):
        return False
    with at.open("rb") as file:
        for piece in repository.blob(project.common, entry.blob):
            begun = file.read(len(piece))
            if begun != piece:
                return piece.startswith(begun)
        return not file.read(1)


def _only_here(shop: repository.Workshop, head: str | None, paths: tuple[str, ...]) -> frozenset[bytes]:
    """Those of the paths that the last commit does not have; whether they were added since does not count."""
    if not paths or head is None:
        return frozenset(os.fsencode(path) for path in paths)
    done = shop.ask("ls-tree", "-r", "-z", "--name-only", "--full-tree", head)
    return frozenset(os.fsencode(path) for path in paths) - set(done.out.split(b"\0"))


def _is_staged(shop: repository.Workshop, finds: Finds) -> bool:
    """Whether the index holds what the last commit does not."""
    if not any(entry.is_tracked for entry in finds.entries):
        return False
    tree = finds.head or git.EMPTY_TREE
    return shop.ask("diff-index", "--cached", "--quiet", "--ignore-submodules=none", tree, "--").code != 0


def _gather(finds: Finds, project: Project, top: Path, entry: Entry) -> None:
    """Which files have to be read: those that changed, and all of a repository that stands inside."""
    at = top / os.fsdecode(entry.path.rstrip(b"/"))
    if entry.is_repository:
        if not is_as_given(project, top, entry):
            finds.inside += _nested(top, at)
    elif entry.changed and is_file(at):
        finds.inside.append(entry.path)
    elif entry.changed and at.is_dir() and not at.is_symlink():  # a directory where a file was
        finds.inside += below(top, at)


def is_as_given(project: Project, top: Path, entry: Entry) -> bool:
    """Whether a repository inside holds nothing of its own: it was never filled, or stands where it was put.

    That the place's commit names one of it is not enough: the main repository's copy must have that, too.
    """
    at, commit = top / os.fsdecode(entry.path.rstrip(b"/")), entry.blob
    found = git.find(at)
    if found is None or found.top != at:
        return bool(commit) and not below(at, at)
    if git.head(found).commit != commit:
        return False
    with repository.workshop(found) as shop:
        entries = shop.entries()
        if any(one.changed or one.is_repository for one in entries) or _is_staged(shop, Finds(entries, head=commit)):
            return False
        named = _named(found, Place(at))
        known = [one for _, one in repository.refs(found.common, "refs/remotes/")]
        return not unreachable(shop, named, known + ([commit] if _is_given(project, top, found, commit) else []))


def _is_given(project: Project, top: Path, found: git.Repository, commit: str) -> bool:
    """Whether the main repository has its own copy of a submodule, with this commit in it."""
    place = git.find(top)
    if place is None or not found.own.resolve().is_relative_to(place.own.resolve()):
        return False
    copy = project.common / found.own.resolve().relative_to(place.own.resolve())
    return git.bare(copy) is not None and not repository.ask(copy, "cat-file", "-e", f"{commit}^{{commit}}").code


def _nested(top: Path, at: Path) -> list[bytes]:
    """The files of a repository inside: those that it does not ignore, and all of what its git keeps. A worktree's git
    keeps nothing there, and is known no more once the place is gone.
    """
    found = git.find(at)
    if found is None or found.top != at:
        return below(top, at)
    try:
        with repository.workshop(found) as shop:
            entries = shop.entries()
    except (FleetError, OSError):
        return below(top, at)
    inner = Finds()
    for entry in entries:
        path = at / os.fsdecode(entry.path.rstrip(b"/"))
        if entry.is_repository:
            inner.inside += _nested(top, path)
        elif is_file(path):
            inner.inside.append(os.path.relpath(os.fsencode(path), os.fsencode(top)))
    marker = at / ".git"
    if found.own.parent.name == "worktrees":
        return inner.inside
    kept = [os.path.relpath(os.fsencode(marker), os.fsencode(top))] if is_file(marker) else below(top, marker)
    return inner.inside + kept


def below(top: Path, at: Path) -> list[bytes]:
    """Every file below a directory, from the top of the place; links are not followed."""
    found = []
    for directory, folders, names in files.walk(os.fsencode(at)):
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in sorted((*names, *links)):
            path = os.path.join(directory, name)
            if is_file(Path(os.fsdecode(path))):
                found.append(os.path.relpath(path, os.fsencode(top)))
    return found


def is_file(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _gather_state(finds: Finds, found: git.Repository, place: Place) -> None:
    """Git's own files of this place; a clone's objects come as commits, and not as files."""
    own = os.fsencode(found.own)
    for directory, folders, names in files.walk(own):
        at = os.path.relpath(directory, own)
        if place.kind is PlaceKind.CLONE and at == b".":
            folders[:] = [name for name in folders if name != b"objects"]
        for name in sorted(names):
            path = os.path.normpath(os.path.join(at, name))
            where = Path(os.fsdecode(os.path.join(directory, name)))
            if not name.endswith(b".lock") and is_file(where):
                finds.state.append((path, where))


def _empty(top: Path, finds: Finds) -> list[bytes]:
    """Directories without a file in them, beside files that are kept or known; git has none."""
    beside = {b""}
    for path in (*finds.inside, *(entry.path for entry in finds.entries)):
        while path := os.path.dirname(path):
            if path in beside:
                break
            beside.add(path)
    beside.discard(b".git")
    found: list[bytes] = []
    for parent in sorted(beside):
        for name in _folders(os.path.join(os.fsencode(top), parent)):
            at = os.path.join(parent, name)
            if at not in beside and at != b".git":
                found += _hollow(os.fsencode(top), at) or ()
    return found


def _hollow(top: bytes, path: bytes) -> list[bytes] | None:
    """The empty directories that a directory is made of; None when there is a file in it somewhere."""
    try:
        names = os.listdir(os.path.join(top, path))
    except OSError:
        return None
    folders = _folders(os.path.join(top, path))
    if len(folders) != len(names):
        return None
    found: list[bytes] = []
    for name in folders:
        below = _hollow(top, os.path.join(path, name))
        if below is None:
            return None
        found += below
    return found or [path]


def _folders(path: bytes) -> list[bytes]:
    try:
        with os.scandir(path) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _measure(finds: Finds, top: Path) -> None:
    """How much there is to keep, and a mark of how it stood."""
    digest = hashlib.sha256(repr((finds.head, sorted(finds.named))).encode())
    for entry in finds.entries:
        digest.update(repr(entry).encode())
    paths = [(path, top / os.fsdecode(path)) for path in finds.inside]
    for path, at in paths + [one for one in finds.state if one[0] != b"index"]:
        try:
            facts = at.lstat()
        except OSError:
            continue
        finds.size += facts.st_size
        digest.update(repr((path, facts.st_size, facts.st_mtime_ns, facts.st_mode)).encode())
    finds.mark = digest.hexdigest()


def unreachable(shop: repository.Workshop, named: set[str], known: list[str]) -> list[str]:
    """Those of the named commits that none of the known ones leads to."""
    if named <= set(known):
        return []
    wanted = "\n".join([*sorted(named), *(f"^{one}" for one in dict.fromkeys(known))]) + "\n"
    done = shop.ask("rev-list", "--ignore-missing", "--stdin", stdin=wanted.encode())
    if done.code:
        raise repository.refused(done, f"the commits of {shop.top} cannot be read")
    return [one for one in done.out.decode().split() if one in named]


def _named(found: git.Repository, place: Place) -> set[str]:
    """Every commit that git's own files of this place name: HEAD, its history, refs, a merge or rebase under way."""
    named = _spoken_of(found.own)
    for own, _ in repository.linked_below(found.common, place.path):
        named |= _spoken_of(own)
    if found.own != found.common:
        named |= _stashes(found.common, place.branch)
    head = git.head(found).commit
    return named | ({head} if head else set())


def _spoken_of(own: Path) -> set[str]:
    named = set()
    for directory, folders, names in files.walk(str(own)):
        if directory == str(own):
            folders[:] = [name for name in folders if name not in ("objects", "modules", "lfs", "hooks", "worktrees")]
        for name in names:
            if name != "index" and not name.startswith("sharedindex."):
                named |= _hexes(Path(directory, name))
    return named


def _hexes(path: Path) -> set[str]:
    try:
        content = files.read(path, limit=STATE) or b""
    except OSError:
        return set()
    return {one.decode() for one in HEX.findall(content) if one.strip(b"0")}


def _stashes(common: Path, branch: str | None) -> set[str]:
    """What was stashed on this branch: worktrees share one stash, so others' are left alone."""
    try:
        lines = (files.read(common / "logs/refs/stash") or b"").splitlines()
    except OSError:
        return set()
    on = f"n {branch}: ".encode(errors="surrogateescape")
    return {line.split()[1].decode() for line in lines if on in line and len(line.split()) > 1}

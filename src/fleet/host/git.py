"""Git, asked about a repository that an agent can write to, without running anything the agent planted there.

The agent's repository is only ever read as a store of objects: questions are asked of a bare repository of our own
that borrows those objects, so no config, hook, filter or attribute driver of the agent's is ever in force.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir

from fleet.core.frozen import dataclass
from fleet.host import armour, files, index, objects
from fleet.host.leaving import temporary_directory
from fleet.host.run import LIMIT, Ran, run

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
SECONDS = 60.0
SYMREFS = 5
MOST_STORES = 20
NULL = os.stat(os.devnull).st_rdev  # the one device at which nobody waits
PREFIX = "fleet-git-"
LONG_AGO = 3600.0
LARGEST_SETTINGS = 1024**2
LISTS = frozenset((".gitignore", ".gitattributes", ".gitmodules"))
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a repository keeps its things; a linked worktree has an index of its own and borrows the rest."""

    top: Path
    own: Path
    common: Path


@dataclass(frozen=True, slots=True)
class Head:
    commit: str | None
    branch: str | None


def find(directory: Path) -> Repository | None:
    """The repository a directory belongs to, found by looking at files only."""
    at, below = str(directory), ""
    while at != below:
        marker = os.path.join(at, ".git")
        own = _own(Path(marker)) if os.path.lexists(marker) else None
        if own is not None:
            common = _line(own / "commondir")
            return Repository(Path(at), own, (own / common).resolve() if common else own)
        at, below = os.path.dirname(at), at
    return None


def bare(directory: Path) -> Repository | None:
    """The repository that a directory is itself, without a working tree."""
    whole = (directory / "HEAD").is_file() and (directory / "objects").is_dir() and (directory / "refs").is_dir()
    return Repository(directory, directory, directory) if whole else None


def head(repository: Repository) -> Head:
    """The commit and the branch that are checked out, read from files only: no git of the agent's is ever started."""
    name: str | None = "HEAD"
    branch = None
    for _ in range(SYMREFS):
        value = _ref(repository, name) if name else None
        if value is None or not value.startswith("ref: "):
            return Head(value if value and COMMIT.match(value) else None, branch)
        name = safe_ref(value.removeprefix("ref: ").strip())
        branch = name.removeprefix("refs/heads/") if name else None
    return Head(None, branch)


def waits_for(top: Path) -> str:
    """Why a git that looks at a working tree would never end, if it would not: it opens its own lists wherever they
    stand, and what it finds of repositories inside; an agent may have left a pipe or a device of such a name.
    """
    for directory, folders, names in files.walk(str(top)):
        lists = (os.path.join(directory, name) for name in LISTS.intersection(names))
        own = _own(Path(directory, ".git")) if ".git" in names else None  # a file may lead to it
        inner = Path(directory, ".git") if ".git" in folders else own
        if said := _waits(lists) or (waits_in(inner) if inner else ""):
            return said
    return ""


def waits_in(own: Path) -> str:
    """The same of a git that looks at nothing but a repository, or a store of objects, in which an agent may have put
    anything under any name; or in one that it borrows from.
    """
    return next(filter(None, map(_waits_below, _stores(own))), "")


def _waits_below(top: str) -> str:
    for directory, folders, names in files.walk(top):
        inner = [os.path.join(directory, name) for name in folders]
        beyond = (path for at in inner if os.path.islink(at) for path in _inside(at))
        if said := _waits(chain((os.path.join(directory, name) for name in names), beyond)):
            return said
    return ""


def _stores(own: Path) -> list[str]:
    """A directory of git's, and the stores of objects that it borrows from, and so on."""
    found = [str(own)]
    for one in found:
        for lists in ("objects/info/alternates", "info/alternates"):
            lines = text(Path(one, lists)).splitlines()
            found += [path for path in map(os.fsdecode, lines) if os.path.isabs(path) and path not in found]
    return found[:MOST_STORES]


def _waits(paths: Iterable[str]) -> str:
    for path in paths:
        with suppress(OSError):
            facts = os.stat(path)
            if stat.S_ISFIFO(facts.st_mode) or (stat.S_ISCHR(facts.st_mode) and facts.st_rdev != NULL):
                return f"{path} is no plain file, and git would wait for it"
    return ""


def _inside(directory: str) -> list[str]:
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return []


def clear() -> None:
    """Remove the mirrors that a supervisor left which was killed while it looked."""
    for left in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            facts = left.lstat()
            if facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > LONG_AGO:
                rmtree(left, ignore_errors=True)


@contextmanager
def mirror(repository: Repository) -> Iterator[Mirror]:
    """A bare repository of ours that borrows another's objects, made anew."""
    with temporary_directory(PREFIX) as made:
        armour.borrow(made, repository.common / "objects")
        yield Mirror(repository, made)


class Mirror:
    """Questions about another repository's commits and files, asked of one of ours."""

    def __init__(self, repository: Repository, at: Path) -> None:
        self._repository = repository
        self._at = at

    def commits(self, base: str | None, tip: str, limit: int = 100) -> list[tuple[str, str]]:
        """The commits after the base, newest first: hash and subject."""
        span = [tip] if base is None else [f"{base}..{tip}"]
        text = self._ask("log", "-z", f"-n{limit}", "--format=%H %s", *span, "--") or ""
        return [(commit, subject) for commit, _, subject in (line.partition(" ") for line in text.split("\0") if line)]

    def changes(self, base: str | None, tip: str) -> list[tuple[str, int, int]]:
        """Each file that differs between base and tip: path, lines added, lines removed."""
        text = self._ask("diff", "-z", "--numstat", "--no-renames", base or EMPTY_TREE, tip, "--") or ""
        return [_numbers(entry) for entry in text.split("\0") if entry.count("\t") >= 2]

    def blob(self, commit: str, path: str, limit: int) -> bytes | None:
        """A file of a commit, which is the one that the commit was made with: it and everything on the way to it is
        known by its hash. None when there is none, or a link or something else, or when it is larger.
        """
        steps = path.split("/")
        above = ["/".join(steps[:count]) for count in range(len(steps))]
        asked = [commit, *(f"{commit}:{one}" for one in above)]
        done = self._run("cat-file", "--batch", stdin="".join(f"{one}\n" for one in asked))
        item = objects.walk(commit, steps, objects.known(done.out))
        if item is None or not item.mode.startswith(objects.FILE):
            return None
        found = self._run("cat-file", "blob", item.name, limit=limit + 1)
        if found.code or len(found.out) > limit:
            return None
        objects.must_be(b"blob", item.name, found.out)
        return found.out

    def between(self, base: str, tip: str) -> str | None:
        """What differs between two commits, as `git diff-tree --raw -z` says it; None when git could not say."""
        return self._ask("diff-tree", "-r", "--raw", "-z", "--no-renames", base, tip, "--")

    def standing(self, tip: str | None) -> str | None:
        """What stands in the working tree and is not committed, as `git status --porcelain=v2 -z` says it, but for
        what the user's own git ignores.

        Submodules are left out: git would start itself there, with what stands in their configuration.
        """
        return self._status(tip, "--porcelain=v2", "--untracked-files=all", own=True)

    def tree(self, commit: str) -> str | None:
        """The tree of a commit; None when the repository has no such commit."""
        found = self._ask("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}^{{tree}}") or ""
        return found.strip() or None

    def has_tree(self, tree: str) -> bool:
        return self._ask("cat-file", "-e", f"{tree}^{{tree}}") is not None

    def dirty(self, tip: str | None) -> list[str] | None:
        """Paths in the working tree that differ from what is committed; None when git could not say."""
        text = self._status(tip, "--porcelain=v1", "--untracked-files=normal")
        return None if text is None else [entry[3:] for entry in text.split("\0") if entry]

    def _status(self, tip: str | None, *form: str, own: bool = False) -> str | None:
        try:
            index.copy(self._repository.own / "index", self._at / "index")
            index.settle(self._at / "index", self._repository.top)
            copy_exclude(self._repository.common, self._at)
            if own:
                add_own_exclude(self._at)
        except OSError:
            return None
        files.write(self._at / "HEAD", f"{tip or 'ref: refs/heads/none'}\n".encode())
        return self._ask(
            f"--work-tree={self._repository.top}", "-c", "core.bare=false", "status", "-z", *form,
            "--no-renames", "--ignore-submodules=all",
        )  # fmt: skip

    def _ask(self, *args: str) -> str | None:
        done = self._run(*args)
        return done.out.decode(errors="surrogateescape") if done.code == 0 else None

    def _waits(self) -> str:
        return waits_in(self._repository.common / "objects") or waits_for(self._repository.top)

    def _run(self, *args: str, stdin: str = "", limit: int = LIMIT) -> Ran:
        return run(
            armour.command(f"--git-dir={self._at}", *args), cwd=self._repository.top, timeout=SECONDS, limit=limit,
            env=armour.environment(self._at), stdin=stdin.encode(errors="surrogateescape"),
            doubt=self._waits, wary=True,
        )  # fmt: skip


def copy_exclude(common: Path, to: Path) -> None:
    """Copy the list of what a repository leaves out of sight, beside every .gitignore."""
    content = files.read(common / "info/exclude")
    if content is not None:
        files.write(to / "info/exclude", content)


def add_own_exclude(to: Path) -> None:
    """Let what the user's own git leaves out everywhere go before that list. A repository's settings are not asked for
    it: an agent can write them.
    """
    own = text(_own_exclude(to))
    if own:
        files.write(to / "info/exclude", own + b"\n" + text(to / "info/exclude"))


def own_settings() -> tuple[Path, Path]:
    """The user's own settings of git, in the order in which they are read."""
    return _own_directory() / "config", Path.home() / ".gitconfig"


def _own_directory() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"


def _own_exclude(to: Path) -> Path:
    """Where the user's own list is by their settings, read as text, because what they include could be anything."""
    said, usual = b"\n".join(text(one) for one in own_settings()), _own_directory() / "ignore"
    if b"excludesfile" not in said.lower():
        return usual
    files.write(to / "settings", said)
    args = ("config", "--file", str(to / "settings"), "--no-includes", "--get", "core.excludesFile")
    done = run(armour.command(*args), cwd=to, timeout=SECONDS, env=armour.environment(to))
    return Path(os.path.expanduser(os.fsdecode(done.out).strip("\n"))) if done.code == 0 else usual


def text(path: Path) -> bytes:
    """A file of settings; one that cannot be read says nothing."""
    try:
        return files.read(path, follow=True, limit=LARGEST_SETTINGS) or b""
    except OSError:
        return b""


def _own(marker: Path) -> Path | None:
    if marker.is_dir():
        return marker if (marker / "HEAD").exists() or (marker / "HEAD").is_symlink() else None
    line = _line(marker)
    return (marker.parent / line.removeprefix("gitdir: ")) if line and line.startswith("gitdir: ") else None


def _ref(repository: Repository, name: str) -> str | None:
    """What a ref says: its own file, or its line among the packed ones."""
    own = repository.own if name == "HEAD" else repository.common
    line = _line(own / name)
    if line is not None or name == "HEAD":
        return line
    try:
        packed = files.read(repository.common / "packed-refs", follow=True) or b""
    except OSError:
        return None
    wanted = b" " + os.fsencode(name)
    return next((os.fsdecode(one[: -len(wanted)]) for one in packed.splitlines() if one.endswith(wanted)), None)


def safe_ref(name: str) -> str | None:
    """The name of a ref that stays inside the repository."""
    parts = name.split("/")
    return name if parts[0] == "refs" and not {"", ".", ".."} & set(parts) else None


def _line(path: Path) -> str | None:
    try:
        data = files.read(path, follow=True, limit=4096)
    except OSError:
        return None
    return data.decode(errors="surrogateescape").strip() if data else None


def _numbers(entry: str) -> tuple[str, int, int]:
    added, removed, path = entry.split("\t", 2)
    return path, int(added) if added.isdigit() else 0, int(removed) if removed.isdigit() else 0

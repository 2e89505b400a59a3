"""A bare repository of ours beside an agent's working tree, through which that is looked at."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path

from fleet.core import FleetError
from fleet.core.errors import is_passing
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import armour, files, git, index, objects
from fleet.host.attributes import ASKED, RAW, YES, Mark, Way, read_attributes, read_marks
from fleet.host.git import EMPTY_TREE, Repository
from fleet.host.index import Noted
from fleet.host.leaving import temporary_directory
from fleet.host.objects import Item, Said, mode_of
from fleet.host.repository.tell import SECONDS, held, refused
from fleet.host.run import LIMIT, Ran, run

TREES = re.compile(rb"040000 tree ([0-9a-f]+)\t[^\0]*\0")
MUCH = 64 * 1024**2  # bytes; so much is compared with what is committed before it counts as changed
AUTOCRLF = re.compile(rb"autocrlf", re.IGNORECASE)
NO_MODES = re.compile(rb"filemode\s*=\s*\"?(false|no|off|0)", re.IGNORECASE)
NO = ("false", "no", "off", "0")
# What keeps half of its lines and its name was renamed. Git finds that at once, however many files there are; for those
# that change their names too it compares each with each, and gives up above a thousand.
BY_NAME = {"GIT_BASENAME_FACTOR": "0"}
AS_IT_WAS = (b"H 100", b"H 120")  # what `ls-files -v -s` says of a file and of a link that git knows no more of
GIT_LIKE = re.compile(rb"(^|/)\.git(/|\Z)", re.IGNORECASE)  # no tree of git's may have such a path
OURS = 2  # the stage of an index


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a working tree: as the index has it, and what became of it."""

    path: bytes
    mode: str = ""  # of the index; without one it is not tracked
    blob: str = ""
    stage: int = 0
    changed: bool = False
    hidden: bool = field(default=False, repr=False)  # git is told not to look at it

    @property
    def is_tracked(self) -> bool:
        return bool(self.mode)

    @property
    def is_repository(self) -> bool:
        """Whether a repository of its own stands there."""
        return self.mode == "160000" or (not self.mode and self.path.endswith(b"/"))


class Waits(FleetError):
    """Something stands in a working tree at which git would wait for ever."""


@contextmanager
def workshop(found: Repository, *borrowed: Path, write_to: Path | None = None) -> Iterator[Workshop]:
    """A bare repository of ours beside a working tree of an agent's, which borrows objects and copies the index.

    What is made there goes with it, unless it is written to the objects of another repository.
    """
    with temporary_directory(git.PREFIX) as at:
        armour.borrow(at, found.common / "objects", *borrowed)
        files.write(at / "info/attributes", RAW.attributes)
        _copy(found, at)
        git.copy_exclude(found.common, at)
        yield Workshop(found.top, at, write_to)


def _copy(found: Repository, at: Path) -> None:
    """The index with what it needs."""
    try:
        index.copy(found.own / "index", at / "index")
    except OSError as problem:
        if is_passing(problem):
            raise
        raise FleetError(f"{clean(str(found.own / 'index'))}: {problem.strerror}", hint="git reset") from None
    with suppress(OSError):
        for one in found.own.iterdir():
            if one.name.startswith("sharedindex."):
                index.copy(one, at / one.name)


class Workshop:
    """Questions about a working tree, none of which can run anything that stands in it."""

    def __init__(self, top: Path, at: Path, write_to: Path | None = None) -> None:
        self.top = top
        self._top = os.fsencode(top)
        self._links = index.Links(lambda path: os.path.islink(self.place_of(path)))
        self.at = at
        self._env = armour.environment(at) | BY_NAME
        if write_to is not None:
            borrowed = (at / "objects/info/alternates").read_bytes().splitlines()
            self._env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(_listed(os.fsdecode(one)) for one in borrowed)
            self._env["GIT_OBJECT_DIRECTORY"] = str(write_to)

    def ask(
        self,
        *args: str,
        stdin: bytes = b"",
        tree: bool = False,
        at: Path | None = None,
        index: str = "index",
        limit: int = LIMIT,
    ) -> Ran:
        """Run git here; with `tree` it sees the working tree, or another one."""
        top = at or self.top
        where = (f"--work-tree={top}", "-c", "core.bare=false") if tree else ()
        ours = ("-c", "core.sparseCheckout=true", "-c", "core.quotePath=false", f"--git-dir={self.at}")
        env = self._env | {"GIT_INDEX_FILE": str(self.at / index)}
        return run(
            armour.command(*ours, *where, *args), cwd=top if tree else self.at, env=env, timeout=SECONDS, stdin=stdin,
            keep=held(), limit=limit, doubt=partial(self._waits_for, top if tree else None), wary=True,
        )  # fmt: skip

    def do(self, *args: str, stdin: bytes = b"", tree: bool = False, at: Path | None = None, what: str = "") -> bytes:
        """What git prints; a refusal is an error that says what was wanted."""
        return self._out(self.ask(*args, stdin=stdin, tree=tree, at=at), what)

    def _out(self, done: Ran, what: str = "") -> bytes:
        if done.waits:
            raise Waits(clean(done.waits), hint="remove it")
        if done.code:
            raise refused(done, what or f"{self.top} cannot be read")
        return done.out

    def _waits_for(self, top: Path | None) -> str:
        """Why a git would never end that looks at what agents can write to: the objects, and perhaps a tree."""
        borrowed = (self.at / "objects/info/alternates").read_bytes().splitlines()
        stores = (git.waits_in(Path(os.fsdecode(one))) for one in borrowed)
        return next(filter(None, stores), "") or (git.waits_for(top) if top else "")

    def place_of(self, path: bytes) -> bytes:
        """Where a path of the working tree is."""
        return os.path.join(self._top, path)

    def _is_kept(self, path: bytes) -> bool:
        """Whether git can have what stands there."""
        try:
            mode = os.lstat(self.place_of(path)).st_mode
        except OSError:
            return False
        return (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and not self._links.lead_to(path)

    def entries(self, *, ignored: bool = False) -> list[Entry]:
        """Every path that the index knows, and every other one; ignored ones only when they are asked for."""
        return _entries(self._listed(ignored).split(b"\0"), self._top)

    def changed(self, since: float | None = None) -> list[Entry]:
        """What may not be as the index has it, and every repository inside; ignored paths are left out. What was
        touched since some moment is part of it.
        """
        noted = self._differing(since)
        if noted is None or sum(one.size for one in noted) > MUCH:
            return self._compared()
        tracked = [_entry(one) for one in noted if not one.is_left_out or os.path.lexists(self.place_of(one.path))]
        out = self.do("ls-files", "-z", "-o", "--exclude-standard", tree=True)
        return tracked + [Entry(path, changed=True) for path in out.split(b"\0") if path]

    def _differing(self, since: float | None) -> list[Noted] | None:
        """What differs from the index, which is written anew if it is in another form than the usual one; None for one
        that is too large for us to read.
        """
        file = self.at / "index"
        if file.exists() and file.stat().st_size > index.LARGEST_READ:
            return None
        noted = index.differing(file, self.top, since)
        if noted is None:
            with index.of_the_same_time(file):
                self.do("update-index", "--index-version", "2", "--no-split-index", tree=True)
            noted = index.differing(file, self.top, since)
        if noted is None:
            raise FleetError(f"the index of {clean(str(self.top))} makes no sense")
        return noted

    def _compared(self) -> list[Entry]:
        """The same by git, which reads what may have changed before it says so."""
        out = self._listed(ignored=False)
        lines = [line for line in out.split(b"\0") if not line.startswith(AS_IT_WAS)]
        found = _entries(lines, self._top)
        return [one for one in found if one.changed or one.is_repository]

    def _listed(self, ignored: bool) -> bytes:
        index.settle(self.at / "index", self.top)
        hidden = () if ignored else ("--exclude-standard",)
        return self.do("ls-files", "-z", "-v", "-s", "-c", "-o", "-m", "-d", *hidden, tree=True)

    def staged(self, commit: str) -> list[Entry]:
        """The files that the index has otherwise than a commit, as far as they are there."""
        done = self.ask(
            "diff-index", "--cached", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", commit
        )
        words = self._out(done).split(b"\0")
        found = []
        for facts, path in zip(words[::2], words[1::2], strict=False):
            _, mode, _, blob, _ = facts.decode().split(" ")
            if mode.startswith("1") and mode != "160000" and self._is_kept(path):
                found.append(Entry(path, mode, blob, changed=True, hidden=True))  # whatever its time is
        return found

    def attributes(self, paths: Sequence[bytes], tree: str, more: bytes) -> dict[bytes, dict[str, str]]:
        """Attributes of paths by what stands in a commit or a tree, and by more that goes before it."""
        lists = self._lists(tree)
        if not lists and not more:
            return {path: {} for path in paths}
        small = "attributes.index"
        (self.at / small).unlink(missing_ok=True)
        self._out(self.ask("update-index", "-z", "--index-info", stdin=b"".join(lists), index=small))
        with self._in_force(more):
            stdin = b"\0".join([*paths, b""])
            done = self.ask("check-attr", "-z", "--cached", "--stdin", *ASKED, stdin=stdin, index=small)
        return read_attributes(self._out(done))

    def _lists(self, tree: str) -> list[bytes]:
        """The lists of attributes in a commit or a tree, as an index takes them in."""
        asked = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev", EMPTY_TREE, tree, "--", ":(glob)**/.gitattributes")
        words = self.do("diff-tree", *asked).split(b"\0")
        return [
            _line(facts.split()[1].decode(), facts.split()[3].decode(), path)
            for facts, path in zip(words[::2], words[1::2], strict=False)
        ]

    @contextmanager
    def _in_force(self, attributes: bytes) -> Iterator[None]:
        files.write(self.at / "info/attributes", attributes)
        try:
            yield
        finally:
            files.write(self.at / "info/attributes", RAW.attributes)

    def converts_lines(self, common: Path) -> bool:
        """Whether the user's git changes how lines end in all that is text."""
        return self._said(common, "core.autocrlf", AUTOCRLF) in YES

    def heed_modes(self, common: Path) -> None:
        """Look at no modes from now on, where the user's git does not."""
        if self._said(common, "core.fileMode", NO_MODES) in NO:
            files.write(self.at / "config", armour.CONFIG + b"\tfileMode = false\n")

    def _said(self, common: Path, name: str, hint: re.Pattern[bytes]) -> str | None:
        """What the user's own settings say, then those of the repository; "" is a name without a value, None no word of
        it. They are read as text, because what they include could be anything; git is asked only where the hint is
        found in it.
        """
        said = b"\n".join(git.text(one) for one in (*git.own_settings(), common / "config"))
        if not hint.search(said):
            return None
        files.write(self.at / "settings", said)
        done = self.ask("config", "--file", str(self.at / "settings"), "--no-includes", "--get", name)
        return done.out.decode(errors="replace").strip().lower() if done.code == 0 else None

    def contents(self, names: Iterable[str], limit: int = LIMIT) -> dict[str, bytes]:
        """What objects hold, by their names: each is what it is called. Those beyond the limit are not told of."""
        done = self.ask("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode(), limit=limit)
        return objects.known(self._out(done))

    def listing(self, tree: str, what: str = "") -> list[Item]:
        """Every file, link and submodule of a tree, which is the one of that name."""
        return [Item(mode_of(mode), name.hex(), path) for mode, path, name in self._leaves(tree, what)]

    def paths(self, tree: str) -> list[bytes]:
        """The same, by their paths alone."""
        return [path for _, path, _ in self._leaves(tree)]

    def _leaves(self, tree: str, what: str = "") -> Iterator[Said]:
        inner = self.do("ls-tree", "-r", "-d", "-z", "--full-tree", "--end-of-options", tree, what=what)
        names = {tree, *(name.decode() for name in TREES.findall(inner))}
        return objects.leaves(tree, self.contents(sorted(names)))

    def marks(self) -> dict[bytes, Mark]:
        """What the index noted of each file."""
        return read_marks(self.do("ls-files", "-z", "-s", "--debug"))

    def side_with_us(self, unmerged: Iterable[Entry]) -> None:
        """Let paths that are not merged be as our side has them."""
        ours = {one.path: b"0 %s\t%s\0" % (b"0" * len(one.blob), one.path) for one in unmerged if one.stage}
        ours |= {one.path: _line(one.mode, one.blob, one.path) for one in unmerged if one.stage == OURS}
        if ours:
            self.do("update-index", "-z", "--index-info", stdin=b"".join(ours.values()), tree=True)

    def take_in(self, changed: Sequence[Entry], ways: Mapping[bytes, Way]) -> None:
        """Add what changed to our copy of the index: files, each in its way, and links; of a repository inside, the
        commit that it stands on. What is something else by now, such as a pipe, is gone; what git could never have is
        left out.
        """
        plain: dict[bytes, set[bytes]] = {}
        info = []
        for one in changed:
            at = self.place_of(one.path.rstrip(b"/"))
            if GIT_LIKE.search(one.path):
                continue
            if one.is_repository and os.path.isdir(at):
                info += self._linked(one, Path(os.fsdecode(at)))
                continue
            is_kept = self._is_kept(one.path)
            if is_kept:
                plain.setdefault(ways.get(one.path, RAW).attributes, set()).add(one.path)
            if one.is_tracked and (one.hidden or not is_kept):
                info.append(b"0 %s\t%s\0" % (b"0" * len(one.blob), one.path))
        if info:
            self.do("update-index", "-z", "--index-info", stdin=b"".join(info), tree=True)
        for attributes, paths in plain.items():
            stdin = b"\0".join([*sorted(paths), b""])
            with self._in_force(attributes):
                self.do("update-index", "--add", "--replace", "-z", "--stdin", stdin=stdin, tree=True)

    def _linked(self, one: Entry, at: Path) -> list[bytes]:
        found = git.find(at)
        commit = git.head(found).commit if found is not None and found.top == at else None
        return [_line("160000", commit, one.path.rstrip(b"/"))] if commit is not None else []


def _line(mode: str, name: str, path: bytes) -> bytes:
    """For `update-index --index-info`."""
    return b"%s %s 0\t%s\0" % (mode.encode(), name.encode(), path)


def _listed(path: str) -> str:
    """A path as one of several in a variable."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if set(path) & set(':"\\') else path


def _entry(one: Noted) -> Entry:
    return Entry(one.path, f"{one.mode:06o}", one.blob.hex(), one.stage, changed=True, hidden=one.is_hidden)


def _entries(lines: Iterable[bytes], top: bytes) -> list[Entry]:
    """What `git ls-files -v -s -c -o -m -d` says; a path that changed is there twice."""
    found: dict[tuple[bytes, int], Entry] = {}
    for line in lines:
        tag, rest = line[:1], line[2:]
        if tag in (b"?", b""):
            if rest:
                found[rest, 0] = Entry(rest, changed=True)
            continue
        facts, _, path = rest.partition(b"\t")
        mode, blob, stage = facts.decode().split()
        key = path, int(stage)
        # What is marked as unchanged or as left out of the tree is looked at all the same: marks can be set by anyone.
        left_out = tag.upper() == b"S" and not os.path.lexists(os.path.join(top, path))
        marked = tag.islower() or tag in (b"C", b"R", b"M", b"S")
        changed = (marked and not left_out) or (key in found and found[key].changed)
        hidden = tag.islower() or tag == b"S"
        found[key] = Entry(path, mode, blob, int(stage), changed, hidden)
    return list(found.values())

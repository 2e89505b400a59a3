"""Git, told to do something: in a repository of the user's, or in a bare one of ours.

What an agent could have planted in a working tree never runs: hooks are off, and an agent's tree is only ever looked
at through a git directory of ours, with no config, no attributes and no filters but our own. Of the config of the
user's own repository, filters are all that is run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from fleet.core import FleetError, ToolMissing, Unavailable
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import armour, files, git, index, objects
from fleet.host.armour import SURE
from fleet.host.attributes import ASKED, RAW, YES, Mark, Way, read_attributes, read_marks
from fleet.host.git import COMMIT, EMPTY_TREE, PREFIX, Repository
from fleet.host.index import Noted
from fleet.host.objects import TREE, Item, Listed
from fleet.host.run import LIMIT, Ran, run

SECONDS = 600.0
PIECE = 1024 * 1024
MUCH = 64 * 1024**2  # bytes; so much is compared with what is committed before it counts as changed
AUTOCRLF = re.compile(rb"autocrlf", re.IGNORECASE)
NO_MODES = re.compile(rb"filemode\s*=\s*\"?(false|no|off|0)", re.IGNORECASE)
NO = ("false", "no", "off", "0")
# What keeps half of its lines and its name was renamed. Git finds that at once, however many files there are; for those
# that change their names too it compares each with each, and gives up above a thousand.
BY_NAME = {"GIT_BASENAME_FACTOR": "0"}
QUIET = (
    "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false", "-c", "core.quotePath=false",
    "-c", "core.alternateRefsCommand=true", "-c", "log.showSignature=false",
)  # fmt: skip
# Nothing is ever asked of another machine, nor of a helper or program that the config names for it.
NOBODY = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
FROM_FILES = {"GIT_ALLOW_PROTOCOL": "file"}
FETCH = {"clone", "fetch", "submodule"}
# Variables of git's that say how it is reached and set up; every other one would lead it to another repository.
KEPT = re.compile(r"GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH|SSH.*|LFS.*|TERMINAL_PROMPT|AUTHOR.*|COMMITTER.*)\Z")
AS_IT_WAS = (b"H 100", b"H 120")  # what `ls-files -v -s` says of a file and of a link that git knows no more of
GIT_LIKE = re.compile(rb"(^|/)\.git(/|\Z)", re.IGNORECASE)  # no tree of git's may have such a path
OURS = 2  # the stage of an index
_locks: ContextVar[tuple[int, ...]] = ContextVar("locks", default=())
LOCKED = re.compile(r"Unable to create '([^']+\.lock)': File exists")
FULL = ("No space left on device", "Disk quota exceeded")


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


@contextmanager
def under(lock: int) -> Iterator[None]:
    """Every git that is started meanwhile holds this lock too: killed, we leave nobody who works on unseen."""
    before = _locks.set((*_locks.get(), lock))
    try:
        yield
    finally:
        _locks.reset(before)


def environment() -> dict[str, str]:
    """The user's own environment, without what would lead git somewhere else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or KEPT.match(name)}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"} | NOBODY


def ask(common: Path, *args: str, stdin: bytes = b"", cwd: Path | None = None) -> Ran:
    """Run git on a repository of the user's, without hooks."""
    argv = ["git", *QUIET, f"--git-dir={common}", *args]
    env = environment() | (FROM_FILES if FETCH.intersection(args) else {})
    return run(
        argv, cwd=cwd or common, env=env, timeout=SECONDS, stdin=stdin, keep=_locks.get(),
        doubt=partial(git.waits_in, common),
    )  # fmt: skip


def do(common: Path, *args: str, stdin: bytes = b"", what: str) -> str:
    """What git prints; a refusal is an error that says what was wanted."""
    done = ask(common, *args, stdin=stdin)
    if done.code:
        raise refused(done, what)
    return done.out.decode(errors="surrogateescape").strip()


def refused(done: Ran, what: str) -> FleetError:
    said = done.waits or " ".join(done.said.split())
    if any(words in said for words in FULL):
        return Unavailable(f"{what}: there is no room left on the disk", hint="fleet clean --places")
    if held := LOCKED.search(said):
        return Locked(what, Path(held[1]))
    return FleetError(f"{what}: {said or f'git ended with code {done.code}'}", hint="git status")


class Locked(Unavailable):
    """Another git has what we want, or was killed over it."""

    def __init__(self, what: str, lock: Path) -> None:
        self.lock = lock
        super().__init__(
            f"{what}: {clean(str(lock))} is there: another git works in this repository, or was killed",
            hint=f"if no git runs there: rm {shlex.quote(clean(str(lock)))}",
        )


class Waits(FleetError):
    """Something stands in a working tree at which git would wait for ever."""


def make_way(common: Path, ref: str) -> None:
    """Remove what stands where a ref of fleet's own goes: a link or a file for a directory, a directory for the ref."""
    steps = Path(ref).parts
    at = common / steps[0]
    if at.is_symlink() or steps[:2] != ("refs", "fleet"):
        return
    for number, step in enumerate(steps[1:], 2):
        at /= step
        is_last, is_directory = number == len(steps), at.is_dir() and not at.is_symlink()
        if os.path.lexists(at) and is_directory == is_last:
            remove_tree(at)


def ref(common: Path, name: str) -> str | None:
    """The commit that a ref of a repository names, read from files; None when there is no such ref."""
    found = git._ref(Repository(common, common, common), name)
    return found if found and COMMIT.match(found) else None


def refs(common: Path, under: str) -> list[tuple[str, str]]:
    """Every ref under a prefix, with what it names."""
    done = ask(common, "for-each-ref", "--format=%(refname) %(objectname)", under)
    if done.code:
        raise refused(done, f"the branches of {common} cannot be read")
    lines = (line.rsplit(" ", 1) for line in done.out.decode(errors="surrogateescape").splitlines())
    return [(name, commit) for name, commit in lines]


def blob(common: Path, name: str) -> Iterator[bytes]:
    """The bytes of a file that a repository keeps, piece by piece."""
    argv = ["git", *QUIET, f"--git-dir={common}", "cat-file", "blob", name]
    with subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(PIECE):
            yield piece
    if process.returncode:
        raise FleetError(f"{name} cannot be read from {common}", hint=f"git --git-dir={common} fsck")


def linked(common: Path) -> Iterator[tuple[Path, Path, str]]:
    """Each linked worktree: its entry in the repository, where it stands, and its branch ("" when detached)."""
    with suppress(OSError):
        for own in sorted((common / "worktrees").iterdir()):
            marker = git._line(own / "gitdir")
            if marker:
                where = Path(marker) if os.path.isabs(marker) else (own / marker)
                yield own, where.parent, branch_of(own)


def linked_below(common: Path, top: Path) -> list[tuple[Path, Path]]:
    """The linked worktrees below a directory: their entries in the repository, and where they stand."""
    at = top.resolve()
    return [(own, where) for own, where, _ in linked(common) if at in where.resolve().parents]


def tree_of(common: Path, commit: str) -> str | None:
    """The tree of a commit in a repository of the user's; None when it is not there."""
    done = ask(common, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
    return done.out.decode().strip() or None


def branch_of(own: Path) -> str:
    line = git._line(own / "HEAD") or ""
    return line.removeprefix("ref: refs/heads/").strip() if line.startswith("ref: refs/heads/") else ""


@contextmanager
def workshop(found: Repository, *borrowed: Path, write_to: Path | None = None) -> Iterator[Workshop]:
    """A bare repository of ours beside a working tree of an agent's, which borrows objects and copies the index.

    What is made there goes with it, unless it is written to the objects of another repository.
    """
    with TemporaryDirectory(prefix=PREFIX) as made:
        at = Path(made)
        armour.borrow(at, found.common / "objects", *borrowed)
        files.write(at / "info/attributes", RAW.attributes)
        _copy(found, at)
        git.copy_exclude(found.common, at)
        yield Workshop(found.top, at, write_to)


def _copy(found: Repository, at: Path) -> None:
    """The index with what it needs."""
    index.copy(found.own / "index", at / "index")
    with suppress(OSError):
        for one in found.own.iterdir():
            if one.name.startswith("sharedindex."):
                index.copy(one, at / one.name)


class Workshop:
    """Questions about a working tree, none of which can run anything that stands in it."""

    def __init__(self, top: Path, at: Path, write_to: Path | None = None) -> None:
        self.top = top
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
            keep=_locks.get(), limit=limit, doubt=partial(self._waits_for, top if tree else None), wary=True,
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

    def entries(self, *, ignored: bool = False) -> list[Entry]:
        """Every path that the index knows, and every other one; ignored ones only when they are asked for."""
        return _entries(self._listed(ignored).split(b"\0"), os.fsencode(self.top))

    def changed(self, since: float | None = None) -> list[Entry]:
        """What may not be as the index has it, and every repository inside; ignored paths are left out. What was
        touched since some moment is part of it.
        """
        noted = index.differing(self.at / "index", self.top, since)
        if noted is None or sum(one.size for one in noted) > MUCH:
            return self._compared()
        tracked = [_entry(one) for one in noted if not (one.is_left_out and self._is_without(one.path))]
        out = self.do("ls-files", "-z", "-o", "--exclude-standard", tree=True)
        return tracked + [Entry(path, changed=True) for path in out.split(b"\0") if path]

    def _compared(self) -> list[Entry]:
        """The same by git, which reads what may have changed before it says so."""
        out = self._listed(ignored=False)
        lines = [line for line in out.split(b"\0") if not line.startswith(AS_IT_WAS)]
        found = _entries(lines, os.fsencode(self.top))
        return [one for one in found if one.changed or one.is_repository]

    def _is_without(self, path: bytes) -> bool:
        return not os.path.lexists(os.path.join(os.fsencode(self.top), path))

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
            if mode.startswith("1") and mode != "160000" and _is_kept(self.top / os.fsdecode(path)):
                found.append(Entry(path, mode, blob, changed=True, hidden=True))  # whatever its time is
        return found

    def attributes(self, paths: Sequence[bytes], tree: str, more: bytes) -> dict[bytes, dict[str, str]]:
        """Attributes of paths by what stands in a commit or a tree, and by more that goes before it."""
        lists = self._lists(tree)
        if not lists and not more:
            return {path: {} for path in paths}
        small = "attributes.index"
        (self.at / small).unlink(missing_ok=True)
        self.ask("update-index", "-z", "--index-info", stdin=b"".join(lists), index=small)
        with self._in_force(more):
            stdin = b"\0".join([*paths, b""])
            done = self.ask("check-attr", "-z", "--cached", "--stdin", *ASKED, stdin=stdin, index=small)
        return read_attributes(done.out)

    def _lists(self, tree: str) -> list[bytes]:
        """The lists of attributes in a commit or a tree, as an index takes them in."""
        asked = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev", EMPTY_TREE, tree, "--", ":(glob)**/.gitattributes")
        words = self.ask("diff-tree", *asked).out.split(b"\0")
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
        return [Item(mode, name.decode(), path) for mode, name, path in self._listing(tree, what) if mode != TREE]

    def paths(self, tree: str) -> list[bytes]:
        """The same, by their paths alone."""
        return [path for mode, _, path in self._listing(tree) if mode != TREE]

    def _listing(self, tree: str, what: str = "") -> list[Listed]:
        out = self.do("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", tree, what=what)
        found = objects.read_listing(out)
        objects.must_hold(tree, found, self.contents)
        return found

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
            at = self.top / os.fsdecode(one.path.rstrip(b"/"))
            if GIT_LIKE.search(one.path):
                continue
            if one.is_repository and at.is_dir():
                info += self._linked(one, at)
                continue
            is_kept = _is_kept(at)
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


def _is_kept(path: Path) -> bool:
    """Whether git can have what stands there."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


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


def feed(argv: list[str], pieces: Iterable[bytes], *, cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run a program that is given more than memory should hold; a piece that cannot be had ends it."""
    with TemporaryFile() as out, TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=_locks.get(),
            )
        except FileNotFoundError as problem:
            raise ToolMissing(f"{argv[0]} is not installed") from problem
        with process:
            assert process.stdin is not None
            try:
                with suppress(BrokenPipeError):
                    for piece in pieces:
                        process.stdin.write(piece)
                with suppress(BrokenPipeError):
                    process.stdin.close()
            except BaseException:
                process.kill()
                with suppress(BrokenPipeError):
                    process.stdin.close()
                raise
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, out.read(index.LARGEST), err.read(1024 * 1024))


def fast_import(common: Path, pieces: Iterable[bytes]) -> Ran:
    """Write objects and a ref into a repository in one go: all of it, or no ref. The last word is `done`."""
    argv = ["git", *QUIET, "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", f"--git-dir={common}",
            "fast-import", "--done", "--quiet", "--date-format=raw-permissive"]  # fmt: skip
    env = environment() | SURE
    return feed(argv, pieces, cwd=common, env=env)


class Stuck(FleetError):
    """Something that the user may not delete."""

    def __init__(self, path: Path, problem: OSError) -> None:
        which = os.fsdecode(problem.filename or path)
        at = which if os.path.isabs(which) else f"{path}: {which}"
        super().__init__(
            f"{clean(at)} cannot be removed: {problem.strerror}", hint=f"sudo rm -r {shlex.quote(clean(str(path)))}"
        )


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, also what its owner may not write to; links are not followed."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            _remove_directory(path)
    except OSError as problem:
        raise Stuck(path, problem) from problem


def _remove_directory(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:  # somebody else removes it too
        shutil.rmtree(path, ignore_errors=True)
    except PermissionError:
        _open_up(path)
        shutil.rmtree(path)
    except RecursionError:
        _remove_deep(path)


def _remove_deep(path: Path) -> None:
    """Remove what has more directories in each other than `rmtree` can call itself for."""
    _open_up(path)
    for directory, folders, names in reversed(list(files.walk(str(path)))):
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in (*names, *links):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _open_up(path: Path) -> None:
    """Let the user into every directory of a tree that is theirs; nothing above it is touched."""
    with suppress(OSError):
        os.chmod(path, stat.S_IRWXU)
    for directory, folders, _ in files.walk(str(path)):
        for name in folders:
            inner = os.path.join(directory, name)
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, stat.S_IRWXU)


def room(path: Path) -> int:
    """How many bytes are free where a path is, or would be."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def now() -> float:
    return time.time()

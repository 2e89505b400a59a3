"""The git tree of what stands in a place, and what became of one tree by another: nothing that stands there is run."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.core.text import clean, sayable
from fleet.evidence.receipt import COMMITS
from fleet.host import files, git, inside, repository
from fleet.host.attributes import Way, way
from fleet.host.git import EMPTY_TREE, Repository
from fleet.host.objects import Forged
from fleet.host.repository import Entry, Workshop

LANDING = "refs/fleet/attempts/"
FOUND = "refs/fleet/found/"  # what an attempt found, where that was not all committed
LARGEST = 1024**3  # bytes that are not committed
MOST_READ = 64 * 1024**2  # bytes of a difference that are held at once
LONGEST_TARGET = 4096  # bytes; no system takes a longer one
WHO = "fleet <fleet@localhost>"
SIDES = [re.compile(mark, re.MULTILINE) for mark in (rb"^<{7} ", rb"^={7}\r?$", rb"^>{7} ")]
RAW_LINE = re.compile(r":([0-7]+) ([0-7]+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*\Z")
TREE_MODE, FILE_MODES = "040000", ("100644", "100755", "120000")
KINDS = {"A": ChangeKind.ADDED, "D": ChangeKind.DELETED, "R": ChangeKind.RENAMED, "C": ChangeKind.ADDED}
ENTRIES = {"120000": EntryKind.SYMLINK, "160000": EntryKind.SUBMODULE}


class NotTaken(FleetError):
    """No tree can be made of what stands in a place."""


@dataclass(frozen=True, slots=True)
class Stand:
    """What stands in a place: the commit it is at, and the tree with everything that git does not ignore."""

    head: str | None
    tree: str
    committed: str | None  # the tree of that commit
    left_out: tuple[LeftOut, ...] = ()  # files that differ from the tree, and which only a filter could put into it
    inside: tuple[Entry, ...] = ()  # repositories
    unmerged: tuple[str, ...] = ()  # files in which both sides of a merge still stand

    @property
    def is_committed(self) -> bool:
        return self.committed == self.tree


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: str
    filter: str
    at: float  # when it was last written to, or its attributes were


@contextmanager
def look_into(found: Repository, *borrowed: Path) -> Iterator[Trees]:
    """Trees of a repository that an agent can write to. What is made of its files becomes objects of that repository,
    through a git directory of ours: its own config, hooks, filters and attributes are never in force.
    """
    objects = found.common / "objects"
    with repository.workshop(found, *borrowed, write_to=objects) as shop:
        git.add_own_exclude(shop.at)
        yield Trees(found, shop)


class Ways:
    """What git would do to the bytes of files that changed. Only what the base says keeps a file out. Attributes that
    an agent can write do not; but what its own git took in through a filter is as its index has it.
    """

    def __init__(self, shop: Workshop, base: str | None, head: str | None, settings: Path) -> None:
        self._shop = shop
        self._base, self._head, self._settings = base or EMPTY_TREE, head or EMPTY_TREE, settings
        self.by_path: dict[bytes, Way] = {}

    def apart(self, changed: list[Entry]) -> tuple[tuple[LeftOut, ...], list[Entry]]:
        """What only a filter could take in, and everything else that is to be taken."""
        files = {one.path: facts for one in changed if (facts := self._file(one)) is not None}
        if not files:
            return (), changed
        strict, lenient, anew = self._filters(list(files))
        filtered = strict.keys() | lenient
        marks = self._shop.marks() if filtered or anew else {}
        noted = {path for path in filtered | anew.keys() if path in marks and marks[path].is_of(files[path])}
        self.by_path |= {path: anew[path] for path in anew.keys() & noted}
        as_noted = filtered & noted
        out = strict.keys() - as_noted
        self._shop.side_with_us([one for one in changed if one.path in out])
        told = (LeftOut(os.fsdecode(path), strict[path], files[path].st_ctime) for path in sorted(out))
        return tuple(told), [one for one in changed if one.path not in out | as_noted]

    def _filters(self, paths: list[bytes]) -> tuple[dict[bytes, str], set[bytes], dict[bytes, Way]]:
        """Which paths the base has a filter for; which others have one by what an agent could have written; and which
        go another way by the last commit than by the base.
        """
        more = git.text(self._settings / "info/attributes")
        autocrlf = self._shop.converts_lines(self._settings)
        asked = {
            key: {path: way(found, autocrlf) for path, found in self._shop.attributes(paths, *key).items()}
            for key in dict.fromkeys(((self._base, b""), (self._base, more), (self._head, more)))
        }
        self.by_path = asked[self._base, more]
        strict = {path: one.filter for path, one in asked[self._base, b""].items() if one.filter}
        lenient = {path for found in asked.values() for path, one in found.items() if one.filter}
        by_head = asked[self._head, more]
        return strict, lenient, {path: one for path, one in by_head.items() if self.by_path.get(path) != one}

    def _file(self, one: Entry) -> os.stat_result | None:
        try:
            facts = os.lstat(self._shop.place_of(one.path))
        except OSError:
            return None
        return facts if stat.S_ISREG(facts.st_mode) else None


class Trees:
    """Questions about the trees of one repository, and the one thing that is written: a commit of what stood there."""

    def __init__(self, found: Repository, shop: Workshop) -> None:
        self._found = found
        self._shop = shop
        self._true: set[str] = set()  # objects that are what they are called

    def take(
        self,
        *,
        leave_out: Collection[str] = (),
        base: str | None = None,
        settings: Path | None = None,
        since: float | None = None,
    ) -> Stand:
        """The tree of what stands in the working tree now. Paths that are left out are as the last commit has them.
        What was touched since some moment is read, whatever the index says of it.

        What git would do to the bytes is known by the attributes of the base, which is the last commit unless it is
        given, and by the settings of the repository that is the user's.
        """
        head = git.head(self._found).commit
        self._shop.heed_modes(settings or self._found.common)
        without = {os.fsencode(path) for path in leave_out}
        changed = [one for one in self._differing(head, since) if one.path not in without or one.is_tracked]
        ways = Ways(self._shop, base or head, head, settings or self._found.common)
        left_out, changed = ways.apart(changed)
        self._must_be_small(changed)
        self._shop.take_in(changed, ways.by_path)
        tree = self._shop.do("write-tree", "--missing-ok", tree=True).decode().strip()
        return Stand(
            head,
            tree,
            committed=self.tree_of(head) if head is not None else None,
            left_out=left_out,
            inside=tuple(one for one in changed if one.is_repository),
            unmerged=tuple(sorted({os.fsdecode(one.path) for one in changed if one.stage and self._has_both(one)})),
        )

    def tree_of(self, commit: str) -> str | None:
        """The tree of a commit; None when it is not there."""
        done = self._shop.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
        return done.out.decode().strip() or None if done.code == 0 else None

    def commit_of(self, stand: Stand, message: str) -> str:
        """A commit with exactly that tree: the head itself, or one of ours on top of it."""
        return stand.head if stand.head is not None and stand.is_committed else self._commit(stand, message)

    def _commit(self, stand: Stand, message: str) -> str:
        now = int(repository.now())
        parent = f"parent {stand.head}\n" if stand.head else ""
        content = f"tree {stand.tree}\n{parent}author {WHO} {now} +0000\ncommitter {WHO} {now} +0000\n\n{message}\n"
        made = self._shop.do("hash-object", "-t", "commit", "-w", "--stdin", stdin=content.encode())
        return made.decode().strip()

    def changes(self, before: str | None, after: str) -> list[Change]:
        """Every path that differs between two trees, as the system has it; what was renamed is one change."""
        if before == after:
            return []
        ends = (before or EMPTY_TREE, after)
        out = self._diff("-t", "--no-renames", *ends)
        found = read_changes(out)
        if not self._is_all_true(*ends, out=out):
            found = [replace(one, added=None, removed=None) for one in found]
        elif {ChangeKind.ADDED, ChangeKind.DELETED} <= {one.change for one in found}:
            found = read_changes(self._diff("-M", "-l1000", *ends))
        blobs = [one.target for one in found if one.target is not None]
        targets = self._shop.contents(blobs) if blobs else {}
        return [replace(one, target=_target(targets.get(one.target))) if one.target else one for one in found]

    def _diff(self, *args: str) -> bytes:
        form = ("-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv")
        return self._shop.do("diff-tree", *form, *args, "--")

    def _is_all_true(self, *ends: str, out: bytes) -> bool:
        """Refuse what is not what it is called of all that a difference is known by: whoever changes what the base says
        of a file could hide what became of it. Whether that was all: of files that are too large nobody knows, so what
        git says of their lines, and of new names, does not count.
        """
        trees, blobs = named_in(out)
        needed = {*ends, *trees} - self._true - {EMPTY_TREE}
        asked = [*sorted(needed), *sorted(blobs - self._true)]
        self._true |= self._shop.contents(asked, limit=MOST_READ).keys() if asked else set()
        if missing := needed - self._true:
            raise Forged(f"the tree {min(missing)} is not there")
        return blobs <= self._true

    def names(self, tree: str) -> list[str]:
        """Every path of a tree, which is the one of that name."""
        return [os.fsdecode(path) for path in self._shop.paths(tree)]

    def commits(self, base: str | None, tip: str) -> list[tuple[str, str]]:
        """The commits after the base, newest first: hash and subject."""
        span = [tip] if base is None else [f"{base}..{tip}"]
        done = self._shop.ask("log", "-z", f"-n{COMMITS}", "--format=%H %s", "--end-of-options", *span, "--")
        text = done.out.decode(errors="surrogateescape") if done.code == 0 else ""
        lines = (line.partition(" ") for line in text.split("\0") if line)
        return [(commit, subject) for commit, _, subject in lines]

    def _changed(self, head: str | None, since: float | None) -> list[Entry]:
        """What differs from our copy of the index. An index that makes no sense is made anew from the last commit."""
        try:
            return self._shop.changed(since)
        except repository.Waits:
            raise
        except FleetError:
            (self._shop.at / "index").unlink(missing_ok=True)
            self._shop.do("read-tree", "--reset", head or EMPTY_TREE)
            return self._shop.changed()

    def _differing(self, head: str | None, since: float | None) -> list[Entry]:
        """What differs from the index. What is staged is looked at again, because another agent may be able to write
        to the index; and a worktree inside is no part of this one.
        """
        inner = {os.fsencode(at) + b"/" for _, at in repository.linked_below(self._found.common, self._found.top)}
        top = os.fsencode(self._found.top)
        changed = [
            one for one in self._changed(head, since) if one.is_tracked or os.path.join(top, one.path) not in inner
        ]
        known = {one.path for one in changed}
        return changed + [one for one in self._shop.staged(head or EMPTY_TREE) if one.path not in known]

    def _has_both(self, one: Entry) -> bool:
        """Whether git's marks of both sides stand in a file. That git was not told of the end of a merge is no harm."""
        try:
            text, at = files.read(self._shop.top / os.fsdecode(one.path)) or b"", 0
        except OSError:
            return False
        for side in SIDES:
            found = side.search(text, at)
            if found is None:
                return False
            at = found.end()
        return True

    def _must_be_small(self, changed: Collection[Entry]) -> None:
        size = 0
        for one in changed:
            at = self._shop.place_of(one.path)
            size += _size(at)
            if size > LARGEST:
                last = clean(sayable(os.fsdecode(at)))
                raise NotTaken(
                    f"more than {LARGEST // 1024**2} MB are not committed, the last of it {last}",
                    hint="let git ignore what is large, or commit it",
                )


def _target(content: bytes | None) -> str | None:
    return None if content is None else os.fsdecode(content[:LONGEST_TARGET])


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def point(common: Path, ref: str, commit: str) -> None:
    """Let a ref of fleet's own name a commit, without a git that reads the repository's config."""
    try:
        repository.make_way(common, ref)
        inside.write(common, ref, f"{commit}\n".encode(), 0o644)
    except NotADirectoryError as problem:
        said = f"{ref} cannot be written in {clean(str(common))}: {problem.strerror}"
        raise FleetError(said, hint=f"ls -la {shlex.quote(clean(str(common)))}") from None


def read_changes(out: bytes) -> list[Change]:
    """What `git diff-tree -r -z --raw --numstat` says, but for trees; for the target of a link stands the name of its
    blob. A path is there by its name alone: how many lines differ is not told of what reads the same.
    """
    words = iter(out.decode(errors="surrogateescape").split("\0"))
    found: dict[str, Change] = {}
    for word in words:
        if (raw := RAW_LINE.match(word)) and TREE_MODE in raw.group(1, 2):
            next(words)
        elif word.startswith(":"):
            change = _raw(word, words)
            found[change.path] = change
        elif word.count("\t") >= 2:
            change = _counted(word, words, found)
            found[change.path] = change
    return list(found.values())


def named_in(out: bytes) -> tuple[set[str], set[str]]:
    """The trees that `git diff-tree -t --raw` tells of, and the files and links by which their difference is known:
    those that changed; and where some came and some went, these too, for they may be the same.
    """
    trees: set[str] = set()
    blobs: dict[str, set[str]] = {}
    words = iter(out.decode(errors="surrogateescape").split("\0"))
    for word in words:
        if found := RAW_LINE.match(word):
            next(words)  # its path, which may look like anything
            *sides, status = (found.group(1, 3), found.group(2, 4), found[5])
            trees |= {name for mode, name in sides if mode == TREE_MODE}
            blobs.setdefault(status, set()).update(name for mode, name in sides if mode in FILE_MODES)
    came, went = blobs.pop("A", set()), blobs.pop("D", set())
    return trees, set().union(*blobs.values(), came | went if came and went else ())


def _raw(word: str, words: Iterator[str]) -> Change:
    """`:100644 100755 HASH HASH M`, then the path; of what was renamed the old one before it."""
    old_mode, mode, _, blob, status = word[1:].split(" ")
    path = next(words)
    old_path = None
    if status[0] in "RC":
        old_path, path = path, next(words)
    entry = ENTRIES.get(mode if status[0] != "D" else old_mode, EntryKind.FILE)
    return Change(
        path=path,
        change=KINDS.get(status[0], ChangeKind.MODIFIED),
        entry=entry,
        old_path=old_path if status[0] == "R" else None,
        old_mode=None if status[0] == "A" else old_mode,
        mode=None if status[0] == "D" else mode,
        target=blob if mode == "120000" else None,
    )


def _counted(word: str, words: Iterator[str], raw: dict[str, Change]) -> Change:
    """`12\t3\tpath`, or `12\t3\t`, the old path and the new one."""
    added, removed, path = word.split("\t", 2)
    if not path:
        next(words)
        path = next(words)
    return replace(raw[path], added=_number(added), removed=_number(removed))


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() else None

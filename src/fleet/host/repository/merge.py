"""Commits merged without a working tree, in a bare repository of ours: no driver, filter or hook of anybody's runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.host import files
from fleet.host.attributes import RAW
from fleet.host.git import COMMIT, Repository
from fleet.host.repository.tell import ask, refused
from fleet.host.repository.workshop import Workshop, workshop

CLEAN_MERGE, CONFLICT = 0, 1
FLEET_IDENTITY = "fleet <fleet@localhost>"
MERGE_ATTRIBUTE = re.compile(rb"([-!]?merge(=\S+)?|binary)\Z")
NOT_BY_DRIVER = (b"merge=union", b"merge=binary", b"merge=text", b"merge", b"-merge", b"!merge")


@dataclass(frozen=True, slots=True)
class Merged:
    """The tree of two commits together, or the files in which they cannot be."""

    tree: str
    conflicts: tuple[str, ...] = ()


@contextmanager
def merging(common: Path, tip: str | None) -> Iterator[Merger]:
    """Merge in a repository of ours that borrows the user's objects and writes what it makes to them.

    How files are merged is by the attributes of the tip alone: those of a result could resolve every conflict by guess.
    """
    nowhere = Repository(common, common / "fleet-has-no-index", common)
    with workshop(nowhere, write_to=common / "objects") as shop:
        attributes = _merge_attributes(shop, tip) if tip is not None else b""
        files.write(shop.at / "info/attributes", RAW.attributes + attributes)
        yield Merger(shop, common)


class Merger:
    """Merges commits of one repository, and makes commits of the trees."""

    def __init__(self, shop: Workshop, common: Path) -> None:
        self._shop, self._common = shop, common

    def merge(self, ours: str, theirs: str) -> Merged:
        """The tree of two commits by their histories."""
        done = self._shop.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *paths = done.out.decode(errors="surrogateescape").split("\0")
        if done.code not in (CLEAN_MERGE, CONFLICT) or not COMMIT.match(tree):
            raise refused(done, f"{ours[:12]} and {theirs[:12]} cannot be merged")
        if done.code == CLEAN_MERGE:
            return Merged(tree)
        return Merged(tree, tuple(dict.fromkeys(sayable(path) for path in paths if path)) or ("(unknown files)",))

    def merge_from(self, base: str, ours: str, theirs: str) -> Merged:
        """The tree of two commits as if the first had been made right on a base, which the second contains: what their
        histories say of each other does not count.
        """
        return self.merge(self.commit(self.tree_of(ours), (base,), "ours, on the base"), theirs)

    def tree_of(self, commit: str) -> str:
        return (
            self._shop.do("rev-parse", "--verify", f"{commit}^{{tree}}", what=f"{commit[:12]} cannot be read")
            .decode()
            .strip()
        )

    def contains(self, commit: str, other: str) -> bool:
        """Whether a commit has another one in its history."""
        return self._shop.ask("merge-base", "--is-ancestor", other, commit).code == 0

    def independent(self, commits: Sequence[str]) -> list[str]:
        """These commits without those that others of them contain."""
        return self._shop.do("merge-base", "--independent", *commits).decode().split()

    def author_of(self, commit: str) -> str:
        """Who made a commit, and when, as git writes it down."""
        return (
            self._shop.do("log", "-1", "--format=%an <%ae> %ad", "--date=raw", commit).decode(errors="replace").strip()
        )

    def paths_between(self, old: str, new: str) -> list[str]:
        out = self._shop.do("diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new)
        return [os.fsdecode(path) for path in out.split(b"\0") if path]

    def commit(self, tree: str, parents: Sequence[str], message: str, *, author: str = "", who: str = "") -> str:
        """A commit of a tree; the same inputs make the same commit, unless somebody is named."""
        author, who = author or who or f"{FLEET_IDENTITY} 0 +0000", who or f"{FLEET_IDENTITY} 0 +0000"
        lines = [f"tree {tree}", *(f"parent {one}" for one in dict.fromkeys(parents)), f"author {author}"]
        content = "\n".join([*lines, f"committer {who}", "", message.rstrip("\n"), ""])
        made = self._shop.do("hash-object", "-t", "commit", "-w", "--stdin", stdin=content.encode(errors="replace"))
        return made.decode().strip()

    def committer(self, now: int) -> str:
        """Whom git takes for the user in this repository, with the moment; fleet where it knows nobody."""
        done = ask(self._common, "var", "GIT_COMMITTER_IDENT")
        said = done.out.decode(errors="replace").strip()
        return said if done.code == 0 and said else f"{FLEET_IDENTITY} {now} +0000"


def must_be_whole(common: Path) -> None:
    """Refuse a shallow clone: its histories end where they do not, so that merges would be wrong."""
    if (common / "shallow").exists():
        where = clean(sayable(str(common)))
        raise FleetError(f"{where} is a shallow clone: its history is cut off", hint="git fetch --unshallow")


def _merge_attributes(shop: Workshop, tip: str) -> bytes:
    """What the .gitattributes of a commit say of merging, each pattern from the top; no driver is named by it."""
    out = shop.do("ls-tree", "-r", "-z", "--full-tree", tip)
    entries = [(facts, path) for facts, _, path in (entry.partition(b"\t") for entry in out.split(b"\0"))]
    lines: list[bytes] = []
    for facts, path in sorted(entries, key=lambda one: one[1].count(b"/")):  # what is deeper says more
        if path.rpartition(b"/")[2] == b".gitattributes" and facts.split()[1:2] == [b"blob"]:
            name = facts.split()[2].decode()
            text = shop.contents([name]).get(name, b"")
            lines += _from_top(text, path.rpartition(b"/")[0])
    return b"".join(line + b"\n" for line in lines)


def _from_top(text: bytes, directory: bytes) -> Iterator[bytes]:
    for line in text.splitlines():
        pattern, *attributes = line.split()[:1] + line.split()[1:] or [b""]
        wanted = [_own_way(one) for one in attributes if MERGE_ATTRIBUTE.match(one)]
        if not wanted or pattern.startswith((b"#", b"[", b'"')):
            continue
        if directory:
            inner = pattern.lstrip(b"/")
            pattern = directory + (b"/" if b"/" in pattern.rstrip(b"/") else b"/**/") + inner
        yield b" ".join([pattern, *wanted])


def _own_way(attribute: bytes) -> bytes:
    """A merge attribute without what would name a program: such a file is merged as text."""
    if attribute == b"binary":
        return b"-merge"
    return attribute if attribute in NOT_BY_DRIVER else b"merge=text"

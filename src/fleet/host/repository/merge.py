"""Commits of a repository merged in a bare one of ours: no checkout, index, hook, driver or setting is involved."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from fleet.core import FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.host import files
from fleet.host.git import COMMIT, EMPTY_TREE
from fleet.host.repository.tell import ask, refused
from fleet.host.repository.workshop import Workshop

COMMITTER = "fleet <fleet@localhost>"
CLEAN, CONFLICTS = 0, 1  # exit codes of merge-tree
ATTRIBUTES = ".gitattributes"
MADE_UP = re.compile(r"~[0-9a-f]{40}\Z")  # what git appends where a file and a directory want the same name


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of two commits: a tree, and the files in which both sides changed the same."""

    tree: str
    conflicts: tuple[str, ...] = ()


class Merges:
    """Merges of commits of one repository. What is made is written to its objects, and kept once a ref names it."""

    def __init__(self, shop: Workshop, common: Path) -> None:
        self._shop = shop
        shallow = files.read(common / "shallow")
        if shallow is not None:  # else git asks for commits that were never fetched
            files.write(shop.at / "shallow", shallow)

    def is_there(self, commit: str) -> bool:
        return self._shop.ask("cat-file", "-e", f"{commit}^{{commit}}").code == 0

    def has(self, commit: str, other: str) -> bool:
        """Whether a commit has another one among its ancestors, or is that one."""
        return self._shop.ask("merge-base", "--is-ancestor", other, commit).code == 0

    def independent(self, commits: Sequence[str]) -> set[str]:
        """The commits that none of the others has among its ancestors."""
        out = self._shop.do("merge-base", "--independent", *dict.fromkeys(commits), what="results cannot be compared")
        return set(out.decode().split())

    def tree_of(self, commit: str) -> str:
        return self._shop.do("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def merge(self, ours: str, theirs: str) -> Merged:
        """The tree of both. A conflict is an answer; what git cannot merge at all is an error."""
        asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
        done = self._shop.ask(*asked)
        tree, *names = done.out.decode(errors="surrogateescape").split("\0")
        if done.code not in (CLEAN, CONFLICTS) or not COMMIT.match(tree):
            raise refused(done, f"{ours[:12]} and {theirs[:12]} cannot be merged")
        conflicts = tuple(dict.fromkeys(clean(sayable(MADE_UP.sub("", name))) for name in names if name))
        if done.code == CONFLICTS and not conflicts:
            raise FleetError(f"{ours[:12]} and {theirs[:12]} do not merge, and git names no file")
        return Merged(tree, conflicts)

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """A commit that is the same whenever it is made: its date is that of its newest parent."""
        out = self._shop.do("show", "-s", "--format=%ct", *parents)
        date = max(int(word) for word in out.split())
        lines = [f"tree {tree}", *(f"parent {one}" for one in parents)]
        lines += [f"author {COMMITTER} {date} +0000", f"committer {COMMITTER} {date} +0000", "", message]
        made = self._shop.do("hash-object", "-t", "commit", "-w", "--stdin", stdin="\n".join(lines).encode())
        return made.decode().strip()

    def merge_from(self, base: str, ours: str, theirs: str) -> Merged:
        """The tree of two commits as if ours had been made right on a base, which theirs contains: what their histories
        say of each other does not count.
        """
        return self.merge(self.commit(self.tree_of(ours), (base,), "ours, on the base"), theirs)

    def author_of(self, commit: str) -> str:
        """Who made a commit, and when, as git writes it down."""
        out = self._shop.do("log", "-1", "--format=%an <%ae> %ad", "--date=raw", commit)
        return out.decode(errors="replace").strip()

    def commit_by(self, tree: str, parents: Sequence[str], message: str, *, author: str, committer: str) -> str:
        """A commit by somebody, at some moment, both as git writes them down."""
        lines = [f"tree {tree}", *(f"parent {one}" for one in parents), f"author {author}", f"committer {committer}"]
        text = "\n".join([*lines, "", message.rstrip("\n"), ""])
        made = self._shop.do("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode(errors="replace"))
        return made.decode().strip()

    def replay(self, base: str, tip: str, onto: str, committer: str) -> str | None:
        """The commits between a base and a tip, each on top of another commit; None when one of them does not fit."""
        out = self._shop.do("rev-list", "--reverse", "--topo-order", "--no-merges", f"{base}..{tip}")
        current = onto
        for one in out.decode().split():
            parents = self._shop.do("show", "-s", "--format=%P", one).decode().split()
            merged = self.merge_from(parents[0] if parents else base, current, one)
            if merged.conflicts:
                return None
            if merged.tree != self.tree_of(current):
                message = self._shop.do("log", "-1", "--format=%B", one).decode(errors="replace")
                author = self.author_of(one)
                current = self.commit_by(merged.tree, (current,), message, author=author, committer=committer)
        return current

    def heed_attributes(self, commit: str) -> None:
        """Merge from now on as the attribute files of a commit ask, as far as git knows how without a program: a bare
        repository sees none of them by itself.
        """
        asked = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev", EMPTY_TREE, self.tree_of(commit))
        words = self._shop.do("diff-tree", *asked, "--", f":(glob)**/{ATTRIBUTES}").split(b"\0")
        names = {path: facts.split()[3].decode() for facts, path in zip(words[::2], words[1::2], strict=False)}
        if not names:
            return
        contents = self._shop.contents(names.values())
        outer_first = sorted(names, key=lambda path: path.count(b"/"))
        lists = [attributes_below(os.path.dirname(path), contents.get(names[path], b"")) for path in outer_first]
        files.write(self._shop.at / "info/attributes", b"".join(lists))


def committer(common: Path, moment: float) -> str:
    """Whom git takes for the user in a repository, with the moment; fleet where it knows nobody."""
    done = ask(common, "var", "GIT_COMMITTER_IDENT")
    known = done.out.decode(errors="replace").strip()
    return known if done.code == 0 and known else f"{COMMITTER} {int(moment)} +0000"


def attributes_below(directory: bytes, content: bytes) -> bytes:
    """A list of attributes as it reads from the top of the repository."""
    if not directory:
        return content.rstrip(b"\n") + b"\n"
    lines = []
    for line in content.splitlines():
        pattern, space, rest = line.strip().partition(b" ")
        if not pattern or pattern.startswith((b"#", b"[attr]", b'"', b"!")):
            continue  # macros count at the top alone
        inner = pattern.lstrip(b"/") if b"/" in pattern.rstrip(b"/") else b"**/" + pattern
        lines.append(directory + b"/" + inner + space + rest + b"\n")
    return b"".join(lines)

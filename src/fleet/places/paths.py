"""Names and paths: which repository a directory belongs to, which branch names are legal, where a place stands."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from fleet.core import BadConfig, FleetError
from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.host import git, repository
from fleet.places import record
from fleet.places.base import Place

PLACES = "places"
SLUG = 40  # characters of a branch's name that are kept for people
PART, MOST = 250, 1000  # bytes: git keeps a branch in files of its parts, and adds ".lock"; and of the whole name
ODD = re.compile(r"[^A-Za-z0-9._-]+")
WORKTREE = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)
# What says that a repository's objects have longer names, or that its refs are no files.
NEWER = re.compile(r"^\s*(objectformat|refstorage)\s*=\s*\"?(?!sha1\b|files\b)([\w-]+)", re.MULTILINE | re.IGNORECASE)
WORDS = {"objectformat": "the object format", "refstorage": "its refs as"}
FORBIDDEN = {" ": "a space", "~": "a ~", "^": "a ^", ":": "a :", "?": "a ?", "*": "a *", "[": "a [", "\\": "a \\"}
NEXT = "choose another name, such as fix-login"


@dataclass(frozen=True, slots=True)
class Project:
    """A repository of the user's: the top of its main working tree, and where git keeps its things.

    A bare repository has no working tree: its top is the repository itself.
    """

    top: Path
    common: Path

    @property
    def is_bare(self) -> bool:
        return self.top == self.common

    @property
    def name(self) -> str:
        return self.top.name.removesuffix(".git") or "repository"


def project(cwd: Path) -> Project | None:
    """The main repository of a directory anywhere in it, in one of its worktrees, or in a clone that is a place."""
    found = git.find(cwd.resolve())
    origin = record.origin(found.top) if found is not None else None
    if origin is not None:  # followed once: what it leads to is no place
        cwd = origin
        found = git.find(cwd.resolve())
    return _bare(cwd.resolve()) if found is None else Project(_main(found), found.common.resolve())


def must_be_understood(common: Path) -> None:
    """Refuse a repository in which nobody here could read what an agent did: before it runs, not after."""
    said = NEWER.search(_config(common))
    if said is not None:
        raise FleetError(
            f"the repository {clean(str(common))} has {WORDS[said[1].lower()]} {said[2]}, and fleet reads repositories"
            " with sha1 objects and refs in files alone",
            hint="work in a repository that was made with: git init --object-format=sha1",
        )


def origin(place: Place) -> Project:
    """The main repository of a place."""
    found = project(place.repository or place.path)
    if found is None:
        raise FleetError(f"the repository of {place.path} is gone: {place.repository}", hint=f"ls {place.repository}")
    return found


def _main(found: git.Repository) -> Path:
    """The top of the main working tree, from that of any of them."""
    common = found.common.resolve()
    if found.own.resolve() == common:
        return found.top
    if common.name == ".git":
        return common.parent
    said = WORKTREE.search(_config(common))
    return (common / said[1].strip('"')).resolve() if said else common


def _config(common: Path) -> str:
    """The settings of a repository, as text; what is no plain file says nothing."""
    return git.text(common / "config").decode(errors="surrogateescape")


def _bare(cwd: Path) -> Project | None:
    return next((Project(one, one) for one in (cwd, *cwd.parents) if git.bare(one)), None)


def check_branch(name: str) -> str:
    """The name, when git takes it for a branch; anything else is refused with the reason."""
    reason = _wrong(name)
    if reason is not None:
        raise BadConfig(f"{clean(name)!r} cannot be the name of a branch: {reason}", hint=NEXT)
    return name


def _wrong(name: str) -> str | None:
    """What git has against a name: the rules of `git check-ref-format --branch`, and no shorthands."""
    if not name:
        return "it is empty"
    for wrong, reason in (
        (name.startswith("-"), "it begins with a -"),
        (name in ("HEAD", "@"), "git means the commit that is checked out by it"),
        ("@{" in name, "it contains @{"),
        (".." in name, "it contains .."),
        (name.endswith("."), "it ends with a ."),
        (sayable(name) != name, "it is not UTF-8"),
        (len(os.fsencode(name)) > MOST, f"it is longer than {MOST} bytes"),
    ):
        if wrong:
            return reason
    return _wrong_character(name) or _wrong_part(name)


def _wrong_character(name: str) -> str | None:
    for character in name:
        if character in FORBIDDEN:
            return f"it contains {FORBIDDEN[character]}"
        if ord(character) < 32 or ord(character) == 127:
            return "it contains a control character"
    return None


def _wrong_part(name: str) -> str | None:
    for part in name.split("/"):
        if not part:
            return "a part between slashes is empty"
        if part.startswith("."):
            return "a part of it begins with a ."
        if part.endswith(".lock"):
            return "a part of it ends with .lock"
        if len(os.fsencode(part)) > PART:
            return f"a part of it is longer than {PART} bytes, which git cannot store"
    return None


def path_for(root: Path, branch: str) -> Path:
    """Where the place of a branch stands: no two branches share one, on any file system, and none leaves the root."""
    digest = hashlib.sha256(branch.encode(errors="surrogateescape")).hexdigest()[:10]
    slug = ODD.sub("-", branch).strip("-.")[:SLUG].strip("-.")
    return root / (f"{slug}-{digest}" if slug else digest)


def root_for(home: Path, project: Project, worktree_root: str | None = None) -> Path:
    """The directory that holds a project's places: the one it asks for, or one of its own in the home."""
    if worktree_root is None:
        digest = hashlib.sha256(os.fsencode(project.top)).hexdigest()[:8]
        return home / PLACES / f"{ODD.sub('-', project.name).strip('-.')[:SLUG] or 'repository'}-{digest}"
    asked = Path(os.path.expanduser(worktree_root))
    if str(asked).startswith("~"):
        raise BadConfig(f"worktree_root {clean(worktree_root)}: there is no such user", hint="use a path from / on")
    root = Path(os.path.normpath(project.top / asked))
    if root.is_relative_to(project.common) or root == project.top:
        where = f"worktree_root {clean(str(root))} is inside the repository"
        raise BadConfig(f"{where}, where no places can be", hint="use a directory outside of it")
    if _is_seen(project, root):
        raise BadConfig(
            f"worktree_root {clean(str(root))} is inside the repository, where git would see the places",
            hint=f"echo '/{clean(str(root.relative_to(project.top)))}/' >> {clean(str(project.top))}/.gitignore",
        )
    return root


def _is_seen(project: Project, root: Path) -> bool:
    """Whether a directory is in the main working tree and not ignored there."""
    if project.is_bare or not root.is_relative_to(project.top):
        return False
    inside = str(root.relative_to(project.top)) + "/"
    where = f"--work-tree={project.top}"
    return repository.ask(project.common, where, "check-ignore", "-q", "--", inside, cwd=project.top).code != 0

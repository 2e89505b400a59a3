"""The branches and tags of a repository, read from files: no git is started, and nothing that an agent left is run."""

from __future__ import annotations

import os
from pathlib import Path

from fleet.host import files
from fleet.host.git import COMMIT

KINDS = ("refs/heads/", "refs/tags/")
MOST = 20_000
LONGEST = 4096  # bytes of a file with one ref
REFTABLE = "reftable"  # where a repository that keeps its refs in tables has them


def are_files(common: Path) -> bool:
    """Whether a repository keeps its refs as files, which is what can be read here."""
    return (common / "refs").is_dir() and not (common / REFTABLE).is_dir()


def read(common: Path) -> dict[str, str] | None:
    """Each branch and tag with the object that it names; None when there are too many. What names no object, such as a
    branch that stands for another, is left out.
    """
    loose = _loose(common)  # first: what is packed meanwhile is in one of the two
    packed = _packed(common) if loose is not None else None
    if loose is None or packed is None or len(found := packed | loose) > MOST:
        return None
    return {name: said for name, said in found.items() if COMMIT.match(said)}


def _loose(common: Path) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for kind in KINDS:
        for directory, _, names in files.walk(str(common / kind)):
            for name in names:
                path = os.path.join(directory, name)
                found[os.path.relpath(path, common)] = _said(Path(path))
            if len(found) > MOST:
                return None
    return {name: said for name, said in found.items() if not name.endswith(".lock")}


def _said(path: Path) -> str:
    """What stands in the file of a ref; nothing for one that is none, so that it hides what is packed, as for git."""
    try:
        return (files.read(path, follow=True, limit=LONGEST) or b"").decode(errors="replace").strip()
    except OSError:
        return ""


def _packed(common: Path) -> dict[str, str] | None:
    try:
        lines = (files.read(common / "packed-refs", follow=True) or b"").splitlines()
    except OSError:
        return None
    words = (os.fsdecode(line).partition(" ") for line in lines if not line.startswith((b"#", b"^")))
    return {name: said for said, _, name in words if name.startswith(KINDS)}

"""Which branch a directory has checked out, read from files alone: `fleet add` asks, which loads next to nothing."""

from __future__ import annotations

from pathlib import Path

BRANCH = "ref: refs/heads/"
LINK = "gitdir: "


def branch_of(directory: Path) -> str | None:
    """The branch; None outside of git, and of a directory that has none checked out."""
    for above in (directory, *directory.parents):
        own = above / ".git"
        said = _line(own)
        if said.startswith(LINK):
            own = above / said.removeprefix(LINK)
        head = _line(own / "HEAD")
        if head:
            return head.removeprefix(BRANCH) if head.startswith(BRANCH) else None
    return None


def _line(path: Path) -> str:
    try:
        return path.read_bytes()[:4096].decode("utf-8").strip()
    except (OSError, ValueError):
        return ""

"""Submodules of a place, taken from the main repository's own copies: nothing is fetched from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fleet.host import repository
from fleet.places.paths import Project


def fill(project: Project, path: Path) -> list[str]:
    """Check out the submodules that the main repository has; those it does not have, by name, stay empty."""
    modules = project.common / "modules"
    if not (path / ".gitmodules").is_file() or not modules.is_dir():
        return []
    return _fill(project, path, modules)


def _fill(project: Project, path: Path, modules: Path) -> list[str]:
    listed = repository.ask(
        project.common, "config", "--file", str(path / ".gitmodules"), "-z", "--get-regexp", r"^submodule\..*\.path$"
    )
    missing = []
    for entry in listed.out.decode(errors="surrogateescape").split("\0"):
        key, _, where = entry.partition("\n")
        name = key.removeprefix("submodule.").removesuffix(".path")
        if not where:
            continue
        ours = modules / name
        if not (ours / "HEAD").exists() or not _update(path, name, where, ours):
            missing.append(where)
    return missing


def _update(path: Path, name: str, where: str, ours: Path) -> bool:
    """Clone one from the copy that is there; it keeps the address that it has in .gitmodules.

    It is checked out, whatever the config says: that can name a command, and an agent can have written it.
    """
    own = path / ".git"
    at = own if own.is_dir() else Path(own.read_text().strip().removeprefix("gitdir: "))
    done = repository.ask(
        at, f"--work-tree={path}", "-c", "protocol.file.allow=always", "-c", f"submodule.{name}.url={ours}",
        "-c", "core.hooksPath=/dev/null", "submodule", "--quiet", "update", "--init", "--checkout",
        "--reference", str(ours), "--", where, cwd=path,
    )  # fmt: skip
    return done.code == 0

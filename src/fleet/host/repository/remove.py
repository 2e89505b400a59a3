"""Directories that go with everything in them, and how much room there is."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import files


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
        if path.is_dir() and not path.is_symlink():
            _remove_directory(path)
        else:
            path.unlink(missing_ok=True)
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

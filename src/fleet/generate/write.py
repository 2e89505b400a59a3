"""Putting generated files on disk: all of them or none, and never over somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.generate import manifest
from fleet.generate.base import File
from fleet.generate.manifest import Change, Manifest
from fleet.host import files as disk


@dataclass(frozen=True, slots=True)
class Step:
    """One file and what writing it would mean."""

    path: str
    change: Change
    wanted: File | None
    on_disk: bytes | None


def known(out: Path) -> Manifest:
    return manifest.parse(disk.read(out / manifest.PATH))


def plan(out: Path, wanted: Sequence[File], ours: Manifest, *, whole: bool = True) -> list[Step]:
    """What writing these files would do. `whole`: files of ours that are no longer wanted are obsolete."""
    files: dict[str, File | None] = dict.fromkeys(ours.hashes) if whole else {}
    files |= {file.path: file for file in wanted}
    steps = (_step(out, path, files[path], ours) for path in sorted(files, key=lambda p: files[p] is None))
    return [step for step in steps if step is not None]


def _step(out: Path, path: str, file: File | None, ours: Manifest) -> Step | None:
    found, safe = _look(out, path)
    change = manifest.judge(file.content if file else None, found, ours.hashes.get(path, ()) if safe else ())
    return Step(path, change, file, found) if change else None


def _look(out: Path, path: str) -> tuple[bytes | None, bool]:
    """What stands at the path, and whether it is a plain file inside the project."""
    if not is_inside(out, path):
        return b"", False
    try:
        return disk.read(out / path), True
    except OSError:
        return b"", False


def is_inside(out: Path, path: str) -> bool:
    """Whether the path stays in the project: no step upwards, and no directory on the way that is a link."""
    steps = path.split("/")
    if os.path.isabs(path) or any(step in ("", ".", "..") for step in steps):
        return False
    return not any(os.path.islink(os.path.join(out, *steps[:n])) for n in range(1, len(steps)))


def refuse(out: Path, steps: Sequence[Step], *, force: bool) -> None:
    """Raise when the plan must not be carried out: somebody else's file is in the way, or it leads elsewhere."""
    blocked = [step for step in steps if step.change.blocks]
    if blocked and not force:
        raise in_the_way(out, blocked)
    # A file that is new, changed or obsolete was found to be a plain one, or nothing, inside the project.
    for step in blocked:
        _refuse_impossible(out, step.path)
    for parent in sorted({(out / step.path).parent for step in steps}):
        _refuse_file_on_the_way(parent)


def apply(out: Path, steps: Sequence[Step], targets: Iterable[str], ours: Manifest) -> None:
    """Write the plan."""
    written = {step.path: step.wanted.content for step in steps if step.wanted}
    removed = [step.path for step in steps if step.change is Change.OBSOLETE]
    disk.own_dir(out)
    disk.write(out / manifest.PATH, manifest.during(ours, written).dump())
    for step in steps:
        _write(out, step)
    disk.write(out / manifest.PATH, manifest.after(ours, written, removed, targets).dump())


def _refuse_impossible(out: Path, path: str) -> None:
    """What even --force does not do: leave the project through a link, or replace a directory."""
    if not is_inside(out, path):
        raise FleetError(f"{path} leads through a link, which fleet does not follow", hint="put a directory there")
    if (out / path).is_dir() and not (out / path).is_symlink():
        raise FleetError(f"{path} is a directory, and a file must stand there", hint="move it away")


def _refuse_file_on_the_way(directory: Path) -> None:
    for place in (directory, *directory.parents):
        if place.exists() and not place.is_dir():
            raise FleetError(f"{place} is a file, and a directory must stand there", hint="move it away")


def _write(out: Path, step: Step) -> None:
    if step.wanted is None:
        remove(out, step.path)
        return
    mode = disk.PRIVATE if step.wanted.private else disk.SHARED
    place = out / step.path
    if step.change is not Change.SAME:
        disk.write(place, step.wanted.content, mode, drafts=out / disk.OWN)  # kept out of git, and so is a key in it
    elif step.wanted.private:
        place.chmod(mode)


def remove(out: Path, path: str) -> None:
    """Remove a file, and the directories that it leaves empty."""
    if not is_inside(out, path):
        return
    (out / path).unlink(missing_ok=True)
    for parent in (out / path).parents:
        if parent == out or not parent.is_dir() or any(parent.iterdir()):
            return
        parent.rmdir()


def in_the_way(out: Path, blocked: Sequence[Step]) -> FleetError:
    lines = [f"  {os.path.relpath(out / step.path)}: {_why(step.change)}" for step in blocked]
    message = "\n".join(["nothing was written, because these files are not ours to replace:", *lines])
    return FleetError(
        message, hint="look at them with: fleet generate --diff; replace them with: fleet generate --force"
    )


def _why(change: Change) -> str:
    return "edited since fleet wrote it" if change is Change.EDITED else "foreign: fleet did not write it"


def difference(step: Step) -> str:
    """What would change in one file, as a unified diff; a private file's content is not shown."""
    if step.wanted is not None and step.wanted.private:
        return f"{step.path}: {step.change} (holds a key, so its content is not shown)\n"
    old, new = _lines(step.on_disk), _lines(step.wanted.content if step.wanted else None)
    before = "/dev/null" if step.on_disk is None else f"a/{step.path}"
    after = "/dev/null" if step.wanted is None else f"b/{step.path}"
    return "".join(unified_diff(old, new, before, after))


def _lines(content: bytes | None) -> list[str]:
    """Lines that are safe to show, whoever wrote them."""
    return [f"{clean(line, 2000)}\n" for line in (content or b"").decode(errors="replace").splitlines()]

"""Generating files and taking them away again."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from fleet.app import capabilities
from fleet.core import FleetError, NotFound
from fleet.core.fleet import Fleet
from fleet.gateway import answers, keys
from fleet.generate import TARGETS, Change, File, gateway_file, manifest, render, target, write
from fleet.generate.write import difference
from fleet.host import files as disk
from fleet.host import git, machine
from fleet.places import unstaged

__all__ = ["Cleaning", "Generation", "Only", "clean", "cleaning", "difference", "generate", "plan"]


RECORDS = (keys.PATH, answers.PATH, f"{disk.OWN}/discovery.json", capabilities.PATH, manifest.PATH)


class Only(StrEnum):
    LITELLM = "litellm"
    CLAUDE = "claude"


@dataclass(frozen=True, slots=True)
class Generation:
    """What generating would do to the disk."""

    out: Path
    targets: tuple[str, ...]
    steps: tuple[write.Step, ...]
    ours: manifest.Manifest
    key: str = field(repr=False)
    key_note: str | None = None  # what to say of the key in the shell

    @property
    def stale(self) -> list[write.Step]:
        return [step for step in self.steps if step.change is not Change.SAME]

    @property
    def stale_for_all(self) -> list[write.Step]:
        """What is stale in a fresh clone too: a private file that was never made here is nobody's fault."""
        return [step for step in self.stale if not (step.change is Change.NEW and step.wanted and step.wanted.private)]


def plan(fleet: Fleet, out: Path, targets: Sequence[str] = (), only: Only | None = None) -> Generation:
    """What to write. Targets add to those this project already has; a project without any begins with claude."""
    ours = write.known(out)
    remembered = [name for name in TARGETS if name in {*ours.targets, *targets}] or ["claude"]
    key = keys.proposed(fleet, out)
    wanted = _wanted(fleet, remembered, key, only)
    kept = tuple(remembered) if only is None else tuple({*ours.targets, *(["claude"] if only is Only.CLAUDE else [])})
    return Generation(out, kept, tuple(write.plan(out, wanted, ours, whole=only is None)), ours, key)


def _wanted(fleet: Fleet, targets: Sequence[str], key: str, only: Only | None) -> list[File]:
    match only:
        case Only.LITELLM:
            return gateway_file(fleet)
        case Only.CLAUDE:
            return target("claude").render(fleet)
        case None:
            return render(fleet, targets, key)


def generate(
    fleet: Fleet, out: Path, targets: Sequence[str] = (), only: Only | None = None, *, force: bool = False
) -> Generation:
    """Write the plan, and with it the key when there is none yet."""
    if not fleet.is_direct:
        keys.refuse_weak_export(fleet, out)
    had_key = keys.stored(out) is not None
    chosen = plan(fleet, out, targets, only)
    write.refuse(out, chosen.steps, force=force)
    _keep_out_of_git(out, [step.path for step in chosen.steps if step.wanted and step.wanted.private])
    if not fleet.is_direct and not keys.keep(out, chosen.key):
        chosen = plan(fleet, out, targets, only)  # another fleet made the key in the meantime
    write.apply(out, chosen.steps, chosen.targets, chosen.ours)
    return chosen if fleet.is_direct else replace(chosen, key_note=keys.about(fleet, out, taken=not had_key))


def _keep_out_of_git(out: Path, private: Sequence[str]) -> None:
    """See to it that git takes no file with a key in it; FleetError when git has one already."""
    repository = git.find(out.resolve())
    if repository is None or not private or not machine.program("git"):
        return
    disk.own_dir(out)
    tracked = sorted(unstaged.tracked(out, private))
    if tracked:
        raise FleetError(f"{tracked[0]} is in git, and a key would be written there", f"git rm --cached {tracked[0]}")
    unstaged.keep_out(repository, out, private)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Files of ours: those that nobody edited can go."""

    removable: tuple[str, ...]
    edited: tuple[str, ...]


def cleaning(out: Path) -> Cleaning:
    """What could go. Our own records go with the last generated file, the key among them."""
    if not out.is_dir():
        raise NotFound(f"there is no directory {out}")
    ours = write.known(out)
    if not ours.hashes and (out / manifest.PATH).exists():
        raise FleetError(
            f"{out / manifest.PATH} does not say what fleet wrote, so nothing can be removed safely",
            hint="fleet generate --force, then fleet clean",
        )
    removable = tuple(step.path for step in write.plan(out, [], ours) if step.change is Change.OBSOLETE)
    edited = tuple(path for path in ours.hashes if path not in removable and os.path.lexists(out / path))
    records = [path for path in RECORDS if ours.hashes and not edited and (out / path).exists()]
    return Cleaning((*removable, *records), edited)


def clean(out: Path) -> Cleaning:
    """Remove what we wrote and nobody edited."""
    found, ours = cleaning(out), write.known(out)
    for path in found.removable:
        write.remove(out, path)
    if found.edited:
        disk.write(out / manifest.PATH, manifest.after(ours, {}, found.removable, ours.targets).dump())
    _forget_ignore_file(out / disk.OWN)
    return found


def _forget_ignore_file(own: Path) -> None:
    """The directory's .gitignore goes last, and only when it guards nothing any more."""
    if not own.is_dir() or own.is_symlink():
        return
    for draft in own.iterdir():
        if re.fullmatch(r"\..+\.[0-9a-f]{8}", draft.name):  # left by a generate that was killed
            draft.unlink()
    if [path.name for path in own.iterdir()] == [".gitignore"]:
        (own / ".gitignore").unlink()
        own.rmdir()

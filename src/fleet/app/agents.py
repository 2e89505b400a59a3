"""Agents on branches, as people see them and end them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import keeper, places
from fleet.app.log_words import event_line, record_line
from fleet.app.sites import every_site, find_any, open_house, open_site, project_of, site_of
from fleet.batches.look import Row, look
from fleet.batches.site import SCREEN
from fleet.core import FleetError, NotFound
from fleet.core.errors import of_system
from fleet.core.frozen import dataclass
from fleet.core.work import Attempt
from fleet.host import files, run

if TYPE_CHECKING:
    from fleet.batches.end import Ended
    from fleet.batches.repair import Mended
    from fleet.batches.site import Site

LONGEST_LOG = 4 * 1024 * 1024
COMPARED = 500  # lines


def rows(*, everywhere: bool, disk: bool = False) -> list[Row]:
    """The agents of the project that somebody stands in; of every project outside of one, or when asked to."""
    project = None if everywhere else places.project(Path().absolute())
    sites = every_site() if project is None else [site_of(open_house(), project)]
    return [row for site in sites for row in look(site, disk=disk)]


def mend(*, everywhere: bool) -> list[Mended]:
    from fleet.batches.repair import repair  # what nobody pays for who only looks

    sites = every_site() if everywhere or places.project(Path().absolute()) is None else [open_site()]
    return [mended for site in sites for mended in repair(site)]


@dataclass(frozen=True, slots=True)
class NotEnded:
    """Why an attempt is still there; its agent may have ended all the same, and only its place be left."""

    branch: str
    attempt: str
    problem: FleetError
    runs: bool


def kill(
    site: Site, attempts: Sequence[Attempt], *, ignored: bool, large: bool, done: Callable[[Ended | NotEnded], None]
) -> list[Ended | NotEnded]:
    """End several agents at once, whole; their places are saved, then removed."""

    from fleet.batches.together import together

    ended = together(partial(_kill, site, ignored=ignored, large=large), attempts, done)
    site.server.tidy()
    return ended


def _kill(site: Site, attempt: Attempt, *, ignored: bool, large: bool) -> Ended | NotEnded:
    from fleet.batches.end import end
    from fleet.places.salvage import TooBig

    try:
        return end(site, attempt, ignored=ignored, large=large)
    except TooBig as problem:
        hint = f"commit or delete what is large there, or: fleet kill {attempt.branch} --large"
        said = FleetError(problem.message, hint=hint)
    except FleetError as problem:
        said = problem
    except OSError as problem:
        said = FleetError(of_system(problem).message, hint=f"ls -la {attempt.cwd}")
    return NotEnded(attempt.branch or "", attempt.id, said, keeper.is_alive(site.directory(attempt)))


def stop(attempt: Attempt) -> None:
    """End one agent wherever it is, and leave its place as it is."""
    from fleet.batches.end import end

    end(site_of(open_house(), project_of(Path(attempt.repository))), attempt, keep=True)


@dataclass(frozen=True, slots=True)
class Shown:
    """The last lines of an agent, and whether more may come."""

    lines: list[str]
    goes_on: bool


def logs(site: Site, name: str, lines: int) -> Shown:
    """The last lines of an agent's terminal, as they are or as they were last; where there is none, of its events."""
    attempt = find_any(site, name)
    directory = site.directory(attempt)
    shown = site.server.picture(attempt.id, lines) if attempt.interactive else None
    kept = shown or (files.read_end(directory / SCREEN, LONGEST_LOG) or b"").decode(errors="replace")
    if kept:
        return Shown(squeezed(kept.rstrip("\n").splitlines())[-lines:], keeper.is_alive(directory))
    events = files.read_end(site.house.task_directory(attempt.task) / "events.jsonl", LONGEST_LOG) or b""
    kept_lines = events.decode(errors="replace").splitlines()  # of a long file the first one may be torn
    said = [words for line in kept_lines if (words := record_line(line, event_line)) != line]
    return Shown(said[-lines:], attempt.verdict is None and not attempt.interactive)


def squeezed(lines: Sequence[str]) -> list[str]:
    """The same without all but the first of several empty lines: a terminal's screen has many."""
    return [line for n, line in enumerate(lines) if line.strip() or (n and lines[n - 1].strip())]


def new_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """What a terminal shows now and did not before; programs draw above what stays at the bottom, too."""
    matcher = SequenceMatcher(None, before[-COMPARED:], after[-COMPARED:], autojunk=False)
    shown = after[-COMPARED:]
    return [line for what, _, _, start, end in matcher.get_opcodes() if what != "equal" for line in shown[start:end]]


def attach(site: Site, name: str, *, shell: bool, follow: Callable[[], None]) -> None:
    """Become the agent's terminal, or a shell in its place; a queued task has none, and is followed instead."""
    attempt = find_any(site, name)
    if shell:
        if not Path(attempt.cwd).is_dir():
            raise NotFound(f"the place of {name} is gone: {attempt.cwd}", hint="fleet salvage list")
        run.become([os.environ.get("SHELL") or "/bin/sh"], cwd=Path(attempt.cwd), env=dict(os.environ))
    if not attempt.interactive:
        follow()
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise FleetError("a terminal is needed to attach to one", hint=f"fleet logs {name} -f")
    argv = site.server.attach_argv(attempt.id, os.environ.get("TMUX", ""))
    if argv is None:
        raise NotFound(f"{name} has no terminal any more", hint=f"fleet logs {name}, or: fleet list --repair")
    run.become(argv, cwd=Path("/"), env=dict(os.environ))

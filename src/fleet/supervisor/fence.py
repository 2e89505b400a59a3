"""What an agent is kept from: the home, but for what in it is its own; our terminals, by which it could get out; and
the user's project, where it has a place of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fleet import keeper, places
from fleet.config.runtime_schema import FenceMode, TrackerName
from fleet.core.work import Attempt
from fleet.host import files, tmux
from fleet.questions.file import LOCK
from fleet.supervisor.guard import check_guard, guard
from fleet.supervisor.heard import SIGNALS
from fleet.supervisor.house import House
from fleet.supervisor.refused import REFUSED

PROGRAMS = "programs"  # what an agent finds before all others, in the home


def fence(house: House, attempt: Attempt, given: Mapping[str, str], marks: Mapping[str, str]) -> keeper.Fence | None:
    """The fence of an attempt's agent, whose own files are there from now on, fenced or not. What its user gave it by
    a variable is shown as well: such as the settings of an account, when they are kept in the home.
    """
    home, directory = house.home, house.attempt_directory(attempt)
    own = [directory / SIGNALS, directory / REFUSED, house.task_directory(attempt.task) / LOCK]
    for path in own:
        _touch(path)
    if house.runtime.fence is FenceMode.OFF:
        return None
    shown = [
        house.artifacts(attempt.task),
        *own,
        home / PROGRAMS,
        _place(home, Path(attempt.cwd)),
        *_named(given, home),
    ]
    project = guard(attempt, house.environment, given)
    return keeper.Fence(
        hidden=(home, *_terminals()),
        shown=tuple(shown),
        guarded=project.guarded,
        writable=project.writable,
        read_only=(*(path for path in (home, home / PROGRAMS) if path.is_dir()), *project.read_only),
        required=house.runtime.fence is FenceMode.REQUIRE,
        label=keeper.label(marks),
    )


def check_fence(
    house: House, attempt: Attempt, own: Sequence[Path], lent: Sequence[Path], marks: Mapping[str, str]
) -> keeper.Fence | None:
    """The fence of a check, which runs the agent's own code: it has no network, sees nothing of the home but its own
    directories, and in the first of them nothing that anybody has left above it. Where its agent could be fenced, so
    can it be: a fence that fails is not done without.
    """
    if house.runtime.fence is FenceMode.OFF:
        return None
    ended = keeper.Hold(house.attempt_directory(attempt)).exit
    held = ended is not None and ended.fenced is True
    project = check_guard(attempt, house.environment, own)
    return keeper.Fence(
        hidden=(house.home, *house.also_hidden, *_terminals()),
        shown=tuple(own),
        guarded=project.guarded,
        writable=project.writable,
        read_only=tuple(lent),
        apart=own[0] if own[0].is_relative_to(house.home) else None,
        network=False,
        required=held or house.runtime.fence is FenceMode.REQUIRE,
        label=keeper.label(marks),
    )


def first_of_all(house: House, env: Mapping[str, str]) -> dict[str, str]:
    """The environment with our own programs before all others: a `bd` that leaves the queue alone, where bd has it."""
    if house.runtime.tracker is not TrackerName.BEADS:
        return dict(env)
    from fleet.tracker import beads

    beads.write_refusing(house.home, house.home / PROGRAMS)
    return {**env, "PATH": os.pathsep.join([str(house.home / PROGRAMS), env.get("PATH", os.defpath)])}


def _place(home: Path, cwd: Path) -> Path:
    """The place that a directory is in, when the home has places; else the directory."""
    above = [one for one in reversed(cwd.parents) if one.is_relative_to(home) and one != home]
    return next((one for one in (*above, cwd) if places.record.read(one) is not None), cwd)


def _named(given: Mapping[str, str], home: Path) -> Iterator[Path]:
    for value in given.values():
        path = Path(value)
        if path.is_absolute() and path.is_relative_to(home) and path != home:
            yield path


def _terminals() -> Iterator[Path]:
    with suppress(OSError):
        yield files.private_dir(tmux.sockets())


def _touch(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):  # whatever stands there instead is not shown as more than it is
        os.close(os.open(path, flags, files.PRIVATE))

"""$FLEET_HOME: made when it is missing, private to its owner, and the bell that wakes a running supervisor."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.core import FleetError, NotFound, Unavailable
from fleet.core.errors import of_system
from fleet.host import files

SETTINGS = "runtime.toml"
FOLDERS = ("tasks", "logging")
WAKE = "wake"
RECORD = "supervisor.json"
DOCTOR = "fleet doctor"


def ensure_home() -> Path:
    """The home, whole and private. What is there is kept; rights that others should not have are taken away."""
    home = files.home().absolute()
    _ensure_dir(home)
    for name in FOLDERS:
        _ensure_dir(home / name)
    _ensure_settings(home / SETTINGS)
    return home


def must_exist(words: Sequence[str]) -> None:
    """Refuse to look into a home that FLEET_HOME names and that is not there, and make nothing: it is misspelt, or not
    mounted. Help needs no home; and where nobody names one, nothing was done yet.
    """
    home = files.home().absolute()
    if home == Path.home() / ".fleet" or os.path.lexists(home) or not {"-h", "--help"}.isdisjoint(words):
        return
    raise NotFound(f"FLEET_HOME is {home}, which does not exist", hint='fleet add "…" makes it; or: unset FLEET_HOME')


def home_fault(home: Path) -> str | None:
    """Why the home cannot be used, in one sentence; None when it can be, or can be made. Nothing is changed."""
    try:
        found = _inspect_dir(home)
    except FleetError as problem:
        return problem.message
    except OSError as problem:
        return of_system(problem).message
    why = files.why_not_writable(home)
    return why and f"{home} cannot be {'written' if found else 'made'}: {why}"


@contextmanager
def pointing_to_doctor() -> Iterator[None]:
    """What keeps a supervisor from starting is said as `fleet doctor` says it, and the next command is that one."""
    try:
        yield
    except (OSError, FleetError) as problem:
        known = problem if isinstance(problem, FleetError) else of_system(problem)
        if type(known) not in (FleetError, Unavailable) or (known.hint or "").startswith("fleet "):
            raise  # it says already which command mends it
        raise FleetError(home_fault(files.home().absolute()) or known.message, hint=DOCTOR) from problem


def settings_path() -> Path:
    """Where this machine's settings stand, whether the home is there or not."""
    return files.home().absolute() / SETTINGS


def last_run_began(home: Path) -> float | None:
    """When the supervisor that runs began, or the last one that ran; None when none ever did."""
    try:
        return float(json.loads(files.read(home / RECORD) or b"{}")["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def wake(home: Path) -> bool:
    """Wake the supervisor that waits at $FLEET_HOME/wake; False when none does."""
    with suppress(OSError):
        fd = os.open(home / WAKE, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return stat.S_ISFIFO(os.fstat(fd).st_mode) and os.write(fd, b"\0") == 1
        finally:
            os.close(fd)
    return False


def _ensure_dir(path: Path) -> None:
    """A directory of ours that only we can enter; a link to one is as good."""
    facts = _inspect_dir(path)
    if facts is None:
        files.private_dir(path)
        facts = _inspect_dir(path)
    if facts is not None and facts.st_mode & 0o777 != 0o700:
        os.chmod(path, 0o700)


def _inspect_dir(path: Path) -> os.stat_result | None:
    """What is known of a directory of ours; None when nothing is there."""
    facts = _facts(path)
    if facts is None:
        return None
    if not stat.S_ISDIR(facts.st_mode):
        raise FleetError(f"{path} is not a directory", hint="move it away, or set FLEET_HOME to another place")
    if facts.st_uid != os.geteuid():
        raise FleetError(f"{path} belongs to another user", hint="set FLEET_HOME to a directory of your own")
    return facts


def _ensure_settings(path: Path) -> None:
    facts = _facts(path)
    if facts is None:
        from fleet.config.starter import starter

        files.create(path, starter().encode(), files.PRIVATE)
    elif stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o077 and facts.st_uid == os.geteuid():
        os.chmod(path, files.PRIVATE)


def _facts(path: Path) -> os.stat_result | None:
    """What stands at the path, or where a link there leads; None when nothing does."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        pass
    if path.is_symlink():
        raise FleetError(
            f"{path} is a link that leads nowhere", hint=f"make what it points to, or remove it: rm {path}"
        )
    return None


def read_last_error(output: str) -> tuple[str, str]:
    """The last error that a program of ours printed, and what it said to run next; both empty when there was none."""
    _, _, last = f"\n{output.strip()}".rpartition("\nfleet: ")
    reason, _, hint = last.strip().partition("\n  next: ")
    return reason, hint

"""A program as it stands on this machine: where, which version, and the hash of its file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from fleet.core import FleetError, ToolMissing
from fleet.core.proof import Program
from fleet.core.text import clean, sayable
from fleet.host import database
from fleet.host.leaving import temporary_directory
from fleet.host.run import Ran, run

SECONDS = 20.0  # for a program to tell its version
LONGEST = 64 * 1024  # bytes of what it says
SHEBANG = 512  # bytes that say what runs a script
PYTHON = ("python3", "python")
VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
SCHEMA = """
CREATE TABLE IF NOT EXISTS programs (
    file TEXT PRIMARY KEY, identity TEXT NOT NULL, sha256 TEXT NOT NULL, version TEXT
) WITHOUT ROWID;
"""
KNOWN = "SELECT sha256, version FROM programs WHERE file = ? AND identity = ?"
KEEP = "INSERT OR REPLACE INTO programs VALUES (?, ?, ?, NULL)"
TOLD = "UPDATE programs SET version = ? WHERE file = ? AND sha256 = ?"
VERSION_OF = "SELECT version FROM programs WHERE file = ? AND sha256 = ?"


_asked: set[tuple[Path, str, str]] = set()


def find(name: str, environment: Mapping[str, str], cwd: Path) -> Path | None:
    """The file that would be started by this name; None when there is none."""
    at = str(cwd / name) if "/" in name else shutil.which(name, path=environment.get("PATH", os.defpath))
    return Path(at) if at and os.path.isfile(at) else None


def opening(name: str, also: Iterable[Path]) -> str | None:
    """How a program begins that is found by its name on our own PATH, or else in these directories; None when there is
    none. Of one that cannot be read nothing is told.
    """
    at = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *map(str, also))))
    if at is None:
        return None
    try:
        fd = os.open(at, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        return file.read(SHEBANG).decode(errors="replace")


def modules(also: Iterable[Path]) -> set[str]:
    """The modules that are installed for a Python on our own PATH, or in one of these directories, as far as the names
    of files tell.
    """
    bins = [Path(one) for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one]
    prefixes = {root for at in bins for one in PYTHON if (at / one).exists() for root in (at.parent, _prefix(at / one))}
    found: set[str] = set()
    for prefix in (*sorted(prefixes), *also):
        for packages in (*prefix.glob("lib/python3*/*-packages"), *prefix.glob("local/lib/python3*/*-packages")):
            with suppress(OSError):
                found.update(one.partition(".")[0] for one in os.listdir(packages) if not one.endswith("-info"))
    return found


def _prefix(python: Path) -> Path:
    return Path(os.path.realpath(python)).parent.parent


def identify(home: Path, at: Path, *, ask: bool) -> Program:
    """The program behind a path, and behind its links: by its hash, which is taken once for each state of the file, and
    its version as far as it is known.

    With `ask`, the first who meets it has it asked for its version, in the background: nobody waits for that.
    """
    file = Path(os.path.realpath(at))
    shown, identity = sayable(str(file)), _identity(file)
    if identity is None:
        return Program(shown)
    place = database.path(home)
    content, told = _known(place, file, shown, identity)
    if ask and content is not None and told is None and (place, shown, identity) not in _asked:
        _asked.add((place, shown, identity))
        threading.Thread(target=_ask, args=(place, at, shown, content), daemon=True).start()
    return Program(shown, told or None, content)


def _known(place: Path, file: Path, shown: str, identity: str) -> tuple[str | None, str | None]:
    """Its hash, and its version: None when it was not asked yet, empty when it did not tell."""
    for row in database.ask(place, SCHEMA, KNOWN, (shown, identity)):
        return row[0], row[1]
    content = _hash(file)
    if content is None or _identity(file) != identity:
        return content, None
    with database.changing(place, SCHEMA) as db:
        db.execute(KEEP, (shown, identity, content))
    return content, None


def with_version(home: Path, known: Program) -> Program:
    """The same program with the version that it has told since."""
    if known.version is not None or known.sha256 is None:
        return known
    rows = database.ask(database.path(home), SCHEMA, VERSION_OF, (known.path, known.sha256))
    return Program(known.path, (rows[0][0] or None) if rows else None, known.sha256)


def version(program: str, scratch: Path) -> str | None:
    """The version that a program tells."""
    said = ask_version(program, scratch)
    return None if said is None or said.code != 0 or said.timed_out else version_in(said)


def ask_version(program: str, scratch: Path, timeout: float = SECONDS) -> Ran | None:
    """A program, asked for its version in a place and a home of its own, with nothing of ours in its hands."""
    scratch.mkdir(exist_ok=True)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(scratch), "TERM": "dumb", "NO_COLOR": "1"}
    try:
        return run([program, "--version"], cwd=scratch, env=env, timeout=timeout, limit=LONGEST, wary=True)
    except ToolMissing:
        return None


def version_in(said: Ran) -> str | None:
    """The version in what a program answered."""
    text = (said.out.strip() or said.err.strip()).decode(errors="replace")
    found = VERSION.search(text)
    return found[0] if found else clean(text.partition("\n")[0], 40) or None


def _ask(place: Path, at: Path, shown: str, content: str) -> None:
    try:
        with temporary_directory("fleet-version-") as scratch:
            told = version(str(at), scratch)
        with database.changing(place, SCHEMA) as db:
            db.execute(TOLD, (told or "", shown, content))
    except (OSError, FleetError):
        return  # then it stays unknown


def _identity(file: Path) -> str | None:
    """What changes whenever the file does, without reading it."""
    try:
        facts = os.stat(file)
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return " ".join(map(str, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)))


def _hash(file: Path) -> str | None:
    try:
        with open(file, "rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except OSError:
        return None  # it may be run, and not read

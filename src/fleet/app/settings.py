"""Show and change the settings of this machine: all that was asked or nothing, one change at a time."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.app.home import SETTINGS, ensure_home, settings_path, wake
from fleet.config import runtime, settings, toml
from fleet.config.limits import project_file
from fleet.config.problems import InvalidFile, Problem, listed
from fleet.config.runtime_schema import RuntimeFile
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.text import clean
from fleet.host import files, locks

LOCK = "runtime.lock"
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting in force, and where it comes from."""

    key: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    old: object
    new: object
    changed: bool


def show() -> list[Shown]:
    """Every setting in force. The home is not made for a look at it."""
    path = settings_path()
    text = runtime.read_text(path) or ""
    values = settings.flat(runtime.parse(text, path).written)
    given, places = settings.flat(toml.table(text)), toml.places(text)
    return [
        Shown(settings.name(key), settings.shown(key, value), _origin(path, key, given, places))
        for key, value in values.items()
    ]


def show_project(cwd: Path) -> list[Shown]:
    """How the project of a directory wants its places; nothing when it has no fleet.yaml."""
    path = project_file(cwd)
    if path is None:
        return []
    from fleet.config.workspace import values

    return [
        Shown(
            settings.name(one.key),
            settings.shown(one.key, one.value),
            f"{path.name}:{one.line}" if one.line else "default",
        )
        for one in values(path)
    ]


def _origin(path: Path, key: settings.Key, given: Mapping[settings.Key, object], places: toml.Places) -> str:
    if key not in given:
        return "default"
    return f"{path.name}:{places[key].line}" if key in places else path.name


def raw() -> bytes | None:
    """The file as it stands, valid or not; None when there is none."""
    return runtime.read_bytes(settings_path())


def validate() -> Path:
    """The path of the file, when it is valid; every problem of it otherwise."""
    path = settings_path()
    runtime.read(path)
    return path


def validate_project(cwd: Path) -> Path | None:
    """The path of the project's fleet.yaml, when there is one and it is valid; every problem of it otherwise."""
    path = project_file(cwd)
    if path is not None:
        from fleet.config.fleet_yaml import check, text_of

        check(text_of(path), path)
    return path


def problems(invalid: BadConfig) -> list[dict[str, object]]:
    """What is wrong with the file, as data."""
    if not isinstance(invalid, InvalidFile):
        return [{"line": None, "path": [], "message": invalid.message}]
    return [_problem(invalid.path, problem) for problem in invalid.problems]


def _problem(path: Path, problem: Problem) -> dict[str, object]:
    said: dict[str, object] = {"line": problem.place.line, "path": list(problem.path), "message": problem.message}
    return said if path.name == SETTINGS else {"file": str(path), "column": problem.place.column} | said


def change(assignments: Sequence[str]) -> list[Difference]:
    """Set some keys, all or none, and wake the supervisor."""
    changes = _changes(assignments)
    home = ensure_home()
    with alone(home):
        path = settings_path()
        text = runtime.read_text(path) or ""
        before = _plain(text, path)
        _write(path, settings.changed(text, changes))
    wake(home)
    return [_difference(key, before.get(key), value) for key, value in changes.items()]


def _changes(assignments: Sequence[str]) -> dict[settings.Key, object]:
    changes: dict[settings.Key, object] = {}
    for assignment in assignments:
        written, equals, value = assignment.partition("=")
        if not equals:
            raise BadConfig(f"{clean(assignment)!r} is not key=value", hint="fleet config set max_concurrent=5")
        setting = settings.find(written.strip())
        if setting.key in changes:
            raise BadConfig(f"{settings.name(setting.key)} is given twice")
        changes[setting.key] = settings.value(setting, value)
    return changes


def _plain(text: str, path: Path) -> dict[settings.Key, object]:
    """The values in the text, and the defaults of the rest; it need not be valid, since a change may mend it."""
    document = toml.parse(text)
    if document.problems:
        raise runtime.InvalidRuntime(path, document.problems, runtime.MEND)
    return settings.flat(RuntimeFile()) | settings.flat(toml.table(text))


def _difference(key: settings.Key, old: object, new: object) -> Difference:
    return Difference(settings.name(key), settings.shown(key, old), settings.shown(key, new), old != new)


def draft() -> bytes:
    """What an editor begins with: the file, which is made when it is missing."""
    ensure_home()
    return raw() or b""


def replace(before: bytes, text: str) -> None:
    """Put an edited text in place of the file, unless somebody else changed that meanwhile."""
    home = ensure_home()
    with alone(home):
        if raw() != before:
            raise FleetError("the settings were changed by somebody else meanwhile, and nothing was written")
        _write(settings_path(), text)
    wake(home)


def project_draft(cwd: Path) -> tuple[Path, bytes]:
    """What an editor begins with: the project's fleet.yaml, which must be there."""
    path = project_file(cwd)
    if path is None:
        raise NotFound("this project has no fleet.yaml", hint="fleet init")
    return path, files.read(path, follow=True) or b""


def replace_project(path: Path, before: bytes, text: str) -> None:
    """Put an edited text in place of a fleet.yaml when it is valid, unless somebody else changed that meanwhile."""
    from fleet.config.fleet_yaml import check

    check(text, path)
    if files.read(path, follow=True) != before:
        raise FleetError(f"{path} was changed by somebody else meanwhile, and nothing was written")
    real = path.resolve()
    files.write(real, text.encode(), stat.S_IMODE(real.stat().st_mode))


def _write(path: Path, text: str) -> None:
    """Write the text if it is valid as a whole. A link is followed, so that settings may be kept elsewhere."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise BadConfig("nothing was changed: a value is not UTF-8 text") from None
    if len(content) > runtime.MAX_BYTES:
        raise BadConfig(f"nothing was changed: the file would be larger than {runtime.MAX_BYTES // 1024} KiB")
    try:
        runtime.parse(text, path)
    except runtime.InvalidRuntime as invalid:
        messages = [problem.message for problem in invalid.problems]
        raise BadConfig(listed("nothing was changed:", messages)) from None
    files.write(path.resolve(), content, files.PRIVATE)


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Nobody else changes the settings meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while (lock := locks.take(home / LOCK)) is None:
        if time.monotonic() > deadline:
            raise FleetError("somebody else is changing the settings", hint="try again in a moment")
    try:
        yield
    finally:
        locks.release(lock)

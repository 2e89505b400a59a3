"""How a task is to be worked on, beside its words: tasks/<id>/task.json, which people edit by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fleet.core import BadConfig, globs
from fleet.core.errors import is_passing
from fleet.core.task import PlaceKind, Spec, TaskKind, problem_of_need
from fleet.core.text import clean, has_controls
from fleet.host import files
from fleet.tracker.reserve import directory

LIMIT = 1024 * 1024
NAMES = tuple(field.name for field in fields(Spec))


def path(home: Path, task: str) -> Path:
    return directory(home, task) / "task.json"


def read(home: Path, task: str) -> Spec:
    """The task's spec; a file that is missing, damaged or makes no sense is said to be so, never guessed at."""
    file = path(home, task)
    found = _load(file)
    if found is None:
        raise BadConfig(f"{file} is missing: nothing says where this task is to be worked on", hint=_hint(file))
    return parse(found, str(file))


def write(home: Path, task: str, spec: Spec) -> None:
    """Write the spec whole, for its owner alone. What others put in the file stays; a damaged one is not replaced."""
    file = path(home, task)
    kept = {key: value for key, value in (_load(file) or {}).items() if key not in NAMES}
    known = {name: value for name in NAMES if (value := getattr(spec, name)) is not None}
    parse(known, str(file))
    content = json.dumps(known | kept, indent=2, ensure_ascii=False) + "\n"
    files.private_dir(file.parent)
    files.write(file, content.encode(errors="surrogateescape"), files.PRIVATE)


def parse(found: dict[str, Any], where: str) -> Spec:
    """A spec out of what a file says; keys that we do not know are somebody else's."""
    if not _is_path(found.get("cwd")):
        raise _wrong(where, f"cwd must be the absolute path of a directory, not {found.get('cwd')!r}")
    return Spec(
        cwd=found["cwd"],
        coder=_given(found, "coder", where, _is_word, "a name"),
        model=_given(found, "model", where, _is_word, "a name"),
        check=_given(found, "check", where, _is_command, "a command"),
        timeout=_given(found, "timeout", where, _is_positive, "a number of seconds over 0"),
        attempts=_given(found, "attempts", where, _is_count, "a whole number over 0"),
        output=_given(found, "output", where, _is_count, "a whole number of bytes over 0"),
        account=_given(found, "account", where, _is_word, "a name"),
        silence=_given(found, "silence", where, _is_amount, "a number of seconds, or 0 for no limit"),
        tokens=_given(found, "tokens", where, _is_whole, "a whole number, or 0 for no limit"),
        cost=_given(found, "cost", where, _is_amount, "a number of US dollars, or 0 for no limit"),
        place=_given(found, "place", where, _is_place, f"one of {', '.join(PlaceKind)}"),
        interactive=_given(found, "interactive", where, lambda value: isinstance(value, bool), "true or false"),
        kind=_kind(found, where),
        allow=_globs(found, "allow", where),
        deny=_globs(found, "deny", where),
        files=_given(found, "files", where, _is_whole, "a whole number"),
        deletions=_given(found, "deletions", where, _is_whole, "a whole number"),
        protected=_globs(found, "protected", where),
        needs=_needs(found, where),
        onto=_given(found, "onto", where, _is_word, "the name of a branch"),
        checked_out=_given(found, "checked_out", where, _is_word, "the name of a branch"),
    )


def _kind(found: dict[str, Any], where: str) -> TaskKind | None:
    value = _given(found, "kind", where, lambda value: value in list(TaskKind), f"one of {', '.join(TaskKind)}")
    return None if value is None else TaskKind(value)


def _globs(found: dict[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    """Patterns of paths; nothing is said by none of them."""
    given = _given(found, key, where, _are_texts, "a list of patterns such as src/**")
    for pattern in given or ():
        wrong = "must be one line" if has_controls(pattern) else globs.problem(pattern)
        if wrong is not None:
            raise _wrong(where, f"{key}: {pattern!r} {wrong}")
    return tuple(given) if given else None


def _needs(found: dict[str, Any], where: str) -> tuple[str, ...] | None:
    """Paths that checks are lent; none of them says nothing."""
    given = _given(found, "needs", where, _are_texts, "a list of paths such as .venv")
    for path in given or ():
        wrong = problem_of_need(path)
        if wrong is not None:
            raise _wrong(where, f"needs: {path!r} {wrong}")
    return tuple(given) if given else None


def _given(found: dict[str, Any], key: str, where: str, fits: Callable[[Any], bool], what: str) -> Any:
    value = found.get(key)
    if value is None or fits(value):
        return value
    raise _wrong(where, f"{key} must be {what}, not {value!r}")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not has_controls(value)


def _is_place(value: Any) -> bool:
    return value in list(PlaceKind)


def _is_path(value: Any) -> bool:
    """A name of any bytes the system gave us, but none that would act on a terminal or a log."""
    if not isinstance(value, str) or not value.startswith("/"):
        return False
    try:
        return not has_controls(value.encode(errors="surrogateescape").decode(errors="replace"))
    except UnicodeEncodeError:
        return False


def _is_command(value: Any) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    return not has_controls(value, allow="\t\n\r")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_amount(value: Any) -> bool:
    return _is_positive(value) or (value == 0 and not isinstance(value, bool))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and _is_amount(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _load(file: Path) -> dict[str, Any] | None:
    try:
        content = files.read(file, limit=LIMIT)
    except OSError as problem:
        if is_passing(problem):
            raise
        raise _wrong(str(file), problem.strerror or str(problem)) from problem
    if content is None:
        return None
    try:
        found = json.loads(content.decode(errors="surrogateescape"))
    except (ValueError, RecursionError) as problem:
        raise _wrong(str(file), f"it is not JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise _wrong(str(file), "it is not a JSON object")
    return found


def _wrong(where: str, what: str) -> BadConfig:
    return BadConfig(f"{where}: {clean(what)}", hint=_hint(Path(where)))


def _hint(file: Path) -> str:
    return f'mend it: {{"cwd": "/absolute/path"}} is the least that {file} must say'

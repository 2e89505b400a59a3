"""The options that say how a task is to be worked on: of `fleet add`, and of `fleet edit`, which changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fleet.core import BadConfig
from fleet.core.text import clean

OPTIONS = (
    click.option("--cwd", type=click.Path(path_type=Path), help="Where the agent works.  [default of add: here]"),
    click.option("--coder", help="The agent CLI for this task."),
    click.option("--model", help="The model for this task."),
    click.option("--account", help="The coder's account for this task, and no other."),
    click.option(
        "--place", type=click.Choice(["inplace", "worktree", "clone"]), help="Where: here, or in a copy of its own."
    ),
    click.option(
        "--onto", metavar="BRANCH", help="The branch that the result is for.  [default of add: the one checked out now]"
    ),
    click.option("--check", metavar="CMD", help="A shell command that must exit 0 before the task counts as done."),
    click.option(
        "--needs",
        metavar="PATH",
        multiple=True,
        help="A path that git ignores, such as .venv, lent to the checks. May be given again.",
    ),
    click.option(
        "--kind", type=click.Choice(["work", "research"]), help="What it is to leave: a change, or an answer."
    ),
    click.option("--allow", metavar="GLOB", multiple=True, help="Only such paths may be touched. May be given again."),
    click.option("--deny", metavar="GLOB", multiple=True, help="Such paths may not be touched. May be given again."),
    click.option("--max-files", "files", type=click.IntRange(0), help="How many files may be changed."),
    click.option("--deletions", type=click.IntRange(0), help="How many files may be deleted.  [default: 0]"),
    click.option(
        "--allow-protected",
        "protected",
        metavar="GLOB",
        multiple=True,
        help="Of the protected paths (CI, settings of agents, lock files), such may be touched. May be given again.",
    ),
    click.option("--timeout", metavar="TIME", help="Wall time of one attempt, such as 30m."),
    click.option("--attempts", type=click.IntRange(1, 100), help="How often it is tried."),
    click.option("--output", metavar="SIZE", help="How much one attempt may print, such as 500MB."),
    click.option("--silence", metavar="TIME", help="How long the agent may say nothing, such as 20m; or none."),
    click.option("--tokens", metavar="COUNT", help="Tokens of all attempts together, such as 2M; or none."),
    click.option("--cost", metavar="USD", help="US dollars of all attempts together, such as 5; or none."),
)


def spec_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; what was given comes as keywords, for `read_spec`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def read_spec(given: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a Spec that were given, by their names there."""
    from fleet.core.task import TaskKind

    found = {
        **given,
        "cwd": None if given["cwd"] is None else str(given["cwd"].absolute()),
        "check": _command(given["check"]),
        "kind": TaskKind(given["kind"]) if given["kind"] else None,
        "allow": _globs("--allow", given["allow"]),
        "deny": _globs("--deny", given["deny"]),
        "protected": _globs("--allow-protected", given["protected"]),
        "needs": _needs(given["needs"]),
        "timeout": _seconds(given["timeout"]),
        "output": _size(given["output"]),
        "silence": _limit("silence", given["silence"]),
        "tokens": _whole(_limit("tokens", given["tokens"])),
        "cost": _limit("cost", given["cost"]),
    }
    return {name: value for name, value in found.items() if value is not None}


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from fleet.config.units import seconds

    return _unit("--timeout", text, seconds)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    from fleet.config.units import size

    return int(_unit("--output", text, size))


def _limit(name: str, text: str | None) -> float | None:
    """A limit that can be switched off: by `none`, which is kept as 0."""
    if text is None:
        return None
    from fleet.config.units import switchable

    try:
        return switchable(name, text)
    except ValueError as problem:
        raise BadConfig(f"--{name} {problem}") from problem


def _command(check: str | None) -> str | None:
    if check is not None and not check.strip():
        raise BadConfig("--check must be a command, and is empty", hint='fleet add --check "make test" …')
    return check


def _globs(option: str, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    from fleet.core.globs import problem

    for pattern in patterns:
        wrong = problem(pattern)
        if wrong is not None:
            raise BadConfig(f"{option}: {clean(pattern, 80)!r} {wrong}")
    return patterns or None


def _needs(paths: tuple[str, ...]) -> tuple[str, ...] | None:
    from fleet.core.task import problem_of_need

    plain = tuple(path.removeprefix("./").rstrip("/") for path in paths)
    for path in plain:
        wrong = problem_of_need(path)
        if wrong is not None:
            raise BadConfig(f"--needs: {clean(path, 80)!r} {wrong}", hint="fleet add --needs .venv …")
    return plain or None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _unit(option: str, text: str, read: object) -> float:
    assert callable(read)
    try:
        value = float(read(text))
    except ValueError as problem:
        raise BadConfig(f"{option} {problem}") from problem
    if value <= 0:
        raise BadConfig(f"{option} must be over 0")
    return value

"""Every check looks at something, and when that is wrong it names the command that mends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from fleet.config.limits import FLEET_YAML
from fleet.config.problems import InvalidFile
from fleet.core import BadConfig, FleetError

PROGRAMS = {
    "claude": ("claude", "npm install -g @anthropic-ai/claude-code"),
    "codex": ("codex", "npm install -g @openai/codex"),
    "opencode": ("opencode", "npm install -g opencode-ai"),
    "aider": ("aider", "pipx install aider-chat"),
    "gemini": ("gemini", "npm install -g @google/gemini-cli"),
    "qwen": ("qwen", "npm install -g @qwen-code/qwen-code"),
}
AGENT = "agent"  # the name of the checks that say whether an agent's requests are answered
NO_MODELS = "not set up here (this project uses tasks only)"


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Plane(StrEnum):
    WORK = "work"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    health: Health
    finding: str
    remedy: str | None = None
    plane: Plane = Plane.WORK


@dataclass(frozen=True, slots=True)
class Deep:
    """Ask every model as an agent asks, which loads those that are not in memory."""

    paid: bool
    say: Callable[[str], None]


def examine(config: Path, out: Path, timeout: float, deep: Deep | None = None) -> list[Check]:
    """Everything: the work plane always, the models plane where a fleet.yaml sets one up."""
    from fleet.app.doctor_work import check_work
    from fleet.config.fleet_yaml import text_of

    if config != Path(FLEET_YAML):
        text_of(config)  # one that was named must be there
    models = guarded("models", lambda: _check_models(config, out, timeout, deep))
    return [*check_work(Path.cwd()), *(replace(check, plane=Plane.MODELS) for check in models)]


def guarded(name: str, check: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """What a check finds; one that itself fails is one more finding and stops no other."""
    try:
        yield from check()
    except Exception as problem:
        said = problem.message if isinstance(problem, FleetError) else f"{type(problem).__name__}: {problem}"
        yield Check(name, Health.UNKNOWN, f"it could not be checked: {said}")


def names_models(config: Path) -> bool:
    """Whether there is a models plane; not without a fleet.yaml, nor with one that is for tasks alone."""
    from fleet.config.fleet_yaml import check, text_of

    if config == Path(FLEET_YAML) and not os.path.lexists(config):
        return False
    return not check(text_of(config), config).for_tasks


def first_problem(problem: FleetError) -> str:
    """The first thing that is wrong with a file, with its position, in one line; and how many more there are."""
    if not isinstance(problem, InvalidFile):
        return problem.message
    more = f" (and {len(problem.problems) - 1} more)" if len(problem.problems) > 1 else ""
    return f"{problem.path}:{problem.problems[0]}{more}"


def _check_models(config: Path, out: Path, timeout: float, deep: Deep | None) -> Iterator[Check]:
    from fleet.config import load

    try:
        if not names_models(config):
            yield Check("models", Health.NOTE, NO_MODELS)
            return
        loaded = load(config)
    except BadConfig as invalid:
        yield Check("fleet.yaml", Health.WRONG, first_problem(invalid), f"fleet validate --config {config}")
        return
    yield Check("fleet.yaml", Health.OK, f"{config} is valid")
    for warning in loaded.warnings:
        yield Check("fleet.yaml", Health.NOTE, warning)
    from fleet.app.doctor_models import check_models

    yield from check_models(loaded.fleet, out, timeout, deep)

"""Which model stands for which of the sizes that agent CLIs know: heavy (sonnet, opus) and small (haiku)."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.core.fleet import Fleet, Model

HEAVY_ROLES = ("implementer", "coder", "reviewer")
SMALL_ROLES = ("summarizer", "planner", "explorer")


@dataclass(frozen=True, slots=True)
class Defaults:
    heavy: Model
    small: Model
    top: Model


def defaults(fleet: Fleet) -> Defaults:
    """The models for unnamed requests: by the alias, else by the role that uses them, else by context."""
    by_context = sorted(fleet.within_reach(), key=lambda model: model.context)
    heavy = _alias(fleet, "sonnet") or _role(fleet, HEAVY_ROLES) or by_context[-1]
    small = _alias(fleet, "haiku") or _role(fleet, SMALL_ROLES) or by_context[0]
    return Defaults(heavy, small, _alias(fleet, "opus") or heavy)


def _alias(fleet: Fleet, word: str) -> Model | None:
    return next((model for model in fleet.within_reach() if word in model.alias.lower()), None)


def _role(fleet: Fleet, roles: tuple[str, ...]) -> Model | None:
    return next((fleet.models[fleet.agents[role].model] for role in roles if role in fleet.agents), None)

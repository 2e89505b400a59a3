"""Aider: three models for its three jobs, and how much each can hold. Aider has no roles beyond these."""

from __future__ import annotations

import json

from fleet.core.fleet import Fleet, Model
from fleet.generate import yaml
from fleet.generate.base import NOTICE, File
from fleet.generate.endpoint import api_url, contexts, longest_answer
from fleet.generate.roles import defaults

CONFIG = ".aider.conf.yml"
METADATA = ".aider.model.metadata.json"
KEY_VARIABLES: tuple[str, ...] = ("AIDER_OPENAI_API_KEY",)


def render(fleet: Fleet) -> list[File]:
    return [File(CONFIG, _config(fleet)), File(METADATA, _metadata(fleet))]


def exports(fleet: Fleet) -> dict[str, str | None]:
    """No list of cloud models is fetched. The key's name is Aider's own and leaves the user's OPENAI_API_KEY alone."""
    return {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def _config(fleet: Fleet) -> bytes:
    chosen = defaults(fleet)
    settings = {
        "model": _name(fleet, chosen.heavy),
        "weak-model": _name(fleet, chosen.small),
        "editor-model": _name(fleet, chosen.heavy),
        "openai-api-base": api_url(fleet),
        "analytics": False,
        "check-update": False,
    }
    return f"# {NOTICE}\n{yaml.dump(settings)}".encode()


def _name(fleet: Fleet, model: Model) -> str:
    """The prefix tells Aider which protocol to speak; the rest is sent as it stands."""
    return f"openai/{fleet.asked(model)}"


def _metadata(fleet: Fleet) -> bytes:
    """What Aider would otherwise look up, over the network, in a list of cloud models."""
    known = {f"openai/{asked}": _limits(context) for asked, context in contexts(fleet).items()}
    return (json.dumps(known, indent=2) + "\n").encode()


def _limits(context: int) -> dict[str, object]:
    answer = longest_answer(context)
    return {
        "max_input_tokens": context,
        "max_output_tokens": answer,
        "max_tokens": answer,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
    }

"""OpenCode: a provider in .opencode/opencode.jsonc, and one subagent a role in .opencode/agents."""

from __future__ import annotations

import json

from fleet.core.fleet import Agent, Fleet
from fleet.generate.base import NOTICE, File
from fleet.generate.endpoint import ATTEMPT, HEADER, api_url, contexts, key_env, longest_answer
from fleet.generate.roles import defaults
from fleet.generate.yaml import front_matter

PROVIDER = "fleet"
CONFIG = ".opencode/opencode.jsonc"
KEY_VARIABLES: tuple[str, ...] = ()

Permission = str | dict[str, str]

# Claude's names for tools, and OpenCode's permission for each. A name that is not here grants nothing.
PERMISSIONS = {
    "Agent": "task",
    "Bash": "bash",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "list",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Read": "read",
    "Skill": "skill",
    "Task": "task",
    "TodoWrite": "todowrite",
    "WebFetch": "webfetch",
    "WebSearch": "websearch",
    "Write": "edit",
}
# By default OpenCode asks a person about these; where nobody sits in front of it, the question ends the whole run.
READ: dict[str, str] = {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"}
WOULD_ASK: dict[str, Permission] = {"doom_loop": "deny", "external_directory": "deny", "read": READ}
FOR_PEOPLE: dict[str, Permission] = {"question": "deny", "plan_enter": "deny", "plan_exit": "deny"}


def render(fleet: Fleet) -> list[File]:
    roles = [File(f".opencode/agents/{agent.name}.md", _role(fleet, agent)) for agent in fleet.agents.values()]
    return [File(CONFIG, _config(fleet)), *roles]


def exports(fleet: Fleet) -> dict[str, str | None]:
    """No list of cloud models and no update is fetched."""
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _config(fleet: Fleet) -> bytes:
    chosen = defaults(fleet)
    config = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"{PROVIDER}/{fleet.asked(chosen.heavy)}",
        "small_model": f"{PROVIDER}/{fleet.asked(chosen.small)}",
        "share": "disabled",
        "permission": WOULD_ASK,
        "provider": {PROVIDER: _provider(fleet)},
    }
    return f"// {NOTICE}\n{_literal(json.dumps(config, indent=2))}\n".encode()


def _provider(fleet: Fleet) -> dict[str, object]:
    key = key_env(fleet)
    signed = {} if fleet.is_direct else {"headers": {HEADER: f"{{env:{ATTEMPT}}}"}}
    options = {"baseURL": api_url(fleet), **({"apiKey": f"{{env:{key}}}"} if key else {}), **signed}
    models = {
        asked: {"name": asked, "limit": {"context": context, "output": longest_answer(context)}}
        for asked, context in contexts(fleet).items()
    }
    return {"npm": "@ai-sdk/openai-compatible", "name": PROVIDER, "options": options, "models": models}


def _literal(text: str) -> str:
    """The JSON with our own references to variables and no other.

    OpenCode puts variables and whole files into the text before it parses it, wherever it finds {env:..} or {file:..}:
    a model's name could fetch a secret. An escaped brace means the same to JSON and nothing to that search.
    """
    escaped = text.replace("{env:", r"\u007benv:").replace("{file:", r"\u007bfile:")
    for name in ("apiKey", HEADER):
        escaped = escaped.replace(rf'"{name}": "\u007benv:', f'"{name}": "{{env:')
    return escaped


def _role(fleet: Fleet, agent: Agent) -> bytes:
    fields: dict[str, object] = {
        "description": agent.description.strip(),
        "mode": "subagent",
        "model": f"{PROVIDER}/{fleet.asked(fleet.models[agent.model])}",
        "permission": permission(agent.tools),
    }
    return front_matter(NOTICE, fields, agent.prompt)


def permission(tools: tuple[str, ...]) -> dict[str, Permission]:
    """What a role may do, later lines over earlier ones; nothing in it is a question to a person."""
    if not tools:
        return {"*": "allow", **WOULD_ASK, **FOR_PEOPLE}
    granted = sorted({PERMISSIONS[tool] for tool in tools if tool in PERMISSIONS})
    # "invalid" is the tool by which OpenCode tells a model that its call was malformed.
    return {"*": "deny", "invalid": "allow", **{name: READ if name == "read" else "allow" for name in granted}}

"""Codex CLI: a profile that reaches the models, and one custom agent a role.

Codex refuses to take a provider from a project's own .codex/config.toml, so the provider stands in a profile, which the
user hands to Codex; the roles in .codex/agents are read from the project itself, once it is trusted.
"""

from __future__ import annotations

import tomlkit
from tomlkit.items import String

from fleet.core.fleet import Agent, Fleet
from fleet.generate.base import NOTICE, File
from fleet.generate.endpoint import ATTEMPT, HEADER, api_url, contexts, key_env
from fleet.generate.roles import defaults

PROVIDER = "fleet"
PROFILE = f".codex/{PROVIDER}.config.toml"
IGNORED = ".codex/.gitignore"
# What Codex keeps in its home, which may be this directory: its login and its databases among them.
KEPT_BY_CODEX = (
    "*.sqlite", "*.sqlite-*", "*_migration", "/.tmp/", "/archived_sessions/", "/auth.json", "/cache/", "/history.jsonl",
    "/installation_id", "/log/", "/memories/", "/models_cache.json", "/sessions/", "/shell_snapshots/",
    "/skills/.system/", "/thread-writer-locks/", "tmp/", "/version.json",
)  # fmt: skip
KEY_VARIABLES: tuple[str, ...] = ()
# Web search is run by the cloud; plugins, statistics and updates are fetched from it or sent to it at every start.
STAYS_HOME: dict[str, object] = {
    "web_search": "disabled",
    "check_for_update_on_startup": False,
    "analytics": {"enabled": False},
    "features": {"plugins": False},
}


def render(fleet: Fleet) -> list[File]:
    roles = [File(f".codex/agents/{agent.name}.toml", _role(fleet, agent)) for agent in fleet.agents.values()]
    ignored = "\n".join([f"# {NOTICE}", "# What Codex keeps where this directory is its home.", *KEPT_BY_CODEX, ""])
    return [File(PROFILE, _profile(fleet)), File(IGNORED, ignored.encode()), *roles]


def exports(fleet: Fleet) -> dict[str, str | None]:
    """Nothing: the profile names the variable that holds the key."""
    return {}


def _profile(fleet: Fleet) -> bytes:
    main = fleet.asked(defaults(fleet).heavy)
    document = tomlkit.document()
    document.add(tomlkit.comment(NOTICE))
    document["model"] = main
    document["model_context_window"] = contexts(fleet)[main]
    document["model_provider"] = PROVIDER
    for key, value in STAYS_HOME.items():
        document[key] = value
    document["model_providers"] = tomlkit.table(is_super_table=True).append(PROVIDER, _provider(fleet))
    return document.as_string().encode()


def _provider(fleet: Fleet) -> dict[str, object]:
    """Every request to the gateway says which attempt it is of; without one, Codex leaves the header out."""
    key = key_env(fleet)
    named = {"env_key": key} if key else {}
    signed = {} if fleet.is_direct else {"env_http_headers": {HEADER: ATTEMPT}}
    return {"name": PROVIDER, "base_url": api_url(fleet), "wire_api": "responses", **named, **signed}


def _role(fleet: Fleet, agent: Agent) -> bytes:
    """One custom agent. It inherits the provider and the sandbox of the session that starts it."""
    model = fleet.asked(fleet.models[agent.model])
    document = tomlkit.document()
    document.add(tomlkit.comment(NOTICE))
    document["name"] = agent.name
    document["description"] = agent.description
    document["model"] = model
    document["model_context_window"] = contexts(fleet)[model]
    document["developer_instructions"] = _prose(agent.prompt)
    return document.as_string().encode()


def _prose(text: str) -> String:
    """Lines stay lines. A reader of TOML may change a carriage return between them, so such a text is escaped whole."""
    return tomlkit.string(text, multiline="\n" in text and "\r" not in text)

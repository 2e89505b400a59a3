"""The real agent CLIs, each at a desk: a project, a home that belongs to nobody, and a scripted model on loopback.

Nothing of this machine's environment, settings or accounts is used, and the model is also the proxy: a request to
anybody else is refused there, and seen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parts
from fleet.coders import Command
from standins.agent_models import Mind, Server

SECONDS = 120
PARTS = ("agents", "more-agents", "node")
MODELS = {"claude": "claude-sonnet-4-5", "codex": "local-coder", "opencode": "fleet/local-coder"}
MORE_MODELS = {"gemini": "gemini-2.5-pro", "qwen": "local-coder"}
PARTS = ("agents", "more-agents", "node")
KEY = "sk-of-this-test"
NPM = "/npm/"
OURS = ("/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/models", "/v1beta/models/", NPM)
CODEX = """\
model_provider = "fleet"
web_search = "disabled"
check_for_update_on_startup = false
analytics.enabled = false
features.plugins = false
[model_providers.fleet]
name = "fleet"
base_url = "{endpoint}/v1"
wire_api = "responses"
env_key = "FLEET_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


@dataclass(frozen=True, slots=True)
class Done:
    exit: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()


@dataclass(frozen=True, slots=True)
class Desk:
    project: Path
    home: Path
    model: Server

    @property
    def strangers(self) -> list[str]:
        """Whoever was to be reached besides the model."""
        return [asked.path for asked in self.model.asked if asked.path != "/" and not asked.path.startswith(OURS)]

    def run(self, command: Command, **env: str) -> Done:
        """One command of a coder to its end; when it takes too long, all of its process group ends with it."""
        child = subprocess.Popen(
            command.argv,
            cwd=self.project,
            env=self.environment() | dict(command.env) | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = child.communicate(command.stdin.encode(), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            raise AssertionError(f"{command.argv[0]} did not end in {SECONDS} s\n{out!r}\n{err!r}") from None
        return Done(child.returncode, out, err.decode(errors="replace"))

    def environment(self) -> dict[str, str]:
        proxy = self.model.endpoint
        return {
            "PATH": os.pathsep.join([*(str(parts.find(name).bin) for name in PARTS), os.environ["PATH"]]),
            "HOME": str(self.home),
            "FLEET_KEY": KEY,
            "IS_SANDBOX": "1",  # Claude Code will not work unasked as root, except in a sandbox
            "ANTHROPIC_BASE_URL": self.model.endpoint,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",  # in a terminal it would fetch plugins
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "npm_config_registry": f"{proxy}{NPM}",  # OpenCode fetches a package for its plugins, in the background
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }


@contextmanager
def desk(directory: Path, mind: Mind) -> Iterator[Desk]:
    project, home = directory / "project", directory / "home"
    project.mkdir()
    (home / ".codex").mkdir(parents=True)
    (home / ".config" / "opencode").mkdir(parents=True)
    with Server(mind).running() as model:
        assert isinstance(model, Server)
        (home / ".codex" / "config.toml").write_text(CODEX.format(endpoint=model.endpoint))
        (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(opencode(model.endpoint)))
        for name, own in {".gemini": gemini(), ".qwen": qwen(model.endpoint)}.items():
            (home / name).mkdir()
            (home / name / "settings.json").write_text(json.dumps(own, indent=2))
        (home / ".gemini" / ".env").write_text(f"GEMINI_API_KEY={KEY}\nGOOGLE_GEMINI_BASE_URL={model.endpoint}\n")
        yield Desk(project, home, model)


def opencode(endpoint: str) -> dict[str, Any]:
    """A provider, and permissions that would ask a person about every command."""
    limit = {"context": 65536, "output": 4096}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{endpoint}/v1", "apiKey": KEY},
        "models": {"local-coder": {"name": "local-coder", "limit": limit}},
    }
    return {"provider": {"fleet": provider}, "permission": {"bash": {"*": "ask", "rm *": "deny"}, "edit": "ask"}}


def gemini() -> dict[str, Any]:
    """A key for a login, no word to anybody else, and no second try: it would try ten times, for minutes."""
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    }


def qwen(endpoint: str) -> dict[str, Any]:
    """A key and where to, no word to anybody else, and no requests of its own beside the work."""
    return {
        "security": {"auth": {"selectedType": "openai", "apiKey": KEY, "baseUrl": f"{endpoint}/v1"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        "$version": 4,  # Qwen Code puts it there at its first start
    }

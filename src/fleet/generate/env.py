"""The file a shell sources before an agent CLI starts. It only sets variables: sourcing it executes nothing."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence

from fleet.core.fleet import Fleet
from fleet.generate.base import NOTICE, File

PATH = ".env.subagent-fleet"
NO_KEY = "none"
SOURCED = "FLEET_SOURCED_KEY"  # the fingerprint of the key that a shell has from this file, and not from its user


def fingerprint(key: str) -> str:
    """A key's name, for messages."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:8]


def render(fleet: Fleet, key: str, exports: Mapping[str, str | None], key_variables: Sequence[str]) -> list[File]:
    lines = [f"# {NOTICE}", "# It holds a secret: keep it out of git, and out of other people's reach."]
    if not fleet.is_direct:
        lines.append(f"export {fleet.gateway.master_key_env}={shlex.quote(key)}")
        lines.append(f"export {SOURCED}={fingerprint(key)}")
    token = _token(fleet, key)
    lines += [f"export {name}={token}" for name in dict.fromkeys(key_variables)]
    in_use = {fleet.gateway.master_key_env, *(node.api_key_env for node in fleet.nodes.values())}
    for name, value in exports.items():
        if value is None and name in in_use:
            continue
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    return [File(PATH, ("\n".join(lines) + "\n").encode(), private=True)]


def _token(fleet: Fleet, key: str) -> str:
    """The gateway's key; in direct mode the node's own, taken from its variable when the file is sourced."""
    if not fleet.is_direct:
        return shlex.quote(key)
    node = fleet.node_of(fleet.models[next(iter(fleet.agents.values())).model])
    return f'"${node.api_key_env}"' if node.api_key_env else NO_KEY

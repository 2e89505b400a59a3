"""The environment an agent gets: what every program needs, what fleet tells it, and what its user passes on by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from fleet.core.work import Attempt
    from fleet.supervisor.house import House

KEPT = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}  # fmt: skip
KEPT_PREFIXES = ("LC_", "XDG_")
HEADERS, HEADER = "ANTHROPIC_CUSTOM_HEADERS", "x-fleet-attempt"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def agent_environment(
    outer: Mapping[str, str], passed: Iterable[str], given: Mapping[str, str], told: Mapping[str, str]
) -> dict[str, str]:
    """An allow-list of the supervisor's environment, then what the user gives the coder, then what fleet tells it."""
    kept = {name: value for name, value in outer.items() if _kept(name, passed) or _plain_proxy(name, value)}
    whole = kept | {"TERM": "dumb", "NO_COLOR": "1"} | dict(given) | dict(told)
    return whole | _signed(whole)


def told(house: House, attempt: Attempt) -> dict[str, str]:
    """What fleet tells an agent about where it is."""
    return {
        "FLEET_TASK_ID": attempt.task,
        "FLEET_TASK_DIR": str(house.task_directory(attempt.task)),
        "FLEET_ARTIFACT_DIR": str(house.artifacts(attempt.task)),
        "FLEET_ATTEMPT": attempt.id,
        "FLEET_NONCE": attempt.nonce,
    }


def marks(house: House, attempt: Attempt) -> dict[str, str]:
    """What every process of an attempt has in its environment, in this home and no other."""
    return {name: value for name, value in told(house, attempt).items() if name in ("FLEET_ATTEMPT", "FLEET_TASK_DIR")}


def _signed(env: Mapping[str, str]) -> dict[str, str]:
    """What makes Claude Code say in every model request which attempt it is of, beside the user's own headers.

    Codex and OpenCode are told by the files that fleet generates, which name FLEET_ATTEMPT.
    """
    attempt, own = env.get("FLEET_ATTEMPT"), env.get(HEADERS, "")
    ours = f"{HEADER}: {attempt}"
    return {HEADERS: f"{own}\n{ours}" if own.strip() else ours} if attempt else {}


def _kept(name: str, passed: Iterable[str]) -> bool:
    return name in KEPT or name.startswith(KEPT_PREFIXES) or any(fnmatchcase(name, pattern) for pattern in passed)


def _plain_proxy(name: str, value: str) -> bool:
    """A proxy is passed on unless its address carries a password."""
    return name.upper() in PROXIES and "@" not in (urlsplit(value).netloc or value)

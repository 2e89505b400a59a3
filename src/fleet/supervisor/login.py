"""Which login an agent gets: the one that its CLI keeps itself, or the one in its user's environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleet.coders.logins import LOGINS, Access, Login, Store
from fleet.config.runtime_schema import AccountSettings, CoderSettings
from fleet.host import files
from fleet.supervisor.environment import agent_environment

MAX_STORE_BYTES = 16 * 1024 * 1024
KEY_VARIABLE = "FLEET_API_KEY"  # what a key is called for an agent that would ask a person about its usual name
NO_SETTINGS = CoderSettings()


@dataclass(frozen=True, slots=True)
class Passed:
    """The names of the variables an agent gets beside the usual ones, and what its user is told of that."""

    names: tuple[str, ...] = ()
    note: str = ""  # which login it gets, where there is a choice
    change: str = ""  # the command that makes the other choice
    warnings: tuple[str, ...] = ()
    asked_about: str = ""  # the variable with a key of which it would ask in a terminal whether that is meant


def passed_on(
    coder: str,
    part: CoderSettings | None,
    outer: Mapping[str, str],
    given: Mapping[str, str],
    account: AccountSettings | None = None,
) -> Passed:
    """What is passed on to an agent: what its settings name, and its user's login where nothing else says which."""
    part, login = part or NO_SETTINGS, LOGINS.get(coder)
    named = (*part.pass_env, *(account.pass_env if account else ()))
    warnings = tuple(f"{coder}: pass_env names {name}, which is not set here" for name in _unset(named, outer))
    if login is None:
        return Passed(named, warnings=warnings)
    names, note, change = named, "", ""
    if account is None and part.pass_login:
        names, note, change = _with_login(coder, login, outer, given, named)
    key = login.asks_about
    is_given = bool(given.get(key)) or (key in names and bool(outer.get(key)))
    return Passed(names, note, change, warnings, key if is_given else "")


def _with_login(
    coder: str, login: Login, outer: Mapping[str, str], given: Mapping[str, str], named: tuple[str, ...]
) -> tuple[tuple[str, ...], str, str]:
    """The names with those of its login, and what is said of that; an agent CLI that keeps a login uses that one."""
    names = login_variables(login, outer, (*given, *named))
    if not names:
        return named, "", ""
    keys = listed([name for access in login.access for name in access.decisive if name in names])
    own = own_login(login, agent_environment(outer, named, given, {}))
    if own:
        change = f"fleet config set 'coders.{coder}.pass_env={json.dumps([*named, *names])}'"
        return named, f"{coder} uses its own login ({own}) and is not given {keys}", change
    return (*named, *names), f"{coder} is given {keys}", f"fleet config set coders.{coder}.pass_login=false"


def is_login_seen(coder: str, part: CoderSettings | None, outer: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Whether an agent has a login as far as a look tells; of a coder whose logins nobody knows, it has."""
    login = LOGINS.get(coder)
    env = agent_environment(outer, passed_on(coder, part, outer, given).names, given, {})
    keys = [name for access in login.access for name in access.keys] if login else []
    return login is None or any(env.get(name) for name in keys) or bool(own_login(login, env))


def login_variables(login: Login, outer: Mapping[str, str], chosen: Iterable[str]) -> tuple[str, ...]:
    """The variables of a login that are set: keys with where they are good for, provider by provider; nothing of a
    provider for which the settings name a key or an address of their own.
    """
    chosen = set(chosen)
    return tuple(name for access in login.access if _is_ours(access, outer, chosen) for name in _set(access, outer))


def _is_ours(access: Access, outer: Mapping[str, str], chosen: set[str]) -> bool:
    return any(outer.get(name) for name in access.keys) and not chosen.intersection(access.decisive)


def _set(access: Access, outer: Mapping[str, str]) -> list[str]:
    return [name for name in (*access.keys, *access.where) if outer.get(name)]


def _unset(named: Iterable[str], outer: Mapping[str, str]) -> list[str]:
    return [name for name in dict.fromkeys(named) if not outer.get(name)]


def own_login(login: Login, env: Mapping[str, str]) -> str:
    """The file in which an agent CLI keeps a login of its own; empty when none is seen."""
    moved = env.get(login.directory)
    for store in login.stores:
        path = Path(moved).expanduser() / Path(store.file).name if moved else Path(env.get("HOME") or "~") / store.file
        if _holds(path.expanduser(), store):
            return str(path)
    return ""


def _holds(path: Path, store: Store) -> bool:
    """Whether a file holds a login; one that cannot be read holds none that is known of."""
    found: object = None
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(files.read(path, follow=True, limit=MAX_STORE_BYTES) or b"null")
    return any(_at(found, field) is not None for field in store.fields) if store.fields else bool(found)


def _at(found: object, field: str) -> object:
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def listed(names: Sequence[str]) -> str:
    """A, B and C."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last

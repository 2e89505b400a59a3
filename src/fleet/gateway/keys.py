"""The key of a project's gateway: the user's, or made at random; kept in a file that only its owner reads, never
printed. Messages name a key by its fingerprint.
"""

from __future__ import annotations

import math
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fleet.core import FleetError
from fleet.core.fleet import Fleet
from fleet.generate import env
from fleet.generate.env import fingerprint
from fleet.host import files

NAME = "master.key"
PATH = f"{files.OWN}/{NAME}"
MIN_LENGTH = 24
MIN_BITS = 80.0


def stored(out: Path) -> str | None:
    content = files.read(out / PATH)
    return content.decode(errors="replace").strip() or None if content is not None else None


def proposed(fleet: Fleet, out: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The project's key; for a project without one the key that the user exported, or a random one."""
    key = stored(out)
    if key is None and (out / PATH).exists():
        raise FleetError(f"{out / PATH} is empty", hint=f"rm {out / PATH}")
    return key or exported(fleet, environ) or f"sk-fleet-{secrets.token_urlsafe(32)}"


def exported(fleet: Fleet, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key that the user exported; not one that the shell has from the env file of a project."""
    key = environ.get(fleet.gateway.master_key_env)
    return key if key and environ.get(env.SOURCED) != fingerprint(key) else None


def keep(out: Path, key: str) -> bool:
    """Make this the project's key, unless it has another one by now."""
    return stored(out) == key or files.create(files.own_dir(out) / NAME, f"{key}\n".encode(), files.PRIVATE)


def chosen(fleet: Fleet, out: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key in force: the project's; for a project without one, that of the variable that fleet.yaml names."""
    return stored(out) or environ.get(fleet.gateway.master_key_env)


def source(fleet: Fleet, out: Path) -> str:
    """Where the key in force comes from."""
    return PATH if stored(out) else f"${fleet.gateway.master_key_env}"


def refuse_weak_export(fleet: Fleet, out: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Raise when the key that the user exported would become the project's, and is weak."""
    key = None if stored(out) else exported(fleet, environ)
    problem = weakness(key) if key else None
    if problem:
        name = fleet.gateway.master_key_env
        raise FleetError(
            f"${name} cannot become this project's key: {problem}",
            hint=f"export {name}=sk-$(openssl rand -hex 24), or let fleet make one: unset {name}",
        )


def about(fleet: Fleet, out: Path, *, taken: bool, environ: Mapping[str, str] = os.environ) -> str | None:
    """What to say of the key in the shell after generating: that it was taken, or that another one is in use."""
    own = stored(out)
    if taken and own and own == exported(fleet, environ):
        return f"this project's key is the one in ${fleet.gateway.master_key_env} ({fingerprint(own)})"
    other = other_key(fleet, out, environ)
    return (
        f"{other}; to use the exported one: rm {PATH} && fleet generate"
        if other and exported(fleet, environ)
        else other
    )


def other_key(fleet: Fleet, out: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """What to say when the shell holds another key than the project."""
    own, name = stored(out), fleet.gateway.master_key_env
    found = environ.get(name)
    if own is None or not found or found == own:
        return None
    what = "is not this project's key" if exported(fleet, environ) else "came with the env file of another project"
    return (
        f"${name} ({fingerprint(found)}) {what}: the gateway here and {env.PATH} "
        f"use the one in {PATH} ({fingerprint(own)})"
    )


def weakness(key: str) -> str | None:
    """Why a key is too weak to stand guard; None when it is strong."""
    if len(key) < MIN_LENGTH:
        return f"it has {len(key)} characters, fewer than {MIN_LENGTH}"
    if any(ord(c) < 33 or ord(c) > 126 for c in key):
        return "it holds spaces or characters that no key has"
    counts = Counter(key.removeprefix("sk-"))
    total = counts.total()
    bits = -sum(n * math.log2(n / total) for n in counts.values())
    return "it repeats itself and could be guessed" if bits < MIN_BITS else None


def strong(fleet: Fleet, out: Path) -> str:
    """The key in force, refused when it is weak."""
    key = chosen(fleet, out)
    if key is None:
        proposed(fleet, out)  # an empty key file is another thing than none
        raise FleetError("this project has no gateway key yet", hint="fleet generate")
    problem = weakness(key)
    if problem:
        where = source(fleet, out)
        remedy = f"rm {PATH} && fleet generate" if where == PATH else f"unset {where[1:]} && fleet generate"
        raise FleetError(f"the gateway does not start with a weak key: {where}: {problem}", hint=remedy)
    return key

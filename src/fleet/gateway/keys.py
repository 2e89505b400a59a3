"""The gateway's key: made once, at random, kept in a file that only its owner reads, never printed."""

from __future__ import annotations

import math
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fleet.core import FleetError
from fleet.core.fleet import Fleet
from fleet.host import files

NAME = "master.key"
PATH = f"{files.OWN}/{NAME}"
MIN_LENGTH = 24
MIN_BITS = 80.0


def stored(out: Path) -> str | None:
    content = files.read(out / PATH)
    return content.decode(errors="replace").strip() or None if content is not None else None


def proposed(out: Path) -> str:
    """The project's key, or one it could have."""
    key = stored(out)
    if key is None and (out / PATH).exists():
        raise FleetError(f"{out / PATH} is empty", hint=f"rm {out / PATH}")
    return key or f"sk-fleet-{secrets.token_urlsafe(32)}"


def keep(out: Path, key: str) -> bool:
    """Make this the project's key, unless it has another one by now."""
    return stored(out) == key or files.create(files.own_dir(out) / NAME, f"{key}\n".encode(), files.PRIVATE)


def chosen(fleet: Fleet, out: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key in force: the environment variable that fleet.yaml names, else the project's own."""
    return environ.get(fleet.gateway.master_key_env) or stored(out)


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
        proposed(out)  # an empty key file is another thing than none
        raise FleetError("this project has no gateway key yet", hint="fleet generate")
    problem = weakness(key)
    if problem:
        name = fleet.gateway.master_key_env
        where = f"${name}" if os.environ.get(name) else PATH
        remedy = f"unset {name}" if os.environ.get(name) else f"rm {PATH} && fleet generate"
        raise FleetError(f"the gateway does not start with a weak key: {where}: {problem}", hint=remedy)
    return key

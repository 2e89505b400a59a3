"""LiteLLM in an environment of its own: installed once a machine, from a lock with hashes, never imported by us."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from fleet.core import FleetError
from fleet.core.text import clean
from fleet.host import files, locks, process

# Releases that carried a credential stealer, and everything older than the mending of two ways past the key.
STOLEN = {(1, 82, 7), (1, 82, 8)}
SAFE_FROM = (1, 84, 0)

Say = Callable[[str], None]


def lock_text() -> str:
    return resources.files("fleet.gateway").joinpath("litellm.txt").read_text()


def version() -> str:
    """The LiteLLM release that the lock pins."""
    found = re.search(r"^litellm==(\S+)", lock_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def directory() -> Path:
    """Where the environment is or will be: another lock or another Python is another environment."""
    mark = hashlib.sha256(f"{lock_text()}{sys.version_info[:2]}".encode()).hexdigest()[:8]
    return files.cache() / f"litellm-{version()}-{mark}"


def installed() -> Path | None:
    """The litellm program, when its environment is whole."""
    program = directory() / "bin" / "litellm"
    return program if (directory() / ".whole").exists() and program.exists() else None


def ensure(say: Say) -> Path:
    """The litellm program; installs it first when needed, which takes a minute or two."""
    program = installed()
    if program:
        return program
    home = directory()
    lock = locks.take(home.with_suffix(".lock"))
    if lock is None:
        raise FleetError("another fleet is installing LiteLLM right now", hint="wait for it, then try again")
    try:
        if installed() is None:
            _install(home, say)
    finally:
        locks.release(lock)
    return home / "bin" / "litellm"


def _install(home: Path, say: Say) -> None:
    say(f"installing LiteLLM {version()} into {home} (once a machine, a minute or two)")
    process.make_environment(home)
    lock = home / "litellm.txt"
    lock.write_text(lock_text())
    argv = [home / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
    argv += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", lock]
    _run_pip([str(word) for word in argv], say)
    (home / ".whole").touch()


def _run_pip(argv: list[str], say: Say) -> None:
    """Run pip and tell how far it is."""
    lines: list[str] = []
    total = lock_text().count("==")

    def hear(line: str) -> None:
        lines.append(line)
        fetched = sum(known.startswith("Collecting") for known in lines)
        if line.startswith("Collecting") and fetched % 20 == 0:
            say(f"  fetched {fetched} of at most {total} packages")
        elif line.startswith("Installing collected"):
            say("  unpacking")

    if process.follow(argv, _pip_env(), hear):
        tail = "\n".join(f"  {clean(line)}" for line in lines[-5:])
        raise FleetError(f"LiteLLM could not be installed:\n{tail}", hint="check the network, then try again")


def _pip_env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def bad_release(release: str) -> str | None:
    """Why a LiteLLM release must not be used; None when nothing is known against it."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:3])
    if numbers in STOLEN:
        return "this release carried a credential stealer: remove it and change every key the machine had"
    if numbers < SAFE_FROM:
        return f"releases below {'.'.join(map(str, SAFE_FROM))} let requests past the key"
    return None

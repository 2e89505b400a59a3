"""A newer fleet, from where this one was installed from, by the tool that installed it.

No package index is asked: nothing of ours is published there, and whoever takes a free name first owns it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import fleet
from fleet import DISTRIBUTION, __version__
from fleet.core import FleetError, ToolMissing
from fleet.core.text import clean
from fleet.host import files, machine, process
from fleet.host.run import run

if TYPE_CHECKING:
    from packaging.version import Version

ASK_TIMEOUT_S = 60.0
COMMIT_CHARACTERS = 12
VERSION_LINE = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
INSTALL_PAGE = "README, Install"


class Method(StrEnum):
    """What installed this fleet; `source` is a checkout that runs where it stands."""

    UV_TOOL = "uv tool"
    UV = "uv pip"
    PIPX = "pipx"
    PIP = "pip"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Facts:
    """What stands on disk about an installation."""

    version: str
    direct: Mapping[str, object] | None = None  # direct_url.json: where it came from, unless that was an index
    has_uv_receipt: bool = False
    has_pipx_metadata: bool = False
    installer: str = "pip"


@dataclass(frozen=True, slots=True)
class Found:
    """What its origin has. None is unknown, for the reason given; what cannot just be brought has a hint instead."""

    newest: str | None = None
    newer: bool | None = None
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about newer versions, and the command that brings them."""

    installed: str
    method: Method
    origin: str
    asked: float
    found: Found
    command: tuple[str, ...]


def method_of(facts: Facts) -> Method:
    """Which tool installed it, from what that left behind."""
    if _part(facts.direct, "dir_info").get("editable"):
        return Method.SOURCE
    if facts.has_uv_receipt:
        return Method.UV_TOOL
    if facts.has_pipx_metadata:
        return Method.PIPX
    return Method.UV if facts.installer == "uv" else Method.PIP


def origin_of(direct: Mapping[str, object] | None, revision: str | None = None) -> str:
    """Where it came from, as installers want it written; of git at another revision if one is given."""
    if not direct:
        return ""
    vcs, url = _part(direct, "vcs_info"), str(direct.get("url", ""))
    if vcs:
        at = revision or vcs.get("requested_revision")
        url = f"{vcs.get('vcs')}+{url}" + (f"@{at}" if at else "")
    within = direct.get("subdirectory")
    return f"{url}#subdirectory={within}" if within else url


def command_of(method: Method, origin: str, python: str) -> tuple[str, ...]:
    """What brings it once more from its origin, even when that has the same version."""
    return {
        Method.UV_TOOL: ("uv", "tool", "upgrade", DISTRIBUTION, "--reinstall-package", DISTRIBUTION),
        Method.UV: ("uv", "pip", "install", "--python", python, "--reinstall-package", DISTRIBUTION, origin),
        Method.PIPX: ("pipx", "install", "--force", origin),
        Method.PIP: (python, "-m", "pip", "install", "--force-reinstall", origin),
        Method.SOURCE: (),
    }[method]


def removal_command() -> tuple[str, ...]:
    """What removes the program as it was installed; nothing for a checkout that runs where it stands."""
    return {
        Method.UV_TOOL: ("uv", "tool", "uninstall", DISTRIBUTION),
        Method.UV: ("uv", "pip", "uninstall", "--python", sys.executable, DISTRIBUTION),
        Method.PIPX: ("pipx", "uninstall", DISTRIBUTION),
        Method.PIP: (sys.executable, "-m", "pip", "uninstall", DISTRIBUTION),
        Method.SOURCE: (),
    }[method_of(look())]


def judge_refs(direct: Mapping[str, object], refs: Mapping[str, str], installed: str) -> Found:
    """What a git repository has, from its refs: of a branch its newest commit, else the newest tagged version."""
    vcs = _part(direct, "vcs_info")
    revision = vcs.get("requested_revision")
    there = refs.get(f"refs/heads/{revision}" if revision else "HEAD")
    if there is not None:
        return Found(there[:COMMIT_CHARACTERS], there != vcs.get("commit_id"))
    tags = (name.removeprefix("refs/tags/") for name in refs if name.startswith("refs/tags/"))
    versions = {version: tag for tag in tags if (version := _version(tag)) is not None}
    if not versions:
        return Found(reason=f"it was installed at {clean(str(revision))}, and no version is tagged there")
    newest, here = max(versions), _version(installed)
    hint = f"install it from {clean(origin_of(direct, versions[newest]), 1000)}"
    return Found(versions[newest], here is None or newest > here, f"it was installed at {clean(str(revision))}", hint)


def judge_checkout(initial: str, has_other_code: bool, installed: str) -> Found:
    """What a checkout has, from its `__init__.py`, and from whether its code is another than the installed."""
    said = VERSION_LINE.search(initial)
    there, here = _version(said[1] if said else ""), _version(installed)
    if there is None or here is None:
        return Found(reason="fleet's source does not stand there any more", hint=INSTALL_PAGE)
    return Found(str(there), there > here or (there == here and has_other_code))


def check() -> Known:
    """Whether there is a newer version where this one came from."""
    facts = look()
    method, origin = method_of(facts), origin_of(facts.direct)
    found = _ask(facts, method)
    brings = found.newer and not found.hint
    command = command_of(method, origin, sys.executable) if brings else ()
    return Known(facts.version, method, clean(origin, 1000), time.time(), found, command)


def look() -> Facts:
    """What stands on disk about the installation that runs now."""
    prefix = Path(sys.prefix)
    try:
        package = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        root = Path(fleet.__file__).resolve().parents[2]
        return Facts(__version__, {"url": root.as_uri(), "dir_info": {"editable": True}})
    direct = package.read_text("direct_url.json")
    return Facts(
        package.version,
        None if direct is None else _mapping(direct),
        (prefix / "uv-receipt.toml").exists(),
        (prefix / "pipx_metadata.json").exists(),
        (package.read_text("INSTALLER") or "").strip(),
    )


def _ask(facts: Facts, method: Method) -> Found:
    """Ask the origin, whatever it is."""
    direct = facts.direct
    if direct is None:
        reason = f"it was installed by its name, and {DISTRIBUTION} is not published: the name may be somebody else's"
        return Found(reason=reason, hint=f"install it from a git address, a checkout or a wheel ({INSTALL_PAGE})")
    url = str(direct.get("url", ""))
    path = Path(unquote(urlsplit(url).path))
    if method is Method.SOURCE:
        shown = clean(str(path), 1000)
        return Found(reason=f"it runs from the checkout in {shown}", hint=f"git -C {shlex.quote(shown)} pull")
    if _part(direct, "vcs_info").get("vcs") == "git":
        return _ask_git(url, direct, facts.version)
    if "dir_info" in direct:
        there, here = _code(path / "src/fleet"), _code(Path(fleet.__file__).parent)
        return judge_checkout(there.get("__init__.py", b"").decode(errors="replace"), there != here, facts.version)
    reason = f"it was installed from {clean(url, 1000)}, and only who made that knows of a newer one"
    return Found(reason=reason, hint=f"install the newer wheel in its place ({INSTALL_PAGE})")


def _ask_git(url: str, direct: Mapping[str, object], installed: str) -> Found:
    asked = ["git", "ls-remote", "--", url]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = run(asked, cwd=Path.home(), env=env, timeout=ASK_TIMEOUT_S)
    if done.code != 0:
        said = "it took too long" if done.timed_out else clean((done.said.splitlines() or ["nothing"])[-1])
        return Found(reason=f"git ls-remote says: {said}", hint=clean(shlex.join(asked), 1000))
    lines = (line.partition("\t") for line in done.out.decode(errors="replace").splitlines())
    return judge_refs(direct, {name: commit for commit, _, name in lines}, installed)


def _code(package: Path) -> dict[str, bytes]:
    """The Python of a package, by path; nothing where there is none."""
    return {str(path.relative_to(package)): files.read(path, follow=True) or b"" for path in package.rglob("*.py")}


def install(known: Known, hear: Callable[[str], None]) -> str:
    """Let the tool that installed it bring what its origin has; the version that is there then."""
    tool = known.command[0]
    if "/" not in tool and machine.program(tool) is None:
        raise ToolMissing(f"fleet was installed with {tool}, which is not on the PATH", hint=f"install {tool}")
    code = process.follow(known.command, os.environ, hear)
    now = check()
    if code != 0 or now.found.newer:
        raise FleetError(
            f"{known.method} ended with exit code {code}, and {now.installed} is installed, not {known.found.newest}",
            hint=clean(shlex.join(known.command), 2000),
        )
    return now.installed


def _version(text: str) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None


def _part(value: Mapping[str, object] | None, key: str) -> Mapping[str, object]:
    part = (value or {}).get(key)
    return part if isinstance(part, dict) else {}


def _mapping(text: str) -> Mapping[str, object]:
    """A file of another tool; that it is there says something even when it cannot be read."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

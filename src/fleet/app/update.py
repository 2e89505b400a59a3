"""A newer fleet, by the tool that installed this one: what it says about versions, and what it is asked to do."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fleet import __version__
from fleet.app.home import ensure_home
from fleet.core import FleetError, ToolMissing
from fleet.core.text import clean
from fleet.host import files, machine, process
from fleet.host.run import Ran, run

NAME = "fleet"
CACHE = "update.json"
DAY = 86_400.0
SECONDS = 120.0
VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:(a|b|rc)(\d+))?(?:\.post(\d+))?(?:\.dev(\d+))?\Z")
STAGES = {"a": 0, "b": 1, "rc": 2, None: 3}
QUESTION = ("install", "--dry-run", "--quiet", "--report", "-", "--ignore-installed", "--no-deps", NAME)
COMPILE = ("--no-deps", "--no-header", "--no-annotate", "--upgrade", "--quiet")


class Method(StrEnum):
    """How this fleet was installed."""

    UV_TOOL = "uv tool"
    UV = "uv pip"
    PIPX = "pipx"
    PIP = "pip"
    USER = "pip --user"
    SOURCE = "source"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Facts:
    """What stands on disk about an installation."""

    prefix: Path
    python: str
    receipt: Mapping[str, object] | None = None  # uv's, of a tool
    pipx: Mapping[str, object] | None = None
    direct: Mapping[str, object] | None = None  # where it came from, when that was no index
    installer: str = "pip"
    of_user: bool = False


@dataclass(frozen=True, slots=True)
class Installed:
    """How it was installed, what asks for the newest version, and what brings it; neither without an index."""

    method: Method
    ask: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about newer versions. None is unknown, for the reason given."""

    installed: str
    method: Method
    newest: str | None = None
    newer: bool | None = None
    asked: float | None = None
    command: tuple[str, ...] = ()
    reason: str = ""
    hint: str = ""
    cached: bool = field(default=False)


def judge(facts: Facts) -> Installed:
    """Which tool installed it, from what that left behind."""
    if facts.direct is not None:
        return _from_elsewhere(facts.direct)
    if facts.receipt is not None:
        ask = ("uv", "pip", "compile", "-", *COMPILE, "--python", facts.python, *_options(facts.receipt))
        return Installed(Method.UV_TOOL, ask, ("uv", "tool", "upgrade", NAME))
    if facts.pipx is not None:
        return Installed(
            Method.PIPX, ("pipx", "runpip", NAME, *QUESTION, *_pip_args(facts.pipx)), ("pipx", "upgrade", NAME)
        )
    if facts.installer == "uv":
        ask = ("uv", "pip", "compile", "-", *COMPILE, "--python", facts.python)
        return Installed(Method.UV, ask, ("uv", "pip", "install", "--python", facts.python, "--upgrade", NAME))
    pip = (facts.python, "-m", "pip")
    user = ("--user",) if facts.of_user else ()
    method = Method.USER if facts.of_user else Method.PIP
    return Installed(method, (*pip, *QUESTION), (*pip, "install", *user, "--upgrade", NAME))


def _from_elsewhere(direct: Mapping[str, object]) -> Installed:
    url = str(direct.get("url", ""))
    parts = urlsplit(url)
    origin = unquote(parts.path) if parts.scheme == "file" else url
    return Installed(Method.SOURCE if "dir_info" in direct else Method.FILE, origin=origin)


def _options(receipt: Mapping[str, object]) -> Iterator[str]:
    """Where uv looked when it installed the tool, as options."""
    tool = receipt.get("tool")
    options = tool.get("options") if isinstance(tool, dict) else None
    if not isinstance(options, dict):
        return
    if options.get("no-index") is True:
        yield "--no-index"
    for key in ("find-links", "extra-index-url", "index-url"):
        value = options.get(key, [])
        for one in value if isinstance(value, list) else [value]:
            yield from (f"--{key}", str(one))
    for index in options.get("index", []):
        if isinstance(index, dict) and "url" in index:
            yield from ("--default-index" if index.get("default") else "--index", str(index["url"]))


def _pip_args(pipx: Mapping[str, object]) -> Iterator[str]:
    package = pipx.get("main_package")
    given = package.get("pip_args") if isinstance(package, dict) else None
    yield from map(str, given if isinstance(given, list) else [])


def look() -> Facts:
    """What stands on disk about the installation that runs now."""
    prefix = Path(sys.prefix)
    try:
        package = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        root = Path(__file__).resolve().parents[3]
        return Facts(prefix, sys.executable, direct={"url": root.as_uri(), "dir_info": {}})
    direct = package.read_text("direct_url.json")
    where = Path(str(package.locate_file("")))
    return Facts(
        prefix,
        sys.executable,
        _read(prefix / "uv-receipt.toml", tomllib.loads),
        _read(prefix / "pipx_metadata.json", json.loads),
        _mapping(direct, json.loads) if direct else None,
        (package.read_text("INSTALLER") or "pip").strip(),
        not where.is_relative_to(prefix) and where.is_relative_to(Path.home()),
    )


def _read(path: Path, parse: Callable[[str], object]) -> Mapping[str, object] | None:
    try:
        content = files.read(path, follow=True)
    except OSError:
        return None
    return None if content is None else _mapping(content.decode(errors="replace"), parse)


def _mapping(text: str, parse: Callable[[str], object]) -> Mapping[str, object]:
    """A file of another tool; that it is there says something even when it cannot be read."""
    try:
        value = parse(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def check(*, force: bool) -> Known:
    """Whether there is a newer version; what was found today is not asked for again, unless forced."""
    installed = judge(look())
    if installed.method in (Method.SOURCE, Method.FILE):
        return _of_source(installed)
    home = ensure_home()
    before = None if force else _remembered(home, installed)
    if before is not None:
        return before
    known = _ask(installed)
    if known.newest is not None:
        content = {"prefix": sys.prefix, "newest": known.newest, "asked": known.asked}
        files.write(home / CACHE, json.dumps(content).encode(), files.PRIVATE)
    return known


def _of_source(installed: Installed) -> Known:
    where = clean(installed.origin, 1000)
    if installed.method is Method.SOURCE:
        reason = f"it runs from the source in {where}, and is updated there"
        return Known(__version__, installed.method, reason=reason, hint=f"git -C {where} pull")
    reason = f"it was installed from {where}, and only that knows of a newer one"
    return Known(__version__, installed.method, reason=reason, hint="install it again from where it came from")


def _remembered(home: Path, installed: Installed) -> Known | None:
    said = _read(home / CACHE, json.loads) or {}
    newest, asked = said.get("newest"), said.get("asked")
    if said.get("prefix") != sys.prefix or not isinstance(newest, str) or not isinstance(asked, int | float):
        return None
    if not 0 <= time.time() - asked < DAY:
        return None
    return _known(installed, newest, float(asked), cached=True)


def _ask(installed: Installed) -> Known:
    done = _call(installed.ask)
    newest = _version(done) if done.code == 0 else None
    if newest is None:
        reason = "it took too long" if done.timed_out else clean(done.said.splitlines()[-1] if done.said else "nothing")
        return Known(
            __version__, installed.method, command=installed.command, reason=f"{installed.method} says: {reason}",
            hint="look whether this machine is online, then: fleet update --force",
        )  # fmt: skip
    return _known(installed, newest, time.time())


def _call(argv: Sequence[str]) -> Ran:
    if "/" not in argv[0] and machine.program(argv[0]) is None:
        raise ToolMissing(f"fleet was installed with {argv[0]}, which is not on the PATH", hint=f"install {argv[0]}")
    stdin = f"{NAME}\n".encode() if "compile" in argv else b""
    return run(argv, cwd=Path.home(), env=os.environ, timeout=SECONDS, stdin=stdin)


def _version(done: Ran) -> str | None:
    """The version in pip's report, or in uv's list."""
    text = done.out.decode(errors="replace")
    listed = re.search(rf"^{NAME}==([^\s;]+)", text, re.MULTILINE)
    if listed:
        return listed[1]
    try:
        return str(json.loads(text)["install"][0]["metadata"]["version"])
    except (ValueError, LookupError, TypeError):
        return None


def _known(installed: Installed, newest: str, asked: float, *, cached: bool = False) -> Known:
    newer = order(newest) > order(__version__)
    return Known(__version__, installed.method, newest, newer, asked, installed.command, cached=cached)


def order(version: str) -> tuple[object, ...]:
    """A version in the order of versions: 1.0.dev1 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1 < 1.1."""
    found = VERSION.match(version)
    if not found:
        return ((), -1, 0, 0, 0.0)
    numbers = tuple(map(int, found[1].split(".")))
    while numbers[-1:] == (0,):
        numbers = numbers[:-1]
    stage = -1 if found[5] and not found[2] and not found[4] else STAGES[found[2]]
    dev = float(found[5]) if found[5] else float("inf")
    return (numbers, stage, int(found[3] or 0), int(found[4] or -1), dev)


def install(known: Known, hear: Callable[[str], None]) -> str:
    """Let the tool that installed it bring the newest; the version that is there then."""
    code = process.follow(known.command, os.environ, hear)
    if code != 0:
        raise FleetError(
            f"{known.method} could not update fleet (exit code {code}); {known.installed} is still there",
            hint=" ".join(known.command),
        )
    question = [sys.executable, "-P", "-c", "import fleet; print(fleet.__version__)"]
    said = run(question, cwd=Path.home(), env=os.environ, timeout=SECONDS)
    found = said.out.decode(errors="replace").strip()
    if order(found) <= order(known.installed):
        raise FleetError(
            f"{known.method} ran, and fleet is still {found or 'of an unknown version'}, not {known.newest}",
            hint="look whether a version was asked for when it was installed",
        )
    return found

"""Install fleet as people do, and use it: every distribution, with the newest and the lowest packages its ranges allow.

    python tools/install_check.py           all of it, some minutes
    python tools/install_check.py wheel     only the installations whose name holds this word

The wheel and the sdist are built once. Each is installed into an empty environment, with an empty HOME and cache, and
used outside the checkout: `fleet demo`, `fleet demo --models`, and a flow through both planes. The first installation
builds LiteLLM's environment from nothing, and lends it to the others. The checkout is installed as an editable uv tool.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
UV = BIN / "uv"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
COMMAND_TIMEOUT_S = 600
AT_ONCE = 2
TAIL_LINES = 25
PASSED_ON = ("PIP_", "UV_", "SSL_CERT", "REQUESTS_CA", "http_proxy", "https_proxy", "no_proxy", "HTTP", "NO_PROXY")
READS_LINES = '#!/bin/sh\nwhile read -r line; do echo "got: $line"; done\n'
FLEET_YAML = """\
project: {{name: smoke}}
gateway: {{port: {port}}}
nodes: {{box: {{endpoint: "http://127.0.0.1:9"}}}}
models: {{small: {{node: box, ollama_model: "demo:7b", litellm_alias: claude-haiku-local}}}}
agents: {{planner: {{model: small, description: plans}}}}
workspace: {{place: worktree}}
"""


class CheckFailed(Exception):
    """A command that did not do what it is to do, with what it printed."""


@dataclass(frozen=True)
class Installation:
    name: str
    install: Callable[[Scratch], Path]  # what installs it; the directory of its programs
    demo_only: bool = False


@dataclass(frozen=True)
class Scratch:
    """An empty machine, as far as one directory can be one."""

    root: Path

    def env(self, programs: Path | None = None) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        own = {
            "PATH": f"{programs}:{SYSTEM_PATH}" if programs else SYSTEM_PATH,
            "HOME": str(self.root / "home"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "UV_CACHE_DIR": str(self.root.parent / "uv-cache"),
            "UV_TOOL_DIR": str(self.root / "tools"),
            "UV_TOOL_BIN_DIR": str(self.root / "bin"),
            "LANG": "C.UTF-8",
            "OLLAMA_HOST": "127.0.0.1:9",
        }
        return passed | own

    def run(self, *argv: str | Path, programs: Path | None = None, cwd: Path | None = None) -> str:
        """What a command prints; it must exit with 0."""
        words = [str(word) for word in argv]
        if programs is not None:
            words[0] = str(programs / words[0])
        done = subprocess.run(
            words,
            cwd=cwd or self.root,
            env=self.env(programs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            tail = "\n    ".join(done.stdout.splitlines()[-TAIL_LINES:])
            raise CheckFailed(f"exit {done.returncode} from: {' '.join(words)}\n    {tail}")
        return done.stdout


def make_environment(scratch: Scratch) -> Path:
    venv.create(scratch.root / "venv", with_pip=True)
    return scratch.root / "venv" / "bin"


def install_newest(built: Path, scratch: Scratch) -> Path:
    programs = make_environment(scratch)
    scratch.run(programs / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", built)
    return programs


def install_lowest(built: Path, scratch: Scratch) -> Path:
    programs = make_environment(scratch)
    scratch.run(UV, "pip", "install", "--quiet", "--python", programs / "python", "--resolution=lowest-direct", built)
    return programs


def install_editable_tool(scratch: Scratch) -> Path:
    scratch.run(UV, "tool", "install", "--quiet", "--python", sys.executable, "--editable", ROOT)
    return scratch.root / "bin"


def use(scratch: Scratch, programs: Path, *, demo_only: bool) -> None:
    """What a new user does in the first ten minutes."""
    scratch.run("fleet", "--version", programs=programs)
    scratch.run("fleet", "demo", programs=programs)
    if not demo_only:
        scratch.run("fleet", "demo", "--models", programs=programs)
        go_through(scratch, programs)


def go_through(scratch: Scratch, programs: Path) -> None:
    project = make_project(scratch)

    def fleet(*words: str) -> str:
        return scratch.run("fleet", *words, programs=programs, cwd=project)

    fleet("init")
    (project / "fleet.yaml").write_text(FLEET_YAML.format(port=free_port()))
    fleet("config", "set", "coder=demonstration", "model=")
    with (scratch.root / "home" / ".fleet" / "runtime.toml").open("a") as settings:
        reader = json.dumps(str(scratch.root / "reader"))
        settings.write(f"\n[coders.reader]\nargv = [{reader}]\ninteractive = [{reader}]\n")
    added = json.loads(fleet("add", "Look around", "--kind", "research", "--json"))
    fleet("run", "--drain")
    state = json.loads(fleet("show", added["id"], "--json"))["row"]["state"]
    if state != "done":
        raise CheckFailed(f"the task is {state}, and not done:\n{fleet('show', added['id'])}")
    fleet("verify", added["id"])
    fleet("create", "one", "--agent", "reader", "--prompt", "go")
    fleet("kill", "one", "--force")
    fleet("generate")
    try:
        fleet("gateway", "up")
    finally:
        fleet("gateway", "down")


def make_project(scratch: Scratch) -> Path:
    project = scratch.root / "project"
    project.mkdir()
    program = scratch.root / "reader"
    program.write_text(READS_LINES)
    program.chmod(0o755)
    scratch.run("git", "config", "--global", "user.name", "smoke")
    scratch.run("git", "config", "--global", "user.email", "smoke@example.invalid")
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--message=begin")):
        scratch.run("git", *words, cwd=project)
    return project


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build(into: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of the checkout."""
    subprocess.run([BIN / "hatchling", "build", "--directory", into], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def installations(wheel: Path, sdist: Path) -> list[Installation]:
    found = [
        Installation(f"{kind}, {which} packages", partial(install, built))
        for which, install in (("newest", install_newest), ("lowest", install_lowest))
        for kind, built in (("wheel", wheel), ("sdist", sdist))
    ]
    return [*found, Installation("editable uv tool", install_editable_tool, demo_only=True)]


def check(one: Installation, top: Path, lent: Mapping[str, Path]) -> str | None:
    """Install and use it; what went wrong, or None."""
    began = time.monotonic()
    scratch = Scratch(top / one.name.replace(", ", "-").replace(" ", "-"))
    cache = scratch.root / "cache" / "fleet"
    for directory in (scratch.root / "home", cache):
        directory.mkdir(parents=True)
    for name, built in lent.items():
        (cache / name).symlink_to(built)
    problem = None
    try:
        use(scratch, one.install(scratch), demo_only=one.demo_only)
    except (CheckFailed, subprocess.TimeoutExpired, OSError) as failure:
        problem = f"{one.name}: {failure}"
    said = "FAILED" if problem else "passed"
    print(f"   {one.name}: {said} in {time.monotonic() - began:.0f} s", flush=True)
    return problem


def main(argv: list[str]) -> int:
    top = Path(tempfile.mkdtemp(prefix="fleet-install-"))
    try:
        chosen = [one for one in installations(*build(top / "dist")) if all(word in one.name for word in argv)]
        if not chosen:
            print(f"no installation is named so: {' '.join(argv)}", file=sys.stderr)
            return 2
        problems = [check(chosen[0], top, {})]
        lent = {path.name: path for path in (top / "").glob("*/cache/fleet/litellm-*") if path.is_dir()}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            problems += pool.map(lambda one: check(one, top, lent), chosen[1:])
    finally:
        shutil.rmtree(top, ignore_errors=True)
    failed = [problem for problem in problems if problem]
    print("\n".join(failed), file=sys.stderr)
    print(f"installations: {len(problems) - len(failed)} passed, {len(failed)} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

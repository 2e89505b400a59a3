"""What every tier shares: the real program in a scratch home, the real parts, and what to say about missing ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import parts
from fleet.gateway import environment
from fleet.host import tmux
from standins.coders.scratch import Ran

NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "litellm": (lambda: environment.installed() is not None, "make test installs it"),
    "more_agents": (lambda: parts.find("more-agents").present, "python tools/parts.py install more-agents"),
    "agents": (lambda: parts.find("agents").present, "python tools/parts.py install agents"),
    "aider": (lambda: parts.find("aider").present, "python tools/parts.py install aider"),
    "ollama": (
        lambda: parts.find("ollama").present and parts.find("smollm2").present,
        "python tools/parts.py install ollama smollm2  (builds for several minutes)",
    ),
    "tmux": (lambda: tmux.version() is not None, tmux.INSTALL),
    "bd": (lambda: parts.find("bd").present, "python tools/parts.py install bd  (builds for several minutes)"),
}
LEFT_OUT = pytest.StashKey[dict[str, int]]()
settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")
for ignored in (
    signal.SIGINT,
    signal.SIGHUP,
):  # by nohup, or a shell that runs us in its background: programs inherit it
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose parts are missing; with PARTS=all nothing may be left out."""
    missing = {name for name, (there, _) in NEEDS.items() if not there()}
    left = {name: sum(item.get_closest_marker(name) is not None for item in items) for name in missing}
    config.stash[LEFT_OUT] = {name: number for name, number in left.items() if number}
    if os.environ.get("PARTS") == "all" and config.stash[LEFT_OUT]:
        raise pytest.UsageError(f"PARTS=all, and these parts are missing: {', '.join(sorted(missing))}")
    kept = [item for item in items if not any(item.get_closest_marker(name) for name in missing)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first one what it has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left = config.stash.get(LEFT_OUT, {})
    if not left:
        return
    terminalreporter.section("LEFT OUT, because a real part is missing", sep="!", red=True)
    for name, number in sorted(left.items()):
        terminalreporter.write_line(f"{number} tests need {name}: {NEEDS[name][1]}")
    terminalreporter.write_line("everything, with nothing left out: PARTS=all make test")


Run = Callable[..., Ran]


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment with nothing of this machine in it but the search path and the cache of real parts."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "FLEET_HOME": str(home / ".fleet"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "LANG": "C.UTF-8",
        "OLLAMA_HOST": "127.0.0.1:9",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def run(project: Path, clean_env: dict[str, str]) -> Run:
    """Run the real program in the project directory."""

    def call(*args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None, timeout: int = 300) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *map(str, args)],
            cwd=cwd or project,
            env=clean_env | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def gateway(run: Run, project: Path) -> Iterator[Run]:
    """`fleet gateway up` in the project, and down again whatever happens."""
    try:
        yield run
    finally:
        run("gateway", "down")

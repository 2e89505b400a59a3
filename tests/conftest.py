"""What every tier shares: the real program in a scratch home, the real parts, and what to say about missing ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from declared import LONG, NEEDS, SLOW, Reach
from standins.coders.scratch import Ran

LEFT_OUT = pytest.StashKey[dict[str, int]]()
MISSING = pytest.StashKey[frozenset[str]]()
REACH = pytest.StashKey[Reach]()
settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")
for ignored in (
    signal.SIGINT,
    signal.SIGHUP,
):  # by nohup, or a shell that runs us in its background: programs inherit it
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """See which parts are there, and then hide them all; a process that only hands out tests to others does not."""
    config.stash[MISSING] = frozenset(name for name, need in NEEDS.items() if not need.is_there())
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        directory = tempfile.TemporaryDirectory(prefix="fleet-tests-")
        config.add_cleanup(directory.cleanup)
        config.stash[REACH] = Reach(Path(directory.name) / "reach")
        config.stash[REACH].enter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Show a test, and every fixture that is made for it, the parts that it says it needs."""
    item.config.stash[REACH].show({marker.name for marker in item.iter_markers()})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose parts are missing, and with PARTS=quick what takes long; with PARTS=all nothing."""
    tier, missing = os.environ.get("PARTS"), config.stash[MISSING]
    reasons = missing | (SLOW if tier == "quick" else frozenset())
    left = Counter(name for item in items for name in _reasons(item, reasons))
    config.stash[LEFT_OUT] = dict(left)
    if tier == "all" and left:
        raise pytest.UsageError(f"PARTS=all, and these parts are missing: {', '.join(sorted(left))}")
    config.hook.pytest_deselected(items=[item for item in items if _reasons(item, reasons)])
    items[:] = [item for item in items if not _reasons(item, reasons)]


def _reasons(item: pytest.Item, reasons: Collection[str]) -> list[str]:
    """The first of these markers that a test has: each is left out, and counted, once."""
    return sorted({marker.name for marker in item.iter_markers()}.intersection(reasons))[:1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first one what it has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(LEFT_OUT, {}):
        session.exitstatus = pytest.ExitCode.OK  # all of them were left out, and that is said


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left = config.stash.get(LEFT_OUT, {})
    if not left:
        return
    terminalreporter.section("LEFT OUT", sep="!", red=True)
    for name, number in sorted(left.items()):
        terminalreporter.write_line(f"{number} tests {why_left_out(name, name in config.stash[MISSING])}")
    terminalreporter.write_line("everything, with nothing left out: PARTS=all make test")


def why_left_out(marker: str, is_missing: bool) -> str:
    if marker == LONG:
        return "take long: another way to go through what a shorter test goes through"
    install = f", and that is missing: {NEEDS[marker].install}" if is_missing else ", which takes minutes to build"
    return f"need {marker}{install}"


Run = Callable[..., Ran]


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment with nothing of this machine in it but the search path and the cache of real parts."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "FLEET_HOME": str(home / ".fleet"),
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "PIP_NO_INDEX": os.environ["PIP_NO_INDEX"],
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

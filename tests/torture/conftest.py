"""Scenes for the promises under faults, and the table of figures at the end."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from standins.witness.scene import LARGE, SEED, Scene

FIGURES: list[tuple[str, str, str]] = []
LEFT_OUT: list[str] = []
os.environ["FLEET_SEED"] = str(SEED)  # of several processes, the first one chooses


def can_mount() -> bool:
    """Whether a small disk can be made here; it takes root and a system that lets it."""
    with tempfile.TemporaryDirectory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            return False
        return subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mount: needs to be allowed to mount a small disk")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine does not allow, and say so at the end."""
    wanting = [item for item in items if item.get_closest_marker("mount") is not None]
    if wanting and not can_mount():
        LEFT_OUT.extend(item.name for item in wanting)
        config.hook.pytest_deselected(items=wanting)
        items[:] = [item for item in items if item not in wanting]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "scene", lambda fault, figure, value: FIGURES.append((fault, figure, str(value))))
    try:
        yield made
    finally:
        made.close()
        left = made.all()
    assert not left, f"processes left behind: {left}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first one its figures."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["torture"] = (FIGURES, LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    figures, left_out = getattr(node, "workeroutput", {}).get("torture", ((), ()))
    FIGURES.extend(figures)
    LEFT_OUT[:] = left_out  # each process leaves out the same


def pytest_terminal_summary(terminalreporter: Any) -> None:
    size = "large" if LARGE else "small"
    terminalreporter.section(f"promises under faults, {size} (again with FLEET_SEED={SEED})")
    widths = [max((len(row[n]) for row in FIGURES), default=0) for n in range(2)]
    for fault, figure, value in FIGURES:
        terminalreporter.write_line(f"{fault:{widths[0]}}  {figure:{widths[1]}}  {value}")
    for name in LEFT_OUT:
        terminalreporter.write_line(f"LEFT OUT, because nothing can be mounted here (it takes root): {name}", red=True)

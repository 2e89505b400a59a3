"""Which installed packages are outside the ranges that fleet was tested with, and what brings the right ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fleet.app.dependencies import Fault, find_faults, repair_command

ROOT = Path(__file__).resolve().parents[2]
NEEDS = ("dbos<3.4,>=3.3", "click<9,>=8.2", 'winpty>=1; sys_platform == "win32"', 'extra>=1; extra == "more"')


@pytest.mark.parametrize(
    ("dbos", "sentences"),
    [
        ("3.3.0", []),
        ("3.3.7.post1", []),
        ("3.4.0", ["dbos 3.4.0 is installed; known to work: >=3.3,<3.4"]),
        ("3.2.9", ["dbos 3.2.9 is installed; known to work: >=3.3,<3.4"]),
        ("3.4.0rc1", ["dbos 3.4.0rc1 is installed; known to work: >=3.3,<3.4"]),
        ("not a version", ["dbos not a version is installed; known to work: >=3.3,<3.4"]),
        (None, ["dbos is not installed; known to work: >=3.3,<3.4"]),
    ],
)
def test_a_version_outside_its_range_is_a_fault(dbos: str | None, sentences: list[str]) -> None:
    assert [str(fault) for fault in find_faults(NEEDS, {"dbos": dbos, "click": "8.2.1"})] == sentences


def test_every_package_is_looked_at() -> None:
    assert [fault.name for fault in find_faults(NEEDS, {})] == ["dbos", "click"]


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("uv", "uv pip install --python '/a b/python' 'dbos>=3.3,<3.4'"),
        ("pip", "'/a b/python' -m pip install 'dbos>=3.3,<3.4'"),
        ("", "'/a b/python' -m pip install 'dbos>=3.3,<3.4'"),
    ],
)
def test_the_command_is_for_the_environment_that_fleet_runs_in(installer: str, command: str) -> None:
    assert repair_command([Fault("dbos", ">=3.3,<3.4", "3.4.0")], installer, "/a b/python") == command


def test_the_dev_extra_is_what_is_locked_for_development() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = (ROOT / "requirements/dev.in").read_text().splitlines()
    assert sorted(extras["dev"], key=str.lower) == sorted(
        (line for line in lines if line and not line.startswith(("#", "-r"))), key=str.lower
    )

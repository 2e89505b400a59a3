"""What the commands that people run all day load, and what they leave alone. By names: seconds are for `make bench`."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import fleet

NOBODY = {"asyncio", "dbos", "h11", "litellm", "rich", "tomlkit", "yaml", "fleet.core.fleet", "fleet.evidence.prices"}
LOOKS = {"concurrent.futures", "logging", "fleet.evidence.cost", "fleet.evidence.receipt", "fleet.gates"}


@pytest.mark.parametrize(
    ("command", "needed", "left"),
    [
        (["add", "look"], "fleet.tracker.local", {"msgspec", "subprocess", "fleet.core.work", "fleet.core.proof"}),
        (["tasks"], "fleet.evidence.ledger", LOOKS | {"fleet.supervisor.scope_watch", "fleet.supervisor.house"}),
        (["list"], "fleet.batches.look", LOOKS | {"fleet.places.salvage", "fleet.sessions.delivery"}),
        (["create", "outside"], "fleet.batches.create", {"fleet.batches.end", "fleet.places.salvage", "fleet.gates"}),
    ],
    ids=["add", "tasks", "list", "create"],
)
def test_a_command_loads_nothing_that_it_has_no_use_for(
    clean_env: dict[str, str], tmp_path: Path, command: list[str], needed: str, left: set[str]
) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "fleet", *command]
    for _ in ("in a home that is made", "in one that is there"):
        done = subprocess.run(argv, env=clean_env, cwd=tmp_path, capture_output=True, text=True, check=False)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert needed in loaded, done.stderr[-2000:]
    assert sorted(loaded & (NOBODY | left)) == []


def test_the_version_says_which_python_runs_it_and_from_where(clean_env: dict[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "fleet", "--version"]
    done = subprocess.run(argv, env=clean_env, cwd=tmp_path, capture_output=True, text=True, check=False)
    where = f"Python {platform.python_version()}, {Path(fleet.__file__).parent}"
    assert done.stdout == f"fleet, version {fleet.__version__} ({where})\n"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {one for one in loaded if one.partition(".")[0] == "fleet"} == {"fleet", "fleet.cli"}
    assert "importlib.metadata" not in loaded


def test_a_path_with_a_percent_sign_is_shown_as_it_is(clean_env: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "100%(prog)s"
    place.mkdir()
    (place / "fleet").symlink_to(Path(fleet.__file__).parent)
    argv = [sys.executable, "-m", "fleet", "--version"]
    done = subprocess.run(
        argv, env=clean_env | {"PYTHONPATH": str(place)}, cwd=tmp_path, capture_output=True, check=False
    )
    assert done.stdout.decode().endswith(f", {place}/fleet)\n"), done.stderr

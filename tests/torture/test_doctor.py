"""`fleet doctor` on disks that take nothing: what it says is what a start says that fails of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch
from standins.disk import fill_up, make_read_only, small_disk


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    """A home on a disk of its own, that has worked so far."""
    with scratch(tmp_path) as made, small_disk(made.home, "8m"):
        made.home.chmod(0o700)
        made.ok("config", "set", "min_free_disk=1MB")
        made.add("one")
        yield made


def faults(home: Scratch) -> dict[str, str]:
    return {one["finding"]: one["remedy"] for one in home.fleet("doctor", "--json").json() if one["health"] == "wrong"}


def starts(home: Scratch, *how: str) -> str:
    ran = home.fleet("run", *how)
    assert ran.code == 1
    sentence, hint = ran.err.splitlines()
    assert hint == "  next: fleet doctor"
    return sentence.removeprefix("fleet: ").removeprefix("the supervisor did not start: ")


@pytest.mark.mount
def test_a_home_that_is_read_only(home: Scratch) -> None:
    assert f"{home.home} cannot be written" not in "".join(faults(home))
    make_read_only(home.home)
    said = f"{home.home} cannot be written: Read-only file system"
    assert faults(home)[said] == f"ls -ld {home.home}; df -h {home.user}  # or: export FLEET_HOME=…"
    assert (starts(home, "--drain"), starts(home, "--detach")) == (said, said)


@pytest.mark.mount
def test_a_disk_that_is_full(home: Scratch) -> None:
    fill_up(home.home / "ballast")
    found = faults(home)
    said = f"{home.home} cannot be written: No space left on device"
    assert said in found
    short = next(
        remedy for finding, remedy in found.items() if finding.startswith("nothing starts: 0.0 GB of disk free")
    )
    assert short.startswith(f"make room on the disk of {home.home}, or allow less: ")
    assert (starts(home, "--drain"), starts(home, "--detach")) == (said, said)

"""Where a queued task is worked on, whatever an earlier attempt of it did there; with the real git."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.core import FleetError
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind
from fleet.places import record
from fleet.supervisor.place import look_around, place_of, settle_in


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "file").write_text("x\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgSign=false")
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=path, env=env, check=True, capture_output=True)
    return path


def test_the_next_agent_does_not_begin_where_an_earlier_one_put_a_link(project: Path, tmp_path: Path) -> None:
    spec = Spec(str(project / "deep" / "er"), place="worktree")
    placed = settle_in(tmp_path / "home", "t1", look_around(spec))
    assert placed.cwd == placed.place.path / "deep" / "er"
    (placed.cwd / "file").unlink()
    placed.cwd.rmdir()
    assert settle_in(tmp_path / "home", "t1", look_around(spec)) == placed, "a directory that is gone is made again"
    placed.cwd.rmdir()
    placed.cwd.parent.rmdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    placed.cwd.parent.symlink_to(outside)
    with pytest.raises(FleetError, match="leads out of"):
        settle_in(tmp_path / "home", "t1", look_around(spec))
    assert list(outside.iterdir()) == []


def test_a_record_of_another_repository_is_not_believed(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    placed = settle_in(home, "t1", look_around(Spec(str(project), place="worktree")))
    attempt = Attempt(
        "t1.1", "t1", 1, "c", None, str(placed.cwd), "me", 0.0, place=PlaceKind.WORKTREE, repository=str(project)
    )
    assert place_of(attempt) == placed.place
    said = record.read(placed.place.path)
    assert said is not None
    record.write(tmp_path, replace(said, repository="/elsewhere"))
    record.forget(placed.place.path)
    assert place_of(attempt) is None

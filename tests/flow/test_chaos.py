"""A small run of chaos: the real supervisor, agents that misbehave, a kill; and a judge who saw it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run

PLAYED = (
    "honest-computing",
    "rate-limited",
    "lies-no-call",
    "forged-receipt",
    "hangs",
    "daemonises",
    "edits-tests",
    "forges-object",
    "plants-pipe",
)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    made = tmp_path / "scratch"
    made.mkdir()
    return made


@pytest.mark.long
def test_a_small_run_passes_and_leaves_nothing(run: Run, clean_env: dict[str, str], scratch: Path) -> None:
    only = [word for name in PLAYED for word in ("--only", name)]
    ran = run(
        "chaos", "--seed", "5", "--minutes", "2", "--tasks", len(PLAYED), *only, "--json", env={"TMPDIR": str(scratch)}
    )
    card = ran.json()
    assert ran.code == 0, (card["findings"], ran.err)
    assert card["passed"] is True
    assert card["seed"] == 5
    assert {line["behaviour"]: line["cases"] for line in card["behaviours"]} == dict.fromkeys(PLAYED, 1)
    assert card["total"]["detected"] == len(PLAYED) - 2, "all but the two honest ones"
    assert card["kills"], "somebody was killed"
    assert "kills done" in ran.err
    assert list(scratch.iterdir()) == []
    assert not Path(clean_env["FLEET_HOME"]).exists(), "the user's own home is not touched"
    assert [pid for pid in os.listdir("/proc") if pid.isdigit() and str(scratch) in traces(int(pid))] == []


def test_a_run_that_is_cut_off_says_so_and_leaves_nothing(run: Run, scratch: Path) -> None:
    """Its time is up before a supervisor can have done anything."""
    ran = run("chaos", "--minutes", "0.05", "--tasks", "1", "--only", "ignores-term", env={"TMPDIR": str(scratch)})
    assert ran.code == 1
    assert "ignores-term: unfinished" in ran.out
    assert "1 unfinished" in ran.err
    assert "next: fleet chaos --seed" in ran.err
    assert list(scratch.iterdir()) == []
    assert [pid for pid in os.listdir("/proc") if pid.isdigit() and str(scratch) in traces(int(pid))] == []


def test_a_run_that_is_told_to_stop_leaves_nothing(clean_env: dict[str, str], scratch: Path) -> None:
    chaos = subprocess.Popen(
        [sys.executable, "-m", "fleet", "chaos", "--tasks", "2", "--only", "ignores-term"],
        env=clean_env | {"TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not list(scratch.glob("*/supervisor-1.out")):
        assert chaos.poll() is None, "it ended before a supervisor was started"
    chaos.send_signal(signal.SIGTERM)
    _, err = chaos.communicate(timeout=60)
    assert chaos.returncode == 130, err.decode()
    assert list(scratch.iterdir()) == []
    assert [pid for pid in os.listdir("/proc") if pid.isdigit() and str(scratch) in traces(int(pid))] == []


def test_the_script_of_a_seed_is_printed_and_nothing_is_done(run: Run, scratch: Path) -> None:
    first, second = (run("chaos", "--seed", "9", "--script", "--json", env={"TMPDIR": str(scratch)}) for _ in range(2))
    assert first.code == 0
    assert first.json() == second.json()
    assert len(first.json()["cases"]) == 40
    shown = run("chaos", "--seed", "9", "--minutes", "0.1", "--dry-run")
    assert "supervisor killed" in shown.out or "keeper killed" in shown.out or "told to stop" in shown.out


def test_an_unknown_behaviour_is_refused(run: Run) -> None:
    ran = run("chaos", "--only", "hang")
    assert ran.code == 2
    assert "did you mean" in ran.err
    assert "hangs" in ran.err


def traces(pid: int) -> str:
    """What a process was started with: a keeper has no environment, but names its directory."""
    try:
        return "".join(Path(f"/proc/{pid}/{name}").read_text(errors="replace") for name in ("environ", "cmdline"))
    except OSError:
        return ""

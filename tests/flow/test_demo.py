"""The demonstration: the first thing a new user runs, on a machine with nothing installed but Python and git."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from conftest import Run
from standins.broken_engine import shadow


def test_the_work_plane_is_shown_and_nothing_is_kept(run: Run, clean_env: dict[str, str], tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ran = run("demo", env={"TMPDIR": str(scratch)})
    assert ran.code == 0, ran.err
    assert "fleet demonstration (scripted): Write a function that greets" in ran.out
    assert [state_of(ran.out, name) for name in ("t1", "t4", "t5")] == ["✓ done, verified", "✗ refused", "◆ needs you"]
    told = ran.out.partition("What fleet makes of it:")[2]
    assert "verified           t1, t2, t3: " in told
    assert "refused            it said that it was done, and was not believed: the agent exited with 0" in told
    assert "waiting for input  " in told
    assert "reads a terminal that nobody types into" in told
    assert list(scratch.iterdir()) == []
    assert [pid for pid in processes() if str(scratch) in traces(pid)] == []
    assert not Path(clean_env["FLEET_HOME"]).exists(), "the user's own home is not touched"


def test_a_demonstration_whose_supervisor_cannot_start_says_why_and_refuses_nobody(run: Run, tmp_path: Path) -> None:
    ran = run("demo", env={"PYTHONPATH": str(shadow(tmp_path, "3.5.0"))})
    assert ran.code == 1
    assert "not started        t1, t2, t3, t4, t5: no agent was started for them" in ran.out
    assert "refused" not in ran.out
    assert "the demonstration did not end as it should: dbos 3.5.0 is installed; known to work: " in ran.err
    assert ran.err.endswith("\n  next: fleet doctor\n")


def test_the_demonstration_as_data(run: Run) -> None:
    shown = run("demo", "--json").json()
    states = [task["state"] for task in shown["tasks"]]
    assert states[:4] == ["done", "done", "done", "refused"]
    assert [task["proof"] for task in shown["tasks"]] == ["verified"] * 3 + ["refused", None]
    assert shown["tasks"][4]["life"]["state"] == "waiting for input"
    assert shown["stuck"] == shown["tasks"][4]["life"]["why"]
    assert len(shown["commits"]) == 4


def test_an_interrupted_demonstration_leaves_no_process_behind(clean_env: dict[str, str], tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = clean_env | {"TMPDIR": str(scratch)}
    demo = subprocess.Popen(
        [sys.executable, "-m", "fleet", "demo"],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    while not list(scratch.glob("*/home/tasks/*/attempts/*/agent.json")):
        assert demo.poll() is None, "it ended before an agent was started"
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=60)
    assert demo.returncode == 130, err.decode()
    assert list(scratch.iterdir()) == []
    assert [pid for pid in processes() if str(scratch) in traces(pid)] == []


def test_the_models_plane_is_shown_too(run: Run, clean_env: dict[str, str], project: Path) -> None:
    ran = run("demo", "--models")
    assert ran.code == 0, ran.err
    assert "planner -> small-box" in ran.out
    assert list(project.iterdir()) == []
    assert not Path(clean_env["FLEET_HOME"]).exists(), "nothing is kept"


def state_of(table: str, task: str) -> str:
    """What stands in the second column; columns are two spaces apart."""
    (row,) = [line for line in table.splitlines() if line.startswith(f"{task}  ")]
    return row.split("  ")[1].strip()


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def traces(pid: int) -> str:
    """What a process was started with: a keeper has no environment, but names its directory."""
    try:
        return "".join(Path(f"/proc/{pid}/{name}").read_text(errors="replace") for name in ("environ", "cmdline"))
    except OSError:
        return ""

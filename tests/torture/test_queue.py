"""A queue that others hold, a disk that is full, a clock that jumps: the work waits, and goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from standins.disk import fill_up, small_disk
from standins.witness.scene import Scene, locked, scale, until

LOCKED_FOR = scale(7, 60)
WRITES = scale(4, 100)


def check_nothing_doubled(scene: Scene, ids: list[str], fault: str) -> None:
    states = scene.states()
    lost = [task for task in ids if states[task] != "done"]
    starts = [seen.task for seen in scene.seen("start")]
    scene.report(fault, "lost; started more than once", f"{len(lost)}; {len(starts) - len(set(starts))}")
    assert not lost, (states, scene.said())
    assert sorted(starts) == sorted(ids), scene.said()
    assert not scene.seen("double")
    assert scene.torn() == 0


def test_a_locked_queue_ends_no_agent_and_loses_no_completion(scene: Scene) -> None:
    scene.works("short", steps=10, pause=0.2)
    scene.works("long", steps=LOCKED_FOR * 5 + 5, pause=0.2)
    scene.settings(max_concurrent=4)
    ids = scene.fill(
        [{"title": "t", "cwd": str(scene.directory(f"w{n}")), "coder": ("short", "long")[n % 2]} for n in range(6)]
    )
    child = scene.start("--drain")
    until(lambda: len(scene.seen("start")) == 4, 30, scene.said)
    with locked(scene.home / "fleet.db"):
        time.sleep(LOCKED_FOR)
        assert child.poll() is None, scene.said()
    until(lambda: child.poll() is not None, LOCKED_FOR + 60, scene.said)
    scene.report(f"queue locked {LOCKED_FOR} s", "exit of the supervisor", child.returncode)
    check_nothing_doubled(scene, ids, f"queue locked {LOCKED_FOR} s")
    assert child.returncode == 0


@pytest.mark.long
def test_a_supervisor_that_starts_while_the_queue_is_locked_adopts_all_the_same(scene: Scene) -> None:
    scene.works("long", steps=LOCKED_FOR * 5 + 10, pause=0.2)
    ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}"))} for n in range(3)])
    first = scene.start()
    until(lambda: len(scene.seen("start")) == 3, 30, scene.said)
    scene.kill(first)
    with locked(scene.home / "fleet.db", whole=True):
        child = scene.start("--drain")
        time.sleep(LOCKED_FOR)
    until(lambda: child.poll() is not None, LOCKED_FOR + 60, scene.said)
    if child.returncode:  # it said that the queue is locked, and may be started again
        scene.drain()
    check_nothing_doubled(scene, ids, f"started while locked {LOCKED_FOR} s")


# ---- the disk


@pytest.mark.long
def test_claims_stop_for_want_of_disk_and_go_on_when_there_is_some(scene: Scene) -> None:
    scene.works()
    scene.settings(min_free_disk="900TB")
    task = scene.add(cwd=scene.directory("w"))
    child = scene.start()
    until(lambda: scene.log("claims stopped"), 30, scene.said)
    assert "900" in scene.log("claims stopped")[0]["cause"]
    assert not scene.seen("start")
    scene.settings(min_free_disk="1MB")
    until(lambda: scene.states()[task] == "done", 30, scene.said)
    assert child.poll() is None


def fails_after(size: int) -> None:
    """Every file this process and its children write ends at this size: writes beyond it fail."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def sizes(scene: Scene) -> list[int]:
    """From too small for the tables of the engine to enough for a while; the program's own files fit in all of them."""
    return sorted(scene.random.sample(range(65_536, 400_000, 512), WRITES))


@pytest.mark.long
def test_writes_that_fail_leave_a_state_that_a_later_run_finishes(scene: Scene) -> None:
    scene.works("short", steps=1)
    valid = 0
    for n, size in enumerate(sizes(scene)):
        ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}.{m}"))} for m in range(3)])
        child = scene.start("--drain", before=partial(fails_after, size))
        stopped = end_soon(child, scene)
        with closing(sqlite3.connect(scene.home / "fleet.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert scene.torn() == 0, size
        assert set(ids) <= scene.tasks().keys()
        finish(scene, ids, size, stopped)
        valid += 1
    scene.report("writes fail at the n-th byte", "state valid", f"{valid} of {WRITES}")


def end_soon(child: subprocess.Popen[bytes], scene: Scene) -> int | None:
    """It may end by itself, or see no end; a kill is no different from a crash."""
    try:
        return child.wait(8)
    except subprocess.TimeoutExpired:
        scene.kill(child)
        return None


def finish(scene: Scene, ids: list[str], size: int, stopped: int | None) -> None:
    """A later run with room to write finishes what is not blocked; a person can open the rest again."""
    scene.drain(60)
    failed = [task for task, state in scene.states().items() if state == "failed"]
    for task in failed:
        assert scene.fleet("retry", task).code == 0
    if failed:
        scene.drain(60)
    states = scene.states()
    assert {states[task] for task in ids} == {"done"}, (size, stopped, states, scene.said())


@pytest.mark.mount
@pytest.mark.long
def test_a_full_disk_loses_nothing(scene: Scene) -> None:
    scene.works("short", steps=3, pause=0.2)
    with small_disk(scene.home, "24m"):
        scene.home.chmod(0o700)
        scene.settings(min_free_disk="1MB", max_concurrent=3)
        ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}"))} for n in range(9)])
        child = scene.start()
        until(lambda: len(scene.seen("start")) >= 2, 30, scene.said)
        ballast = fill_up(scene.home / "ballast")
        time.sleep(scene.random.uniform(3, 5))
        scene.report("full disk", "the supervisor", "lives" if child.poll() is None else f"ended with {child.poll()}")
        assert child.poll() in (None, 1), scene.said()
        assert child.poll() is None or "full" in scene.said(), "it must say why it ended"
        looked = scene.fleet("tasks", "--all")
        assert looked.code == 0 or "the disk is full" in looked.err, looked.err
        ballast.unlink()
        if child.poll() is not None:
            scene.start()
        until(lambda: all_done(scene, ids), 60, scene.said)
        assert scene.torn() == 0
        starts = len(scene.seen("start"))
        scene.report("full disk", "lost; attempts for 9 tasks", f"0; {starts}")
        scene.close()


def all_done(scene: Scene, ids: list[str]) -> bool:
    states = scene.states()
    return all(states[task] == "done" for task in ids)


# ---- the clock


@pytest.mark.parametrize("hours", [-48, 48])
@pytest.mark.long
def test_a_jump_of_the_clock_neither_robs_nor_stretches_a_wait(scene: Scene, hours: int) -> None:
    """The times in the ledger are moved instead of the clock: to the ledger it is the same."""
    scene.script("fails", 'echo "start $FLEET_TASK_ID $FLEET_ATTEMPT $$" >>"$WITNESS"; sleep 0.3; exit 3')
    scene.works("long", steps=20, pause=0.2)
    scene.settings(backoff="3s", max_concurrent=3, limits__attempts=2)
    retried = scene.add("fails", cwd=scene.directory("a"), coder="fails")
    honest = scene.add("long", cwd=scene.directory("b"), coder="long")
    child = scene.start()
    until(lambda: scene.tasks()[retried]["attempts"] == 1 and scene.tasks()[retried]["ended"], 30, scene.said)
    scene.kill(child)
    move_times(scene.home / "fleet.db", hours * 3600)
    child = scene.start("--drain")
    until(lambda: child.poll() is not None, 60, scene.said)
    states = scene.states()
    assert states == {retried: "failed", honest: "done"}, scene.said()
    assert [seen.task for seen in scene.seen("start")].count(honest) == 1
    scene.report(f"clock moved by {hours} h", "waits robbed or immortal; agents robbed", "0; 0")


def move_times(file: Path, seconds: float) -> None:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as database:
        rows = database.execute("SELECT id, facts FROM attempts").fetchall()
        for name, text in rows:
            facts = json.loads(text)
            for key in ("created", "started", "ended", "last_event"):
                facts[key] = facts[key] + seconds if facts.get(key) else facts.get(key)
            database.execute("UPDATE attempts SET facts = ? WHERE id = ?", (json.dumps(facts), name))
        database.execute("UPDATE workflow_status SET created_at = created_at + ?", (int(seconds * 1000),))


# ---- the settings


@pytest.mark.long
def test_broken_settings_keep_the_last_good_ones_and_new_ones_take_effect(scene: Scene) -> None:
    scene.works("long", steps=600, pause=0.2)
    scene.settings(max_concurrent=1)
    ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}"))} for n in range(4)])
    child = scene.start()
    until(lambda: len(scene.seen("start")) == 1, 30, scene.said)
    good = (scene.home / "runtime.toml").read_text()
    for bad in ("max_concurrent = \n", "max_concurrent = 0\n", "nonsense = 1\n", "\udcff"):
        heard = len(scene.log("settings not taken"))
        put(scene.home / "runtime.toml", bad)
        wait_for_complaint(scene, heard)
    os.unlink(scene.home / "runtime.toml")
    until(lambda: any("gone" in row["text"] for row in scene.log("settings not taken")), 60, scene.said)
    assert child.poll() is None
    assert len(scene.seen("start")) == 1
    put(scene.home / "runtime.toml", good.replace("max_concurrent = 1", "max_concurrent = 3"))
    until(lambda: len(scene.seen("start")) == 3, 60, scene.said)
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0
    assert len(ids) == 4


def put(path: Path, text: str) -> None:
    """Replace a file whole, as a careful editor does."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, errors="surrogateescape")
    draft.rename(path)


def wait_for_complaint(scene: Scene, heard: int) -> None:
    until(lambda: scene.ring() or len(scene.log("settings not taken")) > heard, 60, scene.said)

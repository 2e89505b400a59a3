"""Supervisors and keepers that are killed: nothing is lost, nothing is done twice, nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from standins.witness.scene import PATIENCE, Scene, git, scale, until

CLAIM_WITHIN, ORPHANS_WITHIN = 3.0, 5.0
STOP_WITHIN, STOP_AT_ONCE_WITHIN, OPENS_WITHIN = 5.0, 2.0, 10.0


def fill(scene: Scene, number: int) -> list[str]:
    """Short tasks, some long ones among them, some of them in repositories."""
    scene.works("short", steps=2, pause=0.1)
    scene.works("long", steps=30, pause=0.2)
    tasks: list[dict[str, object]] = []
    for n in range(number):
        cwd = scene.directory(f"w{n}", repository=n % scale(4, 10) == 0)
        tasks.append({"title": f"task {n}", "cwd": str(cwd), "coder": "long" if n % 10 == 7 else "short"})
    return scene.fill(tasks)


def doubles(scene: Scene) -> list[str]:
    """Tasks that two agents worked on at once: one saw the other's lock, or was heard of after another had begun."""
    found, latest = [seen.task for seen in scene.seen("double")], dict[str, str]()
    begun = set()
    for seen in scene.seen("start", "beat", "end"):
        if seen.what == "start":
            if seen.attempt in begun:
                found.append(seen.task)
            begun.add(seen.attempt)
            latest[seen.task] = seen.attempt
        elif latest.get(seen.task) != seen.attempt:
            found.append(seen.task)
    return found


def landed_twice(scene: Scene, robbed: set[str]) -> list[str]:
    """Tasks whose work arrived more than once, beside attempts whose keeper was killed under them."""
    ends = Counter(seen.task for seen in scene.seen("end") if seen.attempt not in robbed)
    return [task for task, number in ends.items() if number > 1]


def judge(scene: Scene, ids: list[str], robbed: set[str], fault: str) -> None:
    """Everything that must be true once all is settled, whatever was killed on the way."""
    states = scene.states()
    lost = [task for task in ids if states.get(task) != "done"]
    ended = {seen.task for seen in scene.seen("end")}
    attempts = len(scene.seen("start"))
    orphans = until(lambda: not scene.agents(), ORPHANS_WITHIN, scene.agents)
    figures = {
        "lost": len(lost) + len([task for task in ids if task not in ended]),
        "same task twice at once": len(doubles(scene)),
        "landed twice": len(landed_twice(scene, robbed)),
        "locks left": len(scene.held()),
        "unparseable log lines": scene.torn(),
    }
    for figure, value in figures.items():
        scene.report(fault, figure, value)
    scene.report(fault, "attempts, tasks, killed keepers", f"{attempts}, {len(ids)}, {len(robbed)}")
    scene.report(fault, "orphans gone after, s", f"{orphans:.2f}")
    assert not any(figures.values()), (figures, lost, scene.said())
    assert attempts <= len(ids) + len(robbed) + max(1, len(ids) // 100)
    assert landings_are_whole(scene)


def landings_are_whole(scene: Scene) -> bool:
    """Every repository holds exactly the commits its agents ended with, and is sound."""
    for place in sorted(scene.work.iterdir()):
        if (place / ".git").is_dir():
            git(place, "fsck", "--no-progress")
            subjects = git(place, "log", "--format=%s").split()
            assert len(set(subjects)) == len(subjects), (place, subjects)
            assert not git(place, "status", "--porcelain", "--untracked-files=no"), place
    return True


def kill_a_keeper(scene: Scene, robbed: set[str]) -> None:
    keepers = sorted(scene.keepers().items())
    if not keepers:
        return
    directory, pid = scene.random.choice(keepers)
    path = Path(directory)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        robbed.add(f"{path.parents[1].name}.{path.name}")


@pytest.mark.long
def test_killed_supervisors_and_keepers_lose_and_double_nothing(scene: Scene) -> None:
    number = scale(40, 1000)
    scene.settings(max_concurrent=scale(6, 12))
    ids = fill(scene, number)
    robbed: set[str] = set()
    claims, kills = [], 0
    deadline = time.monotonic() + scale(150, 3000)
    while time.monotonic() < deadline:
        began, child = time.time(), scene.start("--drain")
        over = wait_for_end(child, scene.random.uniform(1, 5))
        claims += first_claim(scene, began)
        if over:
            break
        if scene.random.random() < 0.4:
            kill_a_keeper(scene, robbed)
        scene.kill(child)
        kills += 1
    scene.drain(180)
    slowest = max(claims, default=0.0)
    scene.report("supervisor killed every 1-5 s", "kills of a supervisor", kills)
    scene.report("supervisor killed every 1-5 s", "first claim after restart, slowest, s", f"{slowest:.2f}")
    judge(scene, ids, robbed, "supervisor killed every 1-5 s")
    assert kills >= 3
    assert slowest < CLAIM_WITHIN * PATIENCE


def wait_for_end(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def first_claim(scene: Scene, began: float) -> list[float]:
    """How long after it was started this supervisor claimed its first task, if it did."""
    times = [float(row["at"]) for row in scene.log("claimed") if float(row["at"]) >= began]
    return [times[0] - began] if times else []


def test_everything_killed_at_once_loses_nothing(scene: Scene) -> None:
    scene.settings(max_concurrent=6)
    ids = fill(scene, scale(20, 200))
    robbed: set[str] = set()
    opened = 0.0
    for _ in range(scale(2, 10)):
        child = scene.start("--drain")
        wait_for_agents(scene, child)
        scene.kill(child, signal.SIGSTOP)  # so that nothing starts while the victims are listed
        keepers = scene.keepers()
        robbed |= {f"{Path(name).parents[1].name}.{Path(name).name}" for name in keepers}
        for pid in [child.pid, *keepers.values(), *scene.agents()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait()
        began = time.monotonic()
        scene.tasks()
        opened = max(opened, time.monotonic() - began)
    scene.drain(180)
    scene.report("everything killed at once", "queue opens after, slowest, s", f"{opened:.2f}")
    judge(scene, ids, robbed, "everything killed at once")
    assert opened < OPENS_WITHIN


def wait_for_agents(scene: Scene, child: subprocess.Popen[bytes]) -> None:
    until(lambda: len(scene.agents()) >= 3 or child.poll() is not None, 30, scene.said)
    time.sleep(scene.random.uniform(0, 1))


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.long
def test_a_supervisor_that_is_told_to_stop_lets_go_and_its_agents_are_adopted(
    scene: Scene, sign: signal.Signals
) -> None:
    scene.works("long", steps=15, pause=0.2)
    scene.settings(max_concurrent=3)
    ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}"))} for n in range(6)])
    child = scene.start()
    until(lambda: len(scene.seen("start")) == 3, 30, scene.said)
    told = time.time()
    child.send_signal(sign)
    took = until(lambda: child.poll() is not None, STOP_WITHIN * PATIENCE, scene.said)
    assert child.returncode == 0
    late = [row for row in scene.log("claimed") if row["at"] > told + 1]
    living = len(scene.keepers())
    scene.report(f"{sign.name}", "exit 0 after, s", f"{took:.2f}")
    scene.report(f"{sign.name}", "claims after 1 s; agents that live on", f"{len(late)}; {living}")
    assert not late
    assert living == 3
    scene.drain()
    judge(scene, ids, set(), sign.name)
    assert len(scene.seen("start")) == len(ids)


@pytest.mark.long
def test_a_second_signal_ends_a_supervisor_at_once(scene: Scene) -> None:
    """The first waits for a step that will not end: the check of a task."""
    scene.works("short", steps=1)
    scene.add(cwd=scene.directory("w"), check="sleep 40")
    child = scene.start()
    until(lambda: any(name.endswith("check") for name in scene.keepers()), 30, scene.said)
    child.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    took = until(lambda: child.poll() is not None, STOP_AT_ONCE_WITHIN * PATIENCE, scene.said)
    scene.report("second SIGTERM", "exit 0 after, s", f"{took:.2f}")
    assert child.returncode == 0


@pytest.mark.long
def test_a_supervisor_stops_in_time_though_a_check_runs_and_somebody_rings(scene: Scene) -> None:
    """Tasks that are added meanwhile wake it again and again; that must not keep it."""
    scene.works("short", steps=1)
    scene.add(cwd=scene.directory("w"), check="sleep 60")
    child = scene.start()
    until(lambda: any(name.endswith("check") for name in scene.keepers()), 30, scene.said)
    child.send_signal(signal.SIGTERM)
    took = until(lambda: scene.ring() or child.poll() is not None, STOP_WITHIN * PATIENCE, scene.said)
    scene.report("SIGTERM, a check runs, the bell rings", "exit 0 after, s", f"{took:.2f}")
    assert child.returncode == 0


@pytest.mark.long
def test_of_many_supervisors_one_has_the_home(scene: Scene) -> None:
    scene.works("short", steps=3, pause=0.2)
    scene.settings(max_concurrent=4)
    ids = scene.fill([{"title": "t", "cwd": str(scene.directory(f"w{n}"))} for n in range(scale(12, 100))])
    refused = 0
    for _ in range(scale(2, 20)):
        winner = compete(scene)
        late = scene.fleet("run")
        assert late.code == 1
        assert str(winner.pid) in late.err, late.err
        refused += 5
        scene.kill(winner, scene.random.choice([signal.SIGKILL, signal.SIGTERM]))
        winner.wait(20)
    said = [line for line in scene.talk.read_text().splitlines() if "already runs" in line]
    assert len(said) == refused - scale(2, 20), said
    scene.drain()
    scene.report("many supervisors at once", "refused with 1, naming the winner", refused)
    judge(scene, ids, set(), "many supervisors at once")
    assert len(scene.seen("start")) == len(ids)


def compete(scene: Scene) -> subprocess.Popen[bytes]:
    """Of five that are started at once, the one that has the home."""
    rivals = [scene.start() for _ in range(5)]
    until(lambda: sum(one.poll() is None for one in rivals) == 1, 60, scene.said)
    winner = next(one for one in rivals if one.poll() is None)
    assert [one.returncode for one in rivals if one is not winner] == [1] * 4
    until(lambda: any(row.get("pid") == winner.pid for row in scene.log("supervisor started")), 30)
    return winner


@pytest.mark.long
def test_a_first_start_that_is_killed_can_be_started_again(scene: Scene) -> None:
    """The engine makes its tables at the first start; half of them must not be in the way of the second."""
    for n in range(scale(3, 30)):
        fresh = Scene(scene.root / f"fresh{n}", scene.report, scene.random.randrange(10**6))
        fresh.works("short", steps=0)
        task = fresh.add(cwd=fresh.directory("w"))
        child = fresh.start("--drain")
        log = fresh.home / "fleet.db-wal"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and child.poll() is None:
            if log.exists() and b"workflow_status" in log.read_bytes():
                break
        pause = time.monotonic() + fresh.random.uniform(0, 0.03)
        while time.monotonic() < pause:
            pass
        fresh.kill(child)
        fresh.drain(60)
        assert fresh.states() == {task: "done"}
    scene.report("first start killed", "homes that start again", f"{scale(3, 30)} of {scale(3, 30)}")

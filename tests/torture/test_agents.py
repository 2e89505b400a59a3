"""Agents that shout, cling to life or come by the thousand: the supervisor lives, and stays small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from standins.witness.scene import (
    HERE,
    PATIENCE,
    Scene,
    children,
    descriptors,
    is_zombie,
    memory,
    processes,
    scale,
    until,
)

MB = 1024 * 1024
LADDER, GRACE = 15.0, 2.0


@pytest.mark.long
def test_poison_on_stdout_costs_neither_the_supervisor_nor_a_later_event(scene: Scene) -> None:
    megabytes, seconds = scale(256, 1024), scale(2, 10)
    scene.works("short", steps=1)
    scene.coder("poison", sys.executable, "-S", "-E", HERE / "poison.py", megabytes, seconds, events="claude")
    scene.settings(max_concurrent=4)
    first = scene.add(cwd=scene.directory("a"), coder="short")
    child = scene.start()
    until(lambda: scene.states()[first] == "done", 30, scene.said)
    before = memory(child.pid)
    poisoned = scene.add(cwd=scene.directory("b"), coder="poison")
    events = scene.home / "tasks" / poisoned / "events.jsonl"
    until(lambda: events.exists() and b"the first" in events.read_bytes(), 30, scene.said)
    honest = scene.add(cwd=scene.directory("c"), coder="short")
    beside = until(lambda: scene.states()[honest] == "done", 60, scene.said)
    until(lambda: scene.states()[poisoned] not in ("starting", "working", "open"), scale(180, 1800), scene.said)
    grown = memory(child.pid, "VmHWM") - before
    text = events.read_text()
    missing = [word for word in ("in the middle", "the very last", "all said") if word not in text]
    scene.report("poison on stdout", "grown at most, MB", f"{grown / MB:.0f}")
    scene.report("poison on stdout", "later events missing", len(missing))
    scene.report("poison on stdout", "an honest task beside it took, s", f"{beside:.1f}")
    assert child.poll() is None
    assert scene.states()[poisoned] == "done", (scene.tasks()[poisoned]["cause"], scene.said())
    assert not missing
    assert scene.torn() == 0
    assert grown <= 64 * MB


def marked(mark: str) -> list[int]:
    """The living processes with a mark in their command line."""
    found = []
    for pid in processes():
        with suppress(OSError):
            if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") and not is_zombie(pid):
                found.append(pid)
    return found


KINDS = ("daemon", "bare", "deaf", "stopped", "forks")


def clinging(scene: Scene, kinds: tuple[str, ...], name: str = "", **limits: object) -> dict[str, str]:
    """A task for each kind, by the mark that all its processes bear; the scene finds what is left by it, too."""
    ids = {}
    for kind in kinds:
        mark = f"{scene.root}/mark-{name}-{kind}"
        coder = scene.coder(f"{kind}{name}", sys.executable, "-S", "-E", HERE / "clings.py", mark, kind)
        ids[mark] = scene.add(kind, cwd=scene.directory(kind + name), coder=coder, attempts=1, **limits)
    return ids


@pytest.mark.long
def test_aborts_and_limits_leave_nothing_alive(scene: Scene) -> None:
    scene.settings(max_concurrent=20)
    aborted, limited = clinging(scene, KINDS, "a"), clinging(scene, (*KINDS, "leaves"), "b", timeout="3s")
    scene.start()
    awaited = {mark for mark in (*aborted, *limited) if not mark.endswith("leaves")}  # which may be gone already

    def all_begun() -> bool:
        """Each on its own: on a busy machine the first has reached its limit before the last is there."""
        awaited.difference_update([*filter(marked, awaited)])
        return not awaited

    until(all_begun, 30, scene.said)
    began = time.monotonic()
    aborts = [
        subprocess.Popen([sys.executable, "-m", "fleet", "abort", task], env=scene.env, stderr=subprocess.PIPE)
        for task in aborted.values()
    ]
    until(lambda: not any(map(marked, aborted)), (LADDER + GRACE) * 2, lambda: [*map(marked, aborted)])
    took = time.monotonic() - began
    until(lambda: not any(map(marked, limited)), LADDER + GRACE, lambda: [*map(marked, limited)])
    later = time.monotonic() - began - 3
    scene.report(
        "agents that cling to life", "survivors; gone after an abort, after a limit, s", f"0; {took:.1f}, {later:.1f}"
    )
    for abort in aborts:
        said = abort.communicate(timeout=30)[1].decode()
        assert abort.returncode == 0, said
    until(lambda: not set(scene.states().values()) & {"starting", "working", "open"}, 10, scene.said)
    states = scene.states()
    assert {states[task] for task in aborted.values()} == {"cancelled"}
    assert {states[task] for task in limited.values()} <= {"failed", "refused"}
    assert max(took, later) < LADDER + GRACE * PATIENCE


TRIED = subprocess.run(["unshare", "-Um", "--map-current-user", "true"], capture_output=True, check=False)
BARE = pytest.mark.xfail(
    TRIED.returncode != 0, reason="without a fence, a daemon that forgot its environment is not found"
)


@pytest.mark.parametrize(
    "kind",
    ["daemon", pytest.param("forks", marks=pytest.mark.long), pytest.param("leaves", marks=[BARE, pytest.mark.long])],
)
def test_a_killed_keeper_leaves_no_orphans(scene: Scene, kind: str) -> None:
    """What comes from an agent is found again by the environment it was started with."""
    mark = next(iter(clinging(scene, (kind,))))
    scene.start()
    until(lambda: marked(mark) and scene.keepers(), 30, scene.said)
    time.sleep(0.3)
    for pid in scene.keepers().values():
        os.kill(pid, signal.SIGKILL)
    first = set(marked(mark))
    took = until(lambda: not first & set(marked(mark)), 5 * PATIENCE, lambda: [marked(mark), scene.said()])
    scene.report(f"keeper killed, agent {kind}", "orphans gone after, s", f"{took:.1f}")


@pytest.mark.long
def test_a_keeper_that_is_terminated_does_not_cancel_the_task(scene: Scene) -> None:
    """A machine that shuts down terminates every process; only a person cancels."""
    scene.works("long", steps=10, pause=0.2)
    task = scene.add(cwd=scene.directory("w"))
    child = scene.start("--drain")
    until(lambda: scene.seen("beat"), 30, scene.said)
    for pid in scene.keepers().values():
        os.kill(pid, signal.SIGTERM)
    assert child.wait(60) == 0
    assert scene.states() == {task: "done"}, scene.said()


@pytest.mark.long
def test_an_abort_ends_a_check_that_runs(scene: Scene) -> None:
    scene.works("short", steps=0)
    task = scene.add(cwd=scene.directory("w"), check=f"exec sleep 300.{scene.seed}")
    scene.start()
    until(lambda: any(name.endswith("check") for name in scene.keepers()), 30, scene.said)
    began = time.monotonic()
    done = scene.fleet("abort", task)
    took = time.monotonic() - began
    assert done.code == 0, done.err
    until(lambda: not scene.agents(), 5, scene.agents)
    scene.report("abort while the check runs", "gone after, s", f"{took:.1f}")
    assert scene.states() == {task: "cancelled"}


@pytest.mark.long
def test_a_check_whose_keeper_is_killed_leaves_nothing_and_is_not_held_against_the_coder(scene: Scene) -> None:
    scene.works("short", steps=0)
    task = scene.add(cwd=scene.directory("w"), check="sleep 2; true", attempts=1)
    child = scene.start("--drain")
    until(lambda: any(name.endswith("check") for name in scene.keepers()), 30, scene.said)
    for pid in scene.keepers().values():
        os.kill(pid, signal.SIGKILL)
    assert child.wait(60) == 0
    assert not scene.agents()
    assert scene.states() == {task: "done"}, scene.tasks()[task]["cause"]


def settled(scene: Scene) -> int:
    return sum(file.read_bytes().count(b'"settled"') for file in (scene.home / "logging").glob("*.jsonl"))


@pytest.mark.long
def test_thousands_of_short_tasks_leave_the_supervisor_as_it_was(scene: Scene) -> None:
    number, warm = scale(300, 10_000), scale(60, 500)
    scene.script("quick", 'echo "$FLEET_ATTEMPT" >"$FLEET_ATTEMPT.done"; echo done')
    scene.settings(max_concurrent=8)
    places = [str(scene.directory(f"w{n}")) for n in range(number // 10)]
    tasks: list[dict[str, object]] = [{"title": "t", "cwd": places[n % len(places)]} for n in range(number)]
    child = scene.start()
    scene.fill(tasks[:warm])
    until(lambda: settled(scene) >= warm and not scene.keepers(), 120, scene.said)
    size, files = memory(child.pid), descriptors(child.pid)
    began = time.monotonic()
    scene.fill(tasks[warm:])
    until(lambda: settled(scene) >= number, scale(150, 3600), scene.said)
    took = time.monotonic() - began
    until(lambda: not scene.keepers(), 10)
    until(lambda: descriptors(child.pid) - files <= 5, 30, scene.said)  # what is just being settled is not left open
    grown, more = memory(child.pid) - size, descriptors(child.pid) - files
    zombies = sum(state == b"Z" for state in children(child.pid).values())
    states = scene.states()
    name = f"{number} one-line tasks"
    scene.report(name, "memory, MB; descriptors; zombies", f"{grown / MB:+.1f}; {more:+d}; {zombies}")
    scene.report(name, "tasks a second", f"{(number - warm) / took:.1f}")
    assert set(states.values()) == {"done"}, json.dumps({k: v for k, v in states.items() if v != "done"})
    assert grown <= 20 * MB
    assert more <= 5
    assert zombies <= 1

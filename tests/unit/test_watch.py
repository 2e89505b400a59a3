"""One agent as it is watched, with a clock and processes of our own: what is heard and seen becomes what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.core.liveness import Action, LifeState, Policy, Rule
from fleet.core.work import Attempt, Event, EventKind, Window
from fleet.host.vitals import Vitals
from fleet.supervisor.watch import AWAY, LIMITED_FOR, MOST_CALLS, Ground, Watched

START = 1000.0
WALL = 1_700_000_000.0
ATTEMPT = Attempt("t1.1", "t1", 1, "c", None, "/nowhere", "me", WALL, started=WALL, dispatched=WALL)
POLICY = Policy({LifeState.INPUT: Rule(Action.ASK), LifeState.LOOPING: Rule(Action.ASK)})
GROUND = Ground(Path("/nowhere"), 960.0)
IDLE = Vitals(1, 1.0, 5000)


class Scene:
    """An agent, and a clock that goes on when it is told to."""

    def __init__(self, attempt: Attempt = ATTEMPT, silence: float | None = 3600.0) -> None:
        self.now, self.attempt = START, attempt
        self.one = Watched(attempt, GROUND, POLICY.with_silence(silence), START, WALL)
        self.seen: list[str] = []
        self.actions: list[Action] = []
        self.why = ""

    def hear(self, *events: Event, **facts: Any) -> None:
        self.attempt = replace(self.attempt, **facts)
        self.one.hear(self.attempt, events, self.now)

    def look(
        self,
        vitals: Vitals | None = IDLE,
        passed: float = 2.0,
        flight: float | None = None,
        files: float | None = START,
    ) -> str:
        self.now += passed
        self.one.look(vitals, files, flight, self.now)
        news, self.one.news = self.one.news, None
        if news is not None:
            self.seen.append(news.life.state.value)
            self.actions.append(news.action)
            self.why = news.life.why
        return self.seen[-1]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def called(call: str = "c1", given: str = "x", tool: str = "Bash") -> Event:
    return Event(EventKind.TOOL_CALLED, tool=tool, text="make", call=call, given=given)


def ended(call: str = "c1", ok: bool = True, text: str = "fine") -> Event:
    return Event(EventKind.TOOL_ENDED, call=call, ok=ok, text=text)


def test_a_silent_build_that_computes_is_never_silent(scene: Scene) -> None:
    """Three hours without a word, in looks of five seconds, with a processor that is only a tenth busy."""
    for n in range(2160):
        scene.look(Vitals(3, 1.0 + 0.5 * n, 5000), 5.0)
    assert set(scene.seen) == {"working"}
    assert set(scene.actions) == {Action.LEAVE}


def test_a_tool_that_sleeps_is_running_until_it_comes_back(scene: Scene) -> None:
    scene.hear(called())
    for _ in range(2160):
        scene.look(passed=5.0)
    assert set(scene.seen) == {"tool running"}
    scene.hear(ended())
    assert scene.look() in ("working", "waiting for model")


def test_who_waits_for_its_model_at_our_gateway_is_left_alone(scene: Scene) -> None:
    for _ in range(2160):
        scene.look(passed=5.0, flight=WALL)
    assert set(scene.seen) == {"waiting for model"}
    assert set(scene.actions) == {Action.LEAVE}


def test_who_does_nothing_at_all_is_silent_after_a_minute_and_resumed_at_its_limit(scene: Scene) -> None:
    states = [scene.look(passed=5.0) for _ in range(900)]
    assert (states[5], states[20]) == ("working", "silent")
    assert scene.actions[-1] is Action.RESUME
    assert scene.seen.count("silent") == 2, "once when it is silent, and once when something is to be done"


def test_a_supervisor_that_was_away_blames_nobody(scene: Scene) -> None:
    scene.look()
    scene.look(passed=AWAY + 3600.0)
    assert scene.seen == ["working"]


def test_half_a_line_is_a_sign_of_life(scene: Scene) -> None:
    for _ in range(900):
        scene.hear()
        scene.look(passed=5.0)
    assert set(scene.seen) == {"working"}


def test_a_process_that_reads_a_terminal_is_seen_within_fifteen_seconds(scene: Scene) -> None:
    scene.hear(called())
    scene.look()
    reads, began = Vitals(2, 1.0, 5000, (7, "ssh")), scene.now
    while scene.look(reads, 5.0) != "waiting for input":
        assert scene.now - began <= 15.0
    assert scene.actions[-1] is Action.ASK
    assert scene.look(Vitals(1, 1.0, 5000)) == "tool running"


def test_who_is_denied_leave_waits_until_it_goes_on(scene: Scene) -> None:
    scene.hear(called(), Event(EventKind.PERMISSION, tool="Bash", call="c1", ok=False), ended(ok=False))
    assert scene.look() == "waiting for input"
    scene.hear(Event(EventKind.SAID, text="I was not permitted."))
    assert scene.look() == "waiting for input"
    scene.hear(called("c2"))
    assert scene.look() == "tool running"


def test_who_asks_for_leave_waits_until_it_has_its_answer(scene: Scene) -> None:
    scene.hear(called(), Event(EventKind.PERMISSION, tool="Bash", call="c1"))
    assert scene.look() == "waiting for input"
    scene.hear(ended(ok=False))
    assert scene.look() != "waiting for input"


def test_who_asks_a_person_is_believed_for_as_long_as_it_may_wait(scene: Scene) -> None:
    scene.hear(called(tool="ask_human"), asking="Which?")
    assert scene.look() == "waiting for input"
    for _ in range(500):
        scene.look(passed=5.0)
    assert scene.seen[-1] == "tool running"


@pytest.mark.parametrize(("resets", "lasts"), [(None, LIMITED_FOR), (WALL + 5000.0, 5000.0)])
def test_who_is_limited_waits_until_the_limit_resets(scene: Scene, resets: float | None, lasts: float) -> None:
    scene.hear(Event(EventKind.LIMITED, window=Window("five_hour", resets=resets, exhausted=True)), limited=True)
    began = scene.now
    while scene.look(passed=5.0) == "rate limited":
        assert scene.now - began < lasts + 10.0
    assert scene.now - began >= lasts
    assert scene.seen[-1] == "silent"


def test_eight_calls_alike_are_a_loop_and_a_different_one_ends_it(scene: Scene) -> None:
    for n in range(8):
        scene.hear(called(f"c{n}"), ended(f"c{n}"))
    assert (scene.look(), scene.actions[-1]) == ("looping", Action.ASK)
    scene.hear(called("other", given="y"), ended("other"))
    assert scene.look() != "looping"


@pytest.mark.parametrize("differs", ["given", "text", "unknown"])
def test_calls_that_differ_are_no_loop(scene: Scene, differs: str) -> None:
    for n in range(30):
        given = {"given": f"x{n}", "unknown": ""}.get(differs, "x")
        text = f"failed {n}" if differs == "text" else "fine"
        scene.hear(called(f"c{n}", given=given), ended(f"c{n}", text=text))
    assert scene.look() != "looping"


def test_what_it_does_is_told_by_the_clock_of_the_wall(scene: Scene) -> None:
    scene.hear(called())
    scene.now += 30.0
    scene.one.look(IDLE, START, None, scene.now)
    assert scene.one.news is not None
    assert (scene.one.news.life.state, scene.one.news.life.since) == (LifeState.TOOL, WALL)
    assert scene.one.stirred.is_set()


def test_calls_of_an_earlier_supervisors_time_are_still_running(scene: Scene) -> None:
    scene.one.called_before([("c1", "Bash: make")], scene.now)
    assert scene.look(passed=5.0) == "tool running"
    scene.hear(ended("c1"))
    assert scene.look() != "tool running"


def test_calls_that_never_come_back_are_held_in_bounded_memory(scene: Scene) -> None:
    for n in range(MOST_CALLS * 3):
        scene.hear(called(f"c{n}"))
    scene.look()
    assert scene.why == f"Bash: make and {MOST_CALLS - 1} more has not come back"
    scene.hear(*(ended(f"c{n}") for n in range(MOST_CALLS * 3)))
    assert scene.look() != "tool running"


def test_where_processes_cannot_be_seen_its_output_and_its_files_are_two_signs(scene: Scene) -> None:
    for _ in range(900):
        scene.look(None, 5.0)
    assert (scene.seen[-1], scene.actions[-1]) == ("silent", Action.RESUME)


def test_where_its_files_cannot_be_seen_either_a_person_is_asked(scene: Scene) -> None:
    for _ in range(900):
        scene.look(None, 5.0, files=None)
    assert (scene.seen[-1], scene.actions[-1]) == ("silent", Action.ASK)


def test_who_changes_files_is_at_work_whatever_else_is_seen_of_it(scene: Scene) -> None:
    for _ in range(900):
        scene.look(passed=5.0, files=scene.now)
    assert set(scene.seen) == {"working"}

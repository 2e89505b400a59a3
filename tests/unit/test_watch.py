"""One agent as it is watched, with a clock and processes of our own: what is heard and seen becomes what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.core.life import Action, LifeState, Policy, Rule
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


def test_who_waits_for_a_model_that_nobody_sees_is_left_alone_until_its_own_limit(scene: Scene) -> None:
    """Its last tool came back, and its request goes where no gateway of ours sees it: it may be silent for an hour."""
    scene.hear(called(), ended())
    actions = []
    while scene.now < START + 3605.0:  # the first look is a sign of life, too
        scene.look(passed=5.0)
        actions.append(scene.actions[-1])
    assert set(actions[:-1]) == {Action.LEAVE}
    assert scene.seen[:2] == ["waiting for model", "silent"]
    assert actions[-1] is Action.RESUME


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
    assert scene.why == f"Bash: make and {MOST_CALLS - 1} more"
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


# ---- who reads a terminal, and what goes on beside it


def beside(scene: Scene, seconds: float, step: float, cpu: float, io: int, every: float = 0.0) -> list[str]:
    """Looks at an agent with a process that reads a terminal, beside others that use so much every few seconds."""
    began, used, states = scene.now, 0, []
    while scene.now - began < seconds:
        used = int((scene.now + step - START) / (every or step))
        states.append(scene.look(Vitals(3 + used % 2, 1.0 + cpu * used, 5000 + io * used, (7, "sh")), step))
    return states


@pytest.mark.parametrize("step", [2.0, 2.6, 5.0])
@pytest.mark.parametrize("every", [1.0, 5.0, 7.0])
def test_a_helper_that_ticks_beside_a_prompt_changes_nothing(scene: Scene, step: float, every: float) -> None:
    """Eleven minutes, with a process more or less, 20 ms and 20 kB at every tick."""
    scene.hear(called())
    states = beside(scene, 660.0, step, 0.02, 20_000, every)
    assert states[-1] == "waiting for input"
    changes = [state for n, state in enumerate(states) if n == 0 or states[n - 1] != state]
    assert changes == ["tool running", "waiting for input"], changes
    assert states.index("waiting for input") * step <= 75.0


@pytest.mark.parametrize(("cpu", "io"), [(0.5, 0), (0.0, 1_000_000)])
def test_an_idle_shell_beside_a_build_is_not_waited_for_whenever_the_build_begins(
    scene: Scene, cpu: float, io: int
) -> None:
    scene.hear(called())
    assert set(beside(scene, 600.0, 2.0, cpu, io)) == {"tool running"}
    idle = [scene.look(Vitals(3, 1000.0, 10**9, (7, "sh"))) for _ in range(60)]
    assert idle[20:21] + idle[-1:] == ["tool running", "waiting for input"], "a build may take breath"
    built = [scene.look(Vitals(3, 1000.0 + n, 10**9, (7, "sh"))) for n in range(60)]
    assert (built[0], set(built[6:])) == ("waiting for input", {"tool running"})


def test_who_says_something_does_not_wait_at_the_terminal_that_a_process_of_it_reads(scene: Scene) -> None:
    """A shell in a pane of its own, and an agent that says something every ten seconds."""
    states = []
    for n in range(300):
        if n % 5 == 0:
            scene.hear(Event(EventKind.SAID, text="on it"))
        states.append(scene.look(Vitals(2, 1.0, 5000, (7, "bash"))))
    assert "waiting for input" not in states[10:]
    assert scene.seen.count("waiting for input") <= 1


def test_a_supervisor_that_was_away_finds_who_waits_at_a_terminal_again(scene: Scene) -> None:
    reads = Vitals(2, 1.0, 5000, (7, "ssh"))
    before = [scene.look(reads) for _ in range(5)]
    assert (before[-1], scene.look(reads, AWAY + 3600.0)) == ("waiting for input", "working")
    assert [scene.look(reads) for _ in range(5)][-1] == "waiting for input"


def test_a_shell_that_a_tool_left_open_is_not_waited_for_while_it_is_the_models_turn(scene: Scene) -> None:
    """It is the model who speaks next, and nobody sees it think; after a minute without a word that is less sure."""
    scene.hear(called(), ended())
    looks = [scene.look(Vitals(2, 1.0, 5000, (7, "python3"))) for _ in range(40)]
    assert set(looks[2:29]) == {"waiting for model"}
    assert looks[-1] == "waiting for input"


def test_who_asks_its_model_does_not_wait_at_a_terminal(scene: Scene) -> None:
    looks = [scene.look(Vitals(2, 1.0, 5000, (7, "bash")), flight=WALL) for _ in range(300)]
    assert set(looks) == {"waiting for model"}


def test_whose_turn_it_is_does_not_change_with_a_helper_that_ticks(scene: Scene) -> None:
    scene.hear(called(), ended())
    states = [scene.look(Vitals(2, 1.0, 5000 + 20_000 * (n // 3)), 2.0) for n in range(300)]
    assert set(states[2:]) == {"waiting for model"}

"""What an agent in a terminal tells of itself: the promise of a talker, and the real CLIs in a real tmux."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.coders import Talker
from fleet.core.talk import Mood, SignalKind, feel, took
from fleet.core.work import Event, EventKind
from standins.coders.scratch import until
from standins.talk_desk import MANNERS, TOUCH, at_terminal

pytestmark = pytest.mark.tmux
MARKS = "-x 'single' \"double\" `back` $(touch pwned) ${HOME} \\ über 🦆 漢字\n\tindented\n\n"
LONG = (
    MARKS
    + "!touch pwned\n/exit @secret.txt # end"
    + "\n"
    + "a line of 40 characters, more or less..\n" * 1250
    + "the very end"
)


def recalled(talker: Talker, path: str | None) -> list[Event]:
    assert path is not None
    return [event for line in Path(path).read_bytes().splitlines() for event in talker.recall(line)]


def used(events: list[Event]) -> list[int]:
    return [event.usage.prompt for event in events if event.usage]


MARKS_OF = {"opencode": (pytest.mark.agents, pytest.mark.long), "qwen": (pytest.mark.more_agents, pytest.mark.long)}
EACH = [pytest.param(name, marks=MARKS_OF.get(name, pytest.mark.agents)) for name in sorted(MANNERS)]


@pytest.mark.parametrize("name", EACH)
def test_an_agent_in_a_terminal_is_talked_to_and_left_alone_when_it_asks(name: str, tmp_path: Path) -> None:
    manner = MANNERS[name]
    with at_terminal(tmp_path, name, manner.flags) as (where, term):
        term.hear(SignalKind.READY)
        assert feel(term.signals).mood is Mood.WAITING

        taken = term.say(LONG)
        assert took(LONG, taken.text)
        term.hear(SignalKind.RESTED, len(term.signals) - 1)
        assert "a line of 40 characters, more or less..\\nthe very end" in json.dumps(
            [asked.body for asked in where.model.asked]
        )

        before = len(term.signals)
        assert took("--help ACT NOW", term.say("--help ACT NOW").text)
        asks = term.hear(SignalKind.ASKS, before)
        assert (asks.text or "").endswith(TOUCH)
        assert feel(term.signals).mood is Mood.ASKING
        assert not (where.project / "made.txt").exists()
        term.enter()
        term.hear(SignalKind.RESTED, before)
        assert (where.project / "made.txt").exists()
        assert feel(term.signals).mood is Mood.WAITING

        transcript = term.signals[-1].transcript
        until(lambda: len(used(recalled(term.talker, transcript))) == 3)  # it is written a moment later
        events = recalled(term.talker, transcript)
        assert used(events) == [1110] * 3
        assert [event.text for event in events if event.kind is EventKind.TOOL_CALLED] == [TOUCH]
        assert len([event for event in events if event.kind is EventKind.TOOL_ENDED]) == 1
        assert term.signals[-1].session is not None

        term.calm()  # a turn is told to be over a moment before it is
        term.press(*manner.leave)
        term.hear(SignalKind.LEFT, before)
        assert not (where.project / "pwned").exists()


@pytest.mark.agents
def test_claude_code_comes_to_its_prompt_in_a_folder_that_nobody_trusted_and_with_leave_for_everything(
    tmp_path: Path,
) -> None:
    with at_terminal(tmp_path, "claude") as (where, term):
        term.hear(SignalKind.READY)
        before = len(term.signals)
        term.say("!touch pwned ACT NOW")
        term.hear(SignalKind.RESTED, before)
        assert SignalKind.ASKS not in {signal.kind for signal in term.signals}
        assert (where.project / "made.txt").exists()
        assert not (where.project / "pwned").exists()
        assert '"hasTrustDialogAccepted": true' not in (where.home / ".claude.json").read_text()

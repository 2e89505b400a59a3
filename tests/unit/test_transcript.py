"""An agent's output, line by line as it grows, and what is known of the attempt after each event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.work import AGENT, Attempt, Ending, Event, EventKind, Usage, Verdict, Window
from fleet.supervisor import transcript
from fleet.supervisor.start import beyond_nudging, nudge_of, session_of
from fleet.supervisor.transcript import Transcript, condense, fold

BASE = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 0.0)
DONE = {"finished": True, "turned": True}
SAYS_9 = {"context_limit": 9, "context_from": "the agent"}


def lines(source: Transcript, *, last: bool = False) -> list[tuple[bytes, int]]:
    return [pair for piece in source.lines(last=last) for pair in piece]


def test_only_whole_lines_are_given_out_and_each_with_the_offset_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    source = Transcript(path)
    assert lines(source) == [], "not there yet"
    path.write_bytes(b"one\ntw")
    assert lines(source) == [(b"one", 4)]
    assert lines(source) == []
    with path.open("ab") as file:
        file.write(b"o\n\nthree")
    assert lines(source) == [(b"two", 8), (b"", 9)]
    assert lines(source, last=True) == [(b"three", 14)]
    assert lines(source, last=True) == []
    assert source.offset == 14
    assert lines(Transcript(path, 8), last=True) == [(b"", 9), (b"three", 14)], "from an offset on"


@given(
    content=st.lists(st.sampled_from([b"", b"a", b"b" * 40, b"\xff\x00", "ü".encode()])),
    cuts=st.lists(st.integers(0, 300)),
)
def test_however_it_grows_every_line_comes_once(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("t") / "stdout"
    whole = b"".join(line + b"\n" for line in content)
    seen, position = list[tuple[bytes, int]](), 0
    with Transcript(path) as source:
        for cut in [*sorted(cuts), len(whole)]:
            with path.open("ab") as file:
                file.write(whole[position:cut])
            position = max(position, min(cut, len(whole)))
            seen += lines(source)
    assert [line for line, _ in seen] == content
    assert [offset for _, offset in seen] == [len(b"\n".join(content[: n + 1])) + 1 for n in range(len(content))]


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * (transcript.LONGEST + transcript.CHUNK + 1) + b"\ngood\n")
    source = Transcript(path)
    found = lines(source)
    assert found[-1] == (b"good", path.stat().st_size)
    assert max(len(line) for line, _ in found) <= transcript.LONGEST + transcript.CHUNK


@pytest.mark.parametrize(
    ("event", "facts"),
    [
        (Event(EventKind.SAID, text="x"), {}),
        (Event(EventKind.OTHER), {}),
        (Event(EventKind.TOOL_ENDED, ok=False), {}),
        (Event(EventKind.SESSION, session="s"), {"session": "s"}),
        (Event(EventKind.SESSION, session="s", context_limit=9), {"session": "s"} | SAYS_9),
        (Event(EventKind.SESSION), {}),
        (Event(EventKind.SESSION, model="m"), {"thinks_with": "m"}),
        (Event(EventKind.TOOL_CALLED, tool="Bash"), {"tools": {"Bash": 1}, "turned": True}),
        (Event(EventKind.TOOL_CALLED), {"tools": {"unknown": 1}, "turned": True}),
        (Event(EventKind.TOOL_CALLED, tool="a\x1bb"), {"tools": {"a\N{REPLACEMENT CHARACTER}b": 1}, "turned": True}),
        (
            Event(EventKind.USAGE, usage=Usage(10, 2)),
            {"tokens": 12, "usage": {"": Usage(10, 2)}, "peak_context": 10, "turned": True},
        ),
        (Event(EventKind.USAGE), {}),
        (
            Event(EventKind.TOOL_CALLED, tool="x__ask_human", call="c"),
            {"tools": {"x__ask_human": 1}, "asking": "it asks", "asking_call": "c", "turned": True},
        ),
        (
            Event(EventKind.TOOL_CALLED, tool="ask_human"),
            {"tools": {"ask_human": 1}, "asking": "it asks", "turned": True},
        ),
        (
            Event(EventKind.USAGE, usage=Usage(10, 2), aside=True, model="m"),
            {"tokens": 12, "usage": {"m": Usage(10, 2)}, "turned": True},
        ),
        (
            Event(EventKind.USAGE, usage=Usage(1, 1), spent=0.5),
            {"tokens": 2, "usage": {"": Usage(1, 1, cost=0.5)}, "peak_context": 1, "cost": 0.5, "turned": True},
        ),
        (
            Event(EventKind.USAGE, context=90, context_limit=100, spent=0.5),
            {"peak_context": 90, "context_limit": 100, "context_from": AGENT, "cost": 0.5},
        ),
        (
            Event(EventKind.RESULT, ok=True, usage=Usage(9, 1)),
            {"finished": True, "turned": True, "tokens": 10, "usage": {"": Usage(9, 1)}},
        ),
        (Event(EventKind.ERROR, text="no", status=429), {"error": "no", "status": 429}),
        (Event(EventKind.LIMITED, window=Window("week", 100.0, None, True)), {"limited": True}),
        (Event(EventKind.LIMITED, window=Window("week", 99.0)), {}),
        (Event(EventKind.ERROR, text="no"), {"error": "no"}),
        (Event(EventKind.ERROR), {"error": "it did not say what"}),
        (
            Event(EventKind.RESULT, ok=True, cost=0.0),
            {"finished": True, "turned": True, "cost": 0.0, "session_cost": 0.0},
        ),
        (Event(EventKind.RESULT, ok=None, session="s"), {"finished": True, "session": "s"}),
        (Event(EventKind.RESULT, ok=False, text="no"), {"finished": True, "error": "no"}),
        (Event(EventKind.RESULT, ok=False), {"finished": True, "error": "it did not say what"}),
        (
            Event(EventKind.RESULT, ok=True, total=Usage(5, 5)),
            {
                "finished": True,
                "turned": True,
                "tokens": 10,
                "session_tokens": 10,
                "usage": {"": Usage(5, 5)},
                "session_usage": {"": Usage(5, 5)},
            },
        ),
        (Event(EventKind.RESULT, ok=True, context_limit=9), {"finished": True, "turned": True} | SAYS_9),
    ],
)
def test_one_event_makes_known(event: Event, facts: dict[str, object]) -> None:
    assert fold(BASE, event) == replace(BASE, **facts)  # type: ignore[arg-type]


def test_what_is_known_adds_up() -> None:
    events = [
        Event(EventKind.SESSION, session="s"),
        Event(EventKind.TOOL_CALLED, tool="Bash"),
        Event(EventKind.USAGE, usage=Usage(100, 1)),
        Event(EventKind.TOOL_CALLED, tool="Bash"),
        Event(EventKind.USAGE, usage=Usage(40, 1)),
        Event(EventKind.ERROR, text="once"),
        Event(EventKind.SESSION),
    ]
    known = BASE
    for event in events:
        known = fold(known, event)
    assert (known.session, known.tools) == ("s", {"Bash": 2})
    assert (known.tokens, known.peak_context, known.error) == (142, 100, "once")
    over = fold(known, Event(EventKind.RESULT, ok=True, total=Usage(500, 5)))
    assert (over.tokens, over.peak_context, over.error) == (505, 100, None), "the agent's own account overrules"


def test_a_request_that_is_told_of_piece_by_piece_counts_once() -> None:
    known = BASE
    for call, usage in (("a", Usage(100, 1)), ("b", Usage(7, 1)), ("a", Usage(100, 5)), ("b", Usage(7, 1))):
        known = fold(known, Event(EventKind.USAGE, usage=usage, call=call))
    assert known.tokens == 105 + 8
    for number in range(20):
        known = fold(known, Event(EventKind.USAGE, usage=Usage(1, 0), call=str(number)))
    assert (known.tokens, len(known.recent)) == (105 + 8 + 20, transcript.RECENT), "only the last few are remembered"


@pytest.mark.parametrize(
    ("event", "asking"),
    [
        (Event(EventKind.TOOL_ENDED, call="c"), None),
        (Event(EventKind.TOOL_ENDED, call="other"), "c"),
        (Event(EventKind.TOOL_CALLED, tool="Bash", call="other"), "c"),
        (Event(EventKind.RESULT, ok=True), None),
    ],
)
def test_it_asks_until_that_call_ends(event: Event, asking: str | None) -> None:
    assert fold(replace(BASE, asking="c", asking_call="c"), event).asking == asking


def test_of_a_session_that_is_gone_on_with_only_what_is_new_counts() -> None:
    resumed = replace(BASE, tokens_before=100, cost_before=1.0)
    over = fold(resumed, Event(EventKind.RESULT, ok=True, total=Usage(150, 20), cost=1.5))
    assert (over.tokens, over.session_tokens, over.cost, over.session_cost) == (70, 170, 0.5, 1.5)
    less = fold(resumed, Event(EventKind.RESULT, ok=True, total=Usage(5, 5), cost=0.1))
    assert (less.tokens, less.cost) == (0, 0.0), "an account that makes no sense is not less than nothing"


@pytest.mark.parametrize(
    ("last", "session"),
    [
        ({}, "s"),
        ({"coder": "other"}, None),
        ({"cwd": "/elsewhere"}, None),
        ({"events": 0}, None),
        ({"session": None}, None),
        ({"resumed": True, "turned": True}, "s"),
        ({"resumed": True}, None),
        ({"resumed": True, "error": "429", "ending": Ending.RATE_LIMITED}, "s"),
        ({"resumed": True, "error": "503", "ending": Ending.TURNED_AWAY}, "s"),
        ({"account": "work"}, None),
        ({"error": "no"}, "s"),
        ({"resumed": True, "error": "no such session"}, None),
        ({"ending": Ending.CONTEXT}, None),
        ({"ending": Ending.SILENT}, "s"),
        ({"ending": Ending.SILENT, "resumed": True}, None),
        ({"ending": Ending.NUDGED}, "s"),
        ({"ending": Ending.NUDGED, "resumed": True, "turned": True}, "s"),
    ],
)
def test_which_session_is_gone_on_with(last: dict[str, object], session: str | None) -> None:
    earlier = replace(replace(BASE, session="s", events=3), **last)  # type: ignore[arg-type]
    assert session_of(replace(BASE, number=2), [earlier]) == session
    assert session_of(BASE, []) is None


@pytest.mark.parametrize(
    ("attempt", "earlier", "resume", "why"),
    [
        ({}, [], True, ""),
        ({}, [Ending.CRASHED], True, ""),
        ({}, [Ending.NUDGED, Ending.CRASHED], True, ""),
        ({}, [Ending.NUDGED], True, "it was nudged just before"),
        ({}, [], False, "c cannot go on with a session"),
        ({"session": None}, [], True, "it has named no session that could be gone on with"),
        ({"resumed": True}, [], True, "it has named no session that could be gone on with"),
        ({"resumed": True, "turned": True}, [], True, ""),
    ],
)
def test_who_can_be_nudged(attempt: dict[str, object], earlier: list[Ending], resume: bool, why: str) -> None:
    known = [replace(BASE, ending=ending, verdict=Verdict.RETRY) for ending in earlier]
    now = replace(replace(BASE, session="s", events=3), **attempt)  # type: ignore[arg-type]
    assert beyond_nudging(now, known, resume=resume) == why


@pytest.mark.parametrize(
    ("endings", "told"),
    [
        ([(Ending.NUDGED, True)], True),
        ([(Ending.NUDGED, False)], True),
        ([(Ending.NUDGED, True), (Ending.LOST, False)], True),  # no model has read it
        ([(Ending.NUDGED, True), (Ending.CRASHED, True)], False),
        ([(Ending.CRASHED, True)], False),
        ([], False),
    ],
)
def test_a_nudge_is_told_until_a_model_has_read_it(endings: list[tuple[Ending, bool]], told: bool) -> None:
    earlier = [replace(BASE, ending=ending, turned=turned, cause="nudged: looping") for ending, turned in endings]
    assert nudge_of(earlier) == ("looping" if told else None)


def test_a_long_run_of_words_or_rubbish_becomes_one_event() -> None:
    chatter = [(Event(EventKind.OTHER, text=f"y{n}"), n) for n in range(200)]
    last = (Event(EventKind.SAID, text="all said"), 200)
    run, end = condense([*chatter, last])
    assert end == last
    assert run[1] == 199, "what is read again after a crash begins behind it"
    assert (run[0].text or "").splitlines()[0] == "y0"
    assert (run[0].text or "").splitlines()[-1] == "y199"
    assert "190 more" in (run[0].text or "")
    few = chatter[:20]
    assert condense(few) == few
    calls = [(Event(EventKind.TOOL_CALLED, tool="Bash"), n) for n in range(200)]
    assert condense(calls) == calls, "what an agent did is never left out"


def test_an_agent_asks_from_the_call_of_its_tool_until_that_ends() -> None:
    asks = fold(BASE, Event(EventKind.TOOL_CALLED, tool="mcp__x__ask_human", call="1", text="Which\n\x1b[31mone?"))
    assert (asks.asking, asks.tools) == ("Which \N{REPLACEMENT CHARACTER}[31mone?", {"mcp__x__ask_human": 1})
    beside = fold(asks, Event(EventKind.TOOL_CALLED, tool="Bash", call="2"))
    beside = fold(beside, Event(EventKind.TOOL_ENDED, call="2"))
    assert beside.asking == asks.asking
    assert fold(beside, Event(EventKind.TOOL_ENDED, call="1")).asking is None
    assert fold(beside, Event(EventKind.RESULT, ok=True)).asking is None
    assert fold(BASE, Event(EventKind.TOOL_CALLED, tool="ask_human_not", call="1")).asking is None


def test_a_printed_question_is_kept_whole() -> None:
    assert fold(BASE, Event(EventKind.QUESTION, text="Which\none?")).question == "Which\none?"
    assert fold(BASE, Event(EventKind.QUESTION)).question == "it asks, and does not say what"
    both = fold(fold(BASE, Event(EventKind.QUESTION, text="First?")), Event(EventKind.QUESTION, text="Second?"))
    assert both.question == "First?\n\nSecond?"


def test_a_model_that_answers_ends_what_was_refused_before() -> None:
    refused = fold(BASE, Event(EventKind.ERROR, text="overloaded", status=529))
    limited = fold(refused, Event(EventKind.LIMITED, window=Window("week", 100.0, None, True)))
    assert (limited.status, limited.limited, limited.turned) == (529, True, False)
    on = fold(limited, Event(EventKind.USAGE, usage=Usage(1, 1)))
    assert (on.status, on.limited, on.turned) == (None, False, True)


def told(known: Attempt, *events: Event) -> Attempt:
    for event in events:
        known = fold(known, event)
    return known


def test_tokens_are_kept_by_model_and_what_nobody_told_stays_unknown() -> None:
    """The numbers are added up by hand."""
    known = told(
        replace(BASE, model="asked-for"),
        Event(EventKind.USAGE, usage=Usage(100, 10)),
        Event(EventKind.SESSION, model="big-1"),
        Event(EventKind.USAGE, usage=Usage(1000, 20, 900, 0), call="r1"),
        Event(EventKind.USAGE, usage=Usage(1000, 25, 900, 0), call="r1"),  # the same request, told again
        Event(EventKind.USAGE, usage=Usage(300, 5, 200, 50), model="small-1", aside=True),
        Event(EventKind.USAGE, usage=Usage(2000, 40, 1500, 100)),
    )
    assert known.usage == {
        "asked-for": Usage(100, 10),
        "big-1": Usage(3000, 65, 2400, 100),
        "small-1": Usage(300, 5, 200, 50),
    }
    assert known.tokens == 110 + 1025 + 305 + 2040


def test_the_agents_own_account_by_model_overrules_and_earlier_attempts_are_taken_off() -> None:
    first = told(
        BASE,
        Event(EventKind.USAGE, usage=Usage(7, 7), model="a"),
        Event(
            EventKind.RESULT, ok=True, total=Usage(150, 15), models={"a": Usage(100, 10, cost=0.5), "b": Usage(50, 5)}
        ),
    )
    assert first.usage == first.session_usage == {"a": Usage(100, 10, cost=0.5), "b": Usage(50, 5)}
    again = replace(BASE, tokens_before=165, usage_before=first.session_usage)
    whole = {"a": Usage(130, 11, cost=0.75), "b": Usage(50, 5)}
    second = told(again, Event(EventKind.RESULT, ok=True, total=Usage(180, 16), models=whole))
    assert second.usage == {"a": Usage(30, 1, cost=0.25)}
    assert (second.tokens, second.session_usage) == (31, whole)


def test_a_total_over_several_models_says_nothing_of_each() -> None:
    known = told(
        BASE,
        Event(EventKind.USAGE, usage=Usage(10, 1), model="a"),
        Event(EventKind.USAGE, usage=Usage(20, 2), model="b"),
        Event(EventKind.RESULT, ok=True, total=Usage(31, 3)),
    )
    assert known.usage == {"a": Usage(10, 1), "b": Usage(20, 2)}
    assert known.tokens == 34


def test_an_agent_that_names_a_thousand_models_fills_no_ledger() -> None:
    known = told(BASE, *(Event(EventKind.USAGE, usage=Usage(1, 0), model=f"m{n}" * 100) for n in range(1000)))
    assert len(known.usage) == 17
    assert known.usage["other models"] == Usage(984, 0)
    assert max(map(len, known.usage)) <= 200

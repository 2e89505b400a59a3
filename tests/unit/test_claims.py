"""What an agent says of its work, and what speaks for or against it."""

from __future__ import annotations

import pytest

from fleet.core.proof import Change, Heard
from fleet.core.work import Attempt, Event, EventKind
from fleet.evidence.claims import claimed_only, claims
from fleet.evidence.heard import MOST_OPEN, Listening
from fleet.evidence.receipt import Check, Commit, Process, Receipt, Result

ATTEMPT = Attempt("t1.1", "t1", 1, "claude", None, "/p", "me", 1.0)
NOTHING = Result("a" * 40, "a" * 40, [], [], [], [])
COMMITTED = Result("a" * 40, "b" * 40, [Commit("b" * 40, "Add it")], [Change("src/app.py", 3, 1)], [], [])
GREEN = Check("make test", True, "exit 0", 0, 1.0, "")
RED = Check("make test", False, "exit 1", 1, 1.0, "")
LOOKED = Check("grep -q x a.txt", True, "exit 0", 0, 1.0, "")
COUNTED = Check("./go", True, "exit 0", 0, 1.0, "", counts={"passed": 3})
BUILT = Check("npm run build", True, "exit 0", 0, 1.0, "")
CUT_OFF = Check("make test", False, "it was cut off", None, None, "", lost=True)


def said(
    words: str,
    *commands: str,
    calls: int | None = -1,
    tools: dict[str, int] | None = None,
    result: Result = NOTHING,
    checks: tuple[Check, ...] = (),
) -> Receipt:
    calls = len(commands) if calls == -1 else calls
    shells = {"Bash": len(commands)} if commands else {}
    heard = Heard(tools=tools or shells, calls=calls, commands=commands, words=words)
    return Receipt(ATTEMPT, Process("exited", 0), result, checks=list(checks), heard=heard)


@pytest.mark.parametrize(
    ("receipt", "holds", "evidence"),
    [
        (said("All tests pass."), False, "it called no tool at all"),
        (said("All tests pass.", calls=None), None, "what it ran is not known"),
        (said("All tests pass.", "ls", "cat x"), False, "none of its 2 tool calls"),
        (said("All tests pass.", calls=2, tools={"Write": 1, "Read": 1}), False, "none of its 2 tool calls"),
        (said("All tests pass.", calls=1, tools={"mcp__ci__start": 1}), None, "what its tool mcp__ci__start ran"),
        (said("All tests pass.", "/bin/bash -lc 'python -m pytest -q'"), None, "it ran `/bin/bash"),
        (said("All tests pass.", "pytest", checks=(GREEN,)), True, "fleet ran `make test` itself: exit 0"),
        (said("All tests pass.", "pytest", checks=(GREEN, RED)), False, "fleet ran `make test` itself: exit 1"),
        (said("All tests pass.", checks=(CUT_OFF,)), False, "it called no tool at all"),
        (said("- 12 passed, and the **build is green**", checks=(GREEN,)), True, "exit 0"),
        (said("`npm test` passes now.", checks=(GREEN,)), True, "exit 0"),
        (said("All tests pass.", "ls", checks=(LOOKED,)), None, "ran `grep -q x a.txt` itself: exit 0; it is no test"),
        (said("All tests pass.", checks=(LOOKED, GREEN)), True, "fleet ran `make test` itself: exit 0"),
        (said("All tests pass.", checks=(COUNTED,)), True, "fleet ran `./go` itself: exit 0"),
        (said("The build passes.", checks=(BUILT,)), True, "fleet ran `npm run build` itself: exit 0"),
        (said("Done.", result=COMMITTED, checks=(LOOKED,)), True, "fleet ran `grep -q x a.txt` itself: exit 0"),
        (said("I ran the tests.", "ls"), False, "none of its 1 tool calls"),
        (said("I committed the change."), False, "there is no new commit"),
        (said("I committed the change.", result=COMMITTED), True, "1 commit, the last one bbbbbbbbbbbb: Add it"),
        (said("Committed.", result=Result(None, None, [], [], None, None)), None, "git could not say"),
        (said("I created `src/app.py`.", result=COMMITTED), True, "src/app.py is among what changed"),
        (said("I updated app.py to say so.", result=COMMITTED), True, "app.py is among what changed"),
        (said("I updated /p/src/app.py.", result=COMMITTED), True, "is among what changed"),
        (said("Added tests/test_app.py.", result=COMMITTED), False, "tests/test_app.py is not among what changed"),
        (said("Added tests/test_app.py.", result=Result(None, None, [], [], None, [])), None, "not everything"),
        (said("I ran `npm test`.", "ls"), False, "no tool call shows `npm test`"),
        (said("I ran `npm test`.", "bash -lc 'cd web && npm test'"), True, "a tool call shows `npm test`"),
        (said("I ran pytest -q.", "/venv/bin/pytest -q tests"), True, "a tool call shows `pytest -q`"),
        (said("I fixed the bug.", result=COMMITTED), None, "1 path changed"),
        (said("I fixed the bug."), False, "nothing changed"),
        (said("Done.", result=COMMITTED, checks=(GREEN,)), True, "exit 0"),
        (said("The task is complete."), False, "nothing changed"),
    ],
)
def test_a_claim_is_weighed(receipt: Receipt, holds: bool | None, evidence: str) -> None:
    (claim,) = claims(receipt)
    assert claim.holds is holds
    assert evidence in claim.evidence


@pytest.mark.parametrize(
    "words",
    [
        "I could not run the tests, so whether they pass is open.",
        "The tests do not pass yet.",
        "2 tests failed and 3 passed.",
        "Please run `pytest` to check it.",
        "Run `npm test` to see it pass.",
        "Once the tests pass, this is done.",
        "I will create src/later.py next.",
        "You should make sure all tests pass.",
        "```\nAll tests pass.\n```",
        "I updated config.timeout and version 3.11 of it.",
        "See https://example.org/a/b.html, which I changed.",
        "",
    ],
)
def test_what_is_not_claimed_is_no_claim(words: str) -> None:
    assert claims(said(words)) == []


def test_one_sentence_may_claim_several_things() -> None:
    receipt = said("I fixed src/app.py, ran `pytest` and committed it.", "pytest", result=COMMITTED)
    assert [claim.holds for claim in claims(receipt)] == [True, True, True, None]


def test_claims_are_few_short_and_clean() -> None:
    words = "\n".join(f"I created a\x1b[31m {n}.txt and more{n}.py {'x' * 400}" for n in range(50))
    found = claims(said(words))
    assert len(found) == 20
    assert all(len(claim.text) <= 300 and claim.text.isprintable() for claim in found)


def test_commands_that_were_only_claimed_are_named() -> None:
    words = "I ran `npm test` and `npm run lint`. I also ran ruff check."
    assert claimed_only(Heard(calls=1, commands=("npm run lint",), words=words)) == ("npm test", "ruff check")
    assert claimed_only(Heard(calls=None, words=words)) == ()


# ---- what is heard


def hear(*events: Event, tells_tools: bool = True) -> Heard:
    told = Listening()
    for event in events:
        told.add(event)
    return told.heard(tells_tools=tells_tools)


def called(tool: str, call: str | None, text: str | None = None) -> Event:
    return Event(EventKind.TOOL_CALLED, tool=tool, call=call, text=text)


def ended(call: str | None, tool: str | None = None) -> Event:
    return Event(EventKind.TOOL_ENDED, tool=tool, call=call)


def test_calls_are_counted_by_name_and_those_without_an_end_apart() -> None:
    found = hear(
        called("Bash", "1", "pytest\n -q"),
        ended("1"),
        called("Bash", "2", "ls"),
        called("Write", "3", "/p/a"),
        ended("3"),
    )
    assert (found.tools, found.calls, found.unmatched) == ({"Bash": 2, "Write": 1}, 3, 1)
    assert found.commands == ("pytest -q", "ls")


def test_a_call_that_is_told_twice_is_one() -> None:
    assert hear(called("Bash", "1"), called("Bash", "1"), ended("1")).calls == 1


def test_calls_without_names_are_matched_by_their_number() -> None:
    assert hear(called("edit", None), called("edit", None), ended(None)).unmatched == 1


def test_no_calls_are_none_or_unknown() -> None:
    assert hear().calls == 0
    assert hear(tells_tools=False).calls is None
    assert hear(called("edit", None), tells_tools=False).calls == 1


def test_the_last_words_are_those_after_the_last_tool() -> None:
    words = [Event(EventKind.SAID, text="I will look."), called("Bash", "1"), ended("1")]
    last = [Event(EventKind.SAID, text="All done."), Event(EventKind.RESULT, text="All done.", ok=True)]
    assert hear(*words, *last).words == "All done."


def test_pieces_of_a_message_are_put_together() -> None:
    assert hear(*(Event(EventKind.SAID, text=one) for one in ("I ran py", "test. It", " is done."))).words == (
        "I ran pytest. It is done."
    )


def test_a_flood_is_held_in_bounded_memory() -> None:
    told = Listening()
    for number in range(20_000):
        told.add(called(f"tool{number}", str(number), "x" * 2000))
        told.add(called("Bash", f"b{number}", f"{number} {'x' * 2000}"))
        told.add(Event(EventKind.SAID, text="y" * 2000 + str(number)))
    found = told.heard(tells_tools=True)
    assert found.calls == 40_000
    assert len(found.tools) <= 201
    assert sum(map(len, found.commands)) <= 200 * 300
    assert len(found.words) <= 4000


F = "file_change"


@pytest.mark.parametrize(
    ("events", "calls", "unmatched"),
    [
        ([ended("a", F)], 1, 0),
        ([ended("a", F), ended("a", F)], 1, 0),
        ([ended(None, F)], 1, 0),
        ([called(F, "a"), ended("a")], 1, 0),
        ([called(F, "a"), ended("a"), ended("a")], 1, 0),
        ([called(F, None), ended(None)], 1, 0),
        ([called(F, "a"), ended("b", F)], 2, 1),
        (
            [called(F, f"c{n}") for n in range(MOST_OPEN + 5)] + [ended(f"c{n}") for n in range(MOST_OPEN + 5)],
            MOST_OPEN + 5,
            0,
        ),
    ],
    ids=["only ended", "ended twice", "no name", "both", "both and again", "both, no name", "two", "too many"],
)
def test_a_call_that_is_told_of_only_once_it_has_ended_was_made(
    events: list[Event], calls: int, unmatched: int
) -> None:
    told = Listening()
    for event in events:
        told.add(event)
    found = told.heard(tells_tools=True)
    assert (found.calls, found.unmatched, found.tools) == (calls, unmatched, {"file_change": calls})


def test_what_a_command_names_is_not_said_to_have_changed() -> None:
    found = claims(
        said("I fixed `src/app.py`, ran `python3 check.py` and committed it.", "python3 check.py", result=COMMITTED)
    )
    assert [one.evidence for one in found if "among" in one.evidence] == ["src/app.py is among what changed"]

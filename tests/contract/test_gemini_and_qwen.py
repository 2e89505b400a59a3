"""Gemini CLI and Qwen Code, where they differ from the others: what each wrote, and the real programs at work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import parts
from fleet.coders import Job, find
from fleet.coders.gemini import NOTE
from fleet.core.work import Event, EventKind, Usage, Window
from standins import mcp_server
from standins.agent_desk import MORE_MODELS, Desk, desk
from standins.agent_models import script, turns
from standins.model_server import Call, Say

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
CODERS = {name: find(name, {}) for name in MORE_MODELS}
MARKS = "/fetch now\nlook at @secret.txt and\n@secret.txt, not \\@secret.txt\n!touch pwned\n!{touch pwned} --help\n"
ASK = (sys.executable, mcp_server.__file__)

each = pytest.mark.parametrize("name", list(CODERS))


def job(prompt: str = "a prompt", session: str | None = None, ask: tuple[str, ...] = ()) -> Job:
    return Job(prompt, Path("/home/nobody/project"), session=session, ask=ask, ask_wait=30.0)


def heard(name: str, what: str) -> list[Event]:
    lines = (TRANSCRIPTS / name / f"{what}.jsonl").read_bytes().splitlines()
    return [event for line in lines for event in CODERS[name].read(line)]


def of(events: list[Event], *kinds: EventKind) -> list[Event]:
    return [event for event in events if event.kind in kinds]


# How they are started


@each
def test_a_prompt_is_given_whole_and_every_at_sign_in_it_has_a_backslash(name: str) -> None:
    command = CODERS[name].command(job(MARKS))
    escaped = MARKS.replace("\\@", "@").replace("@", "\\@")
    assert command.stdin == f"{NOTE}{escaped}"
    assert not command.stdin.startswith("/")
    assert command.argv == CODERS[name].command(job()).argv


def test_gemini_goes_on_with_no_session_and_is_given_no_tool_to_ask() -> None:
    assert CODERS["gemini"].command(job(session="s", ask=ASK)) == CODERS["gemini"].command(job())
    assert not CODERS["gemini"].can.resume
    assert not CODERS["gemini"].can.ask


def test_qwen_goes_on_with_a_session_and_waits_as_long_as_a_question_may_take() -> None:
    plain, command = CODERS["qwen"].command(job()), CODERS["qwen"].command(job(session="ses_0-a.b", ask=ASK))
    (given,) = [word for word in command.argv if word.startswith("--mcp-config=")]
    assert set(command.argv) - set(plain.argv) == {given, "--resume=ses_0-a.b"}
    (server,) = json.loads(given.partition("=")[2])["mcpServers"].values()
    assert [server["command"], *server["args"]] == list(ASK)
    assert server["timeout"] == int(command.env["QWEN_CODE_MCP_TOOL_IDLE_TIMEOUT_MS"]) == 90_000
    assert not plain.env


# What they wrote


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("gemini", [("run_shell_command", True), ("read_file", False)]),
        ("qwen", [("write_file", True), ("run_shell_command", False)]),
    ],
)
def test_tool_calls_are_seen_by_name_and_matched_with_their_results(name: str, tools: list[tuple[str, bool]]) -> None:
    events = of(heard(name, "works"), EventKind.TOOL_CALLED, EventKind.TOOL_ENDED)
    called, ended = events[::2], events[1::2]
    assert [(one.tool, other.ok) for one, other in zip(called, ended, strict=True)] == tools
    assert [one.call for one in called] == [one.call for one in ended]
    assert len({one.call for one in events}) == 2
    assert "made.txt" in (called[0].text or "")
    assert all(one.text for one in ended)


@each
def test_a_session_is_told_at_once_and_ends_well(name: str) -> None:
    events = heard(name, "works")
    assert (events[0].kind, events[0].model) == (EventKind.SESSION, MORE_MODELS[name])
    assert events[0].session
    assert [event.text for event in of(events, EventKind.SAID)] == ["It is made."]
    assert (events[-1].kind, events[-1].ok, events[-1].cost) == (EventKind.RESULT, True, None)
    assert events[-1].total == Usage(3330, 15, 3000)
    assert events[-1].models in (None, {MORE_MODELS[name]: Usage(3330, 15, 3000)})


def test_qwen_counts_each_request_and_the_whole_session_when_it_is_taken_up_again() -> None:
    first, later = heard("qwen", "works"), heard("qwen", "resumed")
    for events in (first, later):
        assert [event.usage for event in of(events, EventKind.USAGE)] == [Usage(1110, 5, 1000)] * 3
    assert later[0].session == later[-1].session == first[0].session
    assert later[-1].total == Usage(6660, 30, 6000)


@each
def test_what_a_provider_refused_is_the_result_in_its_words(name: str) -> None:
    events = heard(name, "refused")
    (result,) = of(events, EventKind.RESULT)
    assert (result.ok, result.status, result.window, result.total) == (False, 401, None, None)
    assert "invalid x-api-key" in (result.text or "")
    assert not of(events, EventKind.SAID, EventKind.USAGE)


def test_a_spent_quota_tells_when_there_is_more() -> None:
    (result,) = of(heard("gemini", "limited"), EventKind.RESULT)
    said = json.loads((TRANSCRIPTS / "gemini" / "limited.jsonl").read_bytes().splitlines()[-1])["timestamp"]
    resets = datetime.fromisoformat(said).timestamp() + 3600.5
    assert (result.ok, result.status) == (False, 429)
    assert result.window == Window("quota", resets=resets, exhausted=True)


LIMIT = "\nPlease wait and try again later. To increase your limits, request a quota increase through AI Studio"


@pytest.mark.parametrize(
    ("text", "status", "window"),
    [
        ("[API Error: Quota will reset after 1h2m3s.]" + LIMIT, 429, Window("quota", None, 3723.0, True)),
        ("[API Error: Suggested retry after 500ms.]" + LIMIT, 429, Window("quota", None, 0.5, True)),
        ("[API Error: You have exhausted your daily quota.]" + LIMIT, 429, Window("daily quota", None, None, True)),
        ("[API Error: x]\nPossible quota limitations in place", 429, Window("quota", None, None, True)),
        ("[API Error: The model is overloaded. Please try again later.]", 503, None),
        ("[API Error: it fell over; retry in 5s]", None, None),
    ],
)
def test_what_gemini_says_of_a_failure_is_understood(text: str, status: int | None, window: Window | None) -> None:
    stamp = datetime.fromtimestamp(0, UTC).isoformat()
    line = {"type": "result", "timestamp": stamp, "status": "error", "error": {"message": text}}
    (result,) = CODERS["gemini"].read(json.dumps(line).encode())
    assert (result.ok, result.status, result.window) == (False, status, window)
    assert result.text == text.replace("\n", " ")


def test_what_gemini_thought_is_written_too() -> None:
    stats = {"total_tokens": 170, "input_tokens": 100, "output_tokens": 20, "cached": 90}
    (result,) = CODERS["gemini"].read(json.dumps({"type": "result", "status": "success", "stats": stats}).encode())
    assert result.total == Usage(100, 70, 90)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"reason": "retry", "attempt": 3, "maxRetries": 10, "delayMs": 240000}, ": try 3 of 10, again in 240 s"),
        ({"reason": "retry", "discardedToolCalls": 0, "preserveText": False}, ""),
    ],
)
def test_qwen_is_heard_when_it_asks_again(data: dict[str, object], text: str) -> None:
    line = {"type": "system", "subtype": "retry", "session_id": "s", "data": data}
    (event,) = CODERS["qwen"].read(json.dumps(line).encode())
    assert event == Event(EventKind.ERROR, text=f"the model did not answer{text}")


@pytest.mark.parametrize(
    ("text", "status"), [("429 Too much\nPlease wait.", 429), ("503 Overloaded", 503), ("Why", None)]
)
def test_what_qwen_says_of_a_failure_is_understood(text: str, status: int | None) -> None:
    line = {"type": "result", "is_error": True, "usage": {}, "error": {"message": f"[API Error: {text}]"}}
    (result,) = CODERS["qwen"].read(json.dumps(line).encode())
    assert (result.ok, result.status) == (False, status)
    assert result.text == f"[API Error: {text}]".replace("\n", " ")


def test_nothing_in_a_transcript_is_strange_and_the_version_is_the_pinned_one() -> None:
    whats = [(path.parent.name, path.stem) for name in CODERS for path in (TRANSCRIPTS / name).glob("*.jsonl")]
    others = {event.text for name, what in whats for event in of(heard(name, what), EventKind.OTHER)}
    assert others == {"user", "stream_event"}
    started = (TRANSCRIPTS / "qwen" / "works.jsonl").read_bytes().splitlines()[0]
    assert json.loads(started)["qwen_code_version"] == parts.npm_version("@qwen-code/qwen-code", "npm-more")


# The real programs


@pytest.fixture
def at_desk(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, script(Say("HERON"))) as where:
        yield where


def work(where: Desk, name: str, prompt: str, session: str | None = None, ask: tuple[str, ...] = ()) -> list[Event]:
    coder = CODERS[name]
    done = where.run(coder.command(Job(prompt, where.project, MORE_MODELS[name], session, ask=ask)))
    assert done.exit == 0, done.err
    return [event for line in done.lines for event in coder.read(line)]


def conversations(where: Desk) -> list[str]:
    return [json.dumps(turns(asked), ensure_ascii=False) for asked in where.model.asked if asked.tools]


@pytest.mark.more_agents
@each
def test_a_long_prompt_full_of_marks_reaches_the_model_whole_and_nothing_is_expanded(name: str, at_desk: Desk) -> None:
    (at_desk.project / "secret.txt").write_text("TOP-SECRET\n")
    for file, command in {
        ".gemini/commands/fetch.toml": 'description = "fetches"\nprompt = "EXPANDED !{touch pwned}"\n',
        ".qwen/commands/fetch.md": "---\ndescription: fetches\n---\nEXPANDED !{touch pwned}\n",
    }.items():
        (at_desk.project / file).parent.mkdir(parents=True)
        (at_desk.project / file).write_text(command)
    prompt = MARKS + "a line of 40 characters, more or less..\n" * 7500 + "the very end"
    work(at_desk, name, prompt)
    (said,) = conversations(at_desk)
    assert json.dumps(CODERS[name].command(job(prompt)).stdin)[1:-1] in said
    assert "TOP-SECRET" not in said
    assert "EXPANDED" not in said
    assert not (at_desk.project / "pwned").exists()
    assert at_desk.strangers == []


@pytest.mark.more_agents
@pytest.mark.long
def test_qwen_asks_a_person_by_its_tool_and_goes_on_with_the_session(at_desk: Desk) -> None:
    own = (at_desk.home / ".qwen" / "settings.json").read_bytes()
    at_desk.model.answers = script(Call("mcp__fleet_questions__ask_human", {"question": "which?"}), Say("thanks"))
    first = work(at_desk, "qwen", "The first word is PELICAN.", ask=ASK)
    (answer,) = of(first, EventKind.TOOL_ENDED)
    assert (answer.ok, answer.text) == (True, "HERON: which?")
    assert "mcp__fleet_questions__ask_human" in at_desk.model.asked[-1].tools
    at_desk.model.answers = script(Say("done"))
    later = work(at_desk, "qwen", "the check failed", first[0].session)
    assert later[0].session == first[0].session
    last = conversations(at_desk)[-1]
    assert last.index("PELICAN") < last.index("HERON: which?") < last.index("the check failed")
    assert (at_desk.home / ".qwen" / "settings.json").read_bytes() == own
    assert at_desk.strangers == []

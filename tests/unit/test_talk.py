"""What agents tell of themselves: the program that notes it down, the readers of its lines, and what follows."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fleet.coders import Command, Job, find, talker_of, teller
from fleet.coders.told import noted, told
from fleet.core.errors import BadConfig
from fleet.core.talk import Mood, Signal, SignalKind, feel, took
from fleet.core.work import Event, EventKind, Usage

READY, TAKEN, ACTED, ASKS, RESTED, LEFT, LOGGED_OUT = SignalKind
TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
CWD = Path("/home/nobody/project")
TELL = ("/usr/bin/python3", "/opt/with space/tell.py", "/home/nobody/it's.jsonl")


# The program


def tell(path: Path, stdin: bytes = b"", *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*teller(path), *args], input=stdin, capture_output=True, check=False, timeout=30)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "said",
    ['{"a": 1}', '{\n  "a": "x"\n}\n', "no JSON at all", '"\\ \u2028 \x00\x1f\x7f " über 🦆', "", "[" * 3000],
)
def test_whatever_is_told_is_one_line_that_says_it_and_when(said: str, tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    done = tell(path, said.encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (line,) = lines(path)
    assert line["told"] == said
    assert line["at"] > 1_700_000_000
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_can_be_told_by_an_argument_and_adds_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    tell(path, b"first")
    tell(path, b"not read", '{"type": "agent-turn-complete"}')
    assert [line["told"] for line in lines(path)] == ["first", '{"type": "agent-turn-complete"}']


def test_a_prompt_stays_whole_and_what_a_tool_answered_does_not(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    prompt = "ü" * 150_000
    tell(path, json.dumps({"prompt": prompt, "tool_response": {"out": ["y" * 500_000]}, "n": 5}).encode())
    tell(path, json.dumps({"prompt": "z" * 500_000}).encode())
    tell(path, b"x" * 20_000_000)
    first, second, third = lines(path)
    assert json.loads(first["told"]) == {"prompt": prompt, "tool_response": {"out": ["y" * 2000]}, "n": 5}
    assert json.loads(second["told"]) == {"prompt": "z" * 200_000}
    assert third["told"] == "x" * 2000


def test_bytes_that_are_no_text_cost_only_themselves(tmp_path: Path) -> None:
    tell(tmp_path / "s", b"a\xff\xfeb")
    assert lines(tmp_path / "s")[0]["told"] == "a\ufffd\ufffdb"


def test_nothing_that_goes_wrong_disturbs_the_agent(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "link").symlink_to(elsewhere)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "link", tmp_path / "none" / "s", tmp_path, tmp_path / "pipe"):
        done = tell(path, b"{}")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not elsewhere.exists()
    bare = subprocess.run([*teller(elsewhere)[:-1]], capture_output=True, check=False)
    assert (bare.returncode, bare.stderr) == (0, b"")


def test_it_loads_nothing_that_costs(tmp_path: Path) -> None:
    program = teller(tmp_path / "s")[3]
    asked = [sys.executable, "-X", "importtime", "-I", "-S", program, str(tmp_path / "s"), "{}"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stderr
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert loaded & {"json", "re", "pathlib", "enum", "typing", "contextlib"} == set()


# The herald


def test_a_herald_is_an_mcp_server_without_tools_that_tells_when_it_is_greeted(tmp_path: Path) -> None:
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = [
        {"id": 1, "method": "initialize", "params": greeting},
        {"method": "notifications/initialized"},
        {"id": "b", "method": "tools/list"},
        {"id": 3, "method": "resources/list"},
    ]
    program = teller(tmp_path / "s")
    herald = [*program[:3], str(Path(program[3]).with_name("herald.py")), *program]
    said = b"no JSON\n[1]\n" + b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    done = subprocess.run(herald, input=said, capture_output=True, check=True, timeout=30)
    first, tools, unknown = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["result"]["protocolVersion"]) == (1, "2025-06-18")
    assert (tools["id"], tools["result"]) == ("b", {"tools": []})
    assert unknown["error"]["code"] == -32601
    (line,) = (tmp_path / "s").read_bytes().splitlines()
    assert [signal.kind for signal in talker_of(find("codex", {})).signals(line)] == [READY]


# What a line says


def signals(name: str, what: dict[str, object]) -> list[tuple[SignalKind, str | None]]:
    heard = talker_of(find(name, {})).signals(noted(what, at=5.0))
    assert all(signal.at == 5.0 for signal in heard)
    return [(signal.kind, signal.text) for signal in heard]


BASH: dict[str, object] = {"tool_name": "Bash", "tool_input": {"command": "make", "description": "x"}}


@pytest.mark.parametrize(
    ("event", "more", "kinds"),
    [
        ("SessionStart", {"source": "startup"}, [(READY, None)]),
        ("SessionStart", {"source": "compact"}, [(ACTED, None)]),
        ("UserPromptSubmit", {"prompt": "ü" * 9000}, [(TAKEN, "ü" * 9000)]),
        ("PreToolUse", BASH, [(ACTED, "Bash: make")]),
        ("PermissionRequest", BASH, [(ASKS, "Bash: make")]),
        ("PostToolUse", BASH, [(ACTED, "Bash: make")]),
        ("PreToolUse", {"tool_name": "AskUserQuestion"}, [(ASKS, "AskUserQuestion")]),
        ("Notification", {"notification_type": "idle_prompt", "message": "waits"}, [(RESTED, "waits")]),
        ("Notification", {"notification_type": "elicitation_dialog", "message": "Which?"}, [(ASKS, "Which?")]),
        ("Stop", {"last_assistant_message": "done"}, [(RESTED, None)]),
        ("SessionEnd", {"reason": "clear"}, []),
        ("SessionEnd", {"reason": "prompt_input_exit"}, [(LEFT, "prompt_input_exit")]),
        ("Hologram", {}, []),
        (["Stop"], {}, []),
    ],
)
def test_what_claude_codes_hooks_mean(
    event: object, more: dict[str, object], kinds: list[tuple[SignalKind, str | None]]
) -> None:
    assert signals("claude", {"hook_event_name": event, **more}) == kinds


def test_a_signal_names_its_session_and_its_transcript_only_if_they_can_be_used() -> None:
    claude = talker_of(find("claude", {}))
    what: dict[str, object] = {
        "hook_event_name": "Stop",
        "session_id": "a-1",
        "transcript_path": "/home/nobody/t.jsonl",
    }
    (good,) = claude.signals(noted(what))
    (bad,) = claude.signals(noted(what | {"session_id": "--x", "transcript_path": "relative"}))
    assert (good.session, good.transcript) == ("a-1", "/home/nobody/t.jsonl")
    assert (bad.session, bad.transcript) == (None, None)


def test_who_interrupts_claude_code_is_seen_in_its_transcript() -> None:
    claude = talker_of(find("claude", {}))
    said = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user for tool use]"}]}
    line = {"type": "user", "message": said, "timestamp": "2026-11-16T10:38:17.803Z", "sessionId": "s-1"}
    (signal,) = claude.signals(json.dumps(line).encode())
    assert (signal.kind, signal.session, round(signal.at)) == (RESTED, "s-1", 1794825498)
    words = line | {"message": {"role": "user", "content": "[Request interrupted by user for tool use]"}}
    for other in (words, line | {"type": "assistant"}, line | {"isSidechain": True}, line | {"timestamp": 5}):
        assert claude.signals(json.dumps(other).encode()) == []


def test_qwen_codes_prompt_is_what_was_given_and_nothing_that_it_added() -> None:
    files = "\n--- Content from referenced files ---\nContent from a:\nx\n\n--- End of content ---"
    asked: dict[str, object] = {"hook_event_name": "UserPromptSubmit"}
    assert signals("qwen", asked | {"prompt": f"look at @a{files}"}) == [(TAKEN, "look at @a")]
    assert signals("qwen", asked | {"prompt": ""}) == []


def test_a_turn_of_codex_is_over_when_its_transcript_says_so() -> None:
    codex = talker_of(find("codex", {}))
    line = {"timestamp": "2026-11-16T10:51:26.592Z", "type": "event_msg", "payload": {"type": "turn_aborted"}}
    assert [signal.kind for signal in codex.signals(json.dumps(line).encode())] == [RESTED]
    assert codex.signals(json.dumps(line | {"payload": {"type": "token_count"}}).encode()) == []


def test_a_line_that_was_cut_off_tells_nothing() -> None:
    line = noted({"hook_event_name": "Stop"})
    assert told(line) is not None
    assert [told(line[:n]) for n in range(len(line))] == [None] * len(line)


# What was recorded of the real ones: asked to act, given leave, left


def recorded(name: str) -> tuple[list[Signal], list[Event]]:
    folder, talker = TRANSCRIPTS / name / "terminal", talker_of(find(name, {}))
    told_lines = (folder / "signals.jsonl").read_bytes().splitlines()
    kept = folder / "transcript.jsonl"
    transcript = kept.read_bytes().splitlines() if kept.exists() else told_lines
    heard = [signal for line in told_lines for signal in talker.signals(line)]
    return heard, [event for line in transcript for event in talker.recall(line)]


WROTE = {"claude": 100, "codex": 0, "opencode": 0, "qwen": None}  # into a cache, as far as each tells


@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "qwen"])
def test_a_recorded_terminal_tells_all_that_happened(name: str) -> None:
    heard, events = recorded(name)
    kinds = [signal.kind for signal in heard]
    wanted = [READY, TAKEN, ASKS, ACTED, RESTED, LEFT]
    assert [kind for kind in dict.fromkeys(kinds[kinds.index(ASKS) :]) if kind is not ASKS] == [ACTED, RESTED, LEFT]
    assert set(kinds) == set(wanted)
    assert kinds.index(READY) < kinds.index(TAKEN) < kinds.index(ASKS)
    assert [signal.text for signal in heard if signal.kind is TAKEN] == ["ACT NOW"]
    assert {(signal.text or "").partition(": ")[2] for signal in heard if signal.kind is ASKS} == {"touch made.txt"}
    moods = [feel(heard[:until]).mood for until in range(1, len(heard) + 1)]
    assert list(dict.fromkeys(moods)) == [Mood.WAITING, Mood.WORKING, Mood.ASKING, Mood.UNKNOWN]
    assert [event.usage for event in events if event.usage] == [Usage(1110, 5, 1000, WROTE[name])] * 2
    assert [event.text for event in events if event.kind is EventKind.TOOL_CALLED] == ["touch made.txt"]
    assert [event.text for event in events if event.kind is EventKind.SAID] == ["HERON"]
    assert EventKind.RESULT not in {event.kind for event in events}


# How it is started


def converse(name: str, *args: str) -> Command:
    return talker_of(find(name, {})).converse(Job("not on it", CWD, "m", args=args), TELL)


def test_claude_code_gets_hooks_beside_the_users_and_asks_nothing_before_its_prompt() -> None:
    made = converse("claude")
    (given,) = [word.removeprefix("--settings=") for word in made.argv if word.startswith("--settings=")]
    settings = json.loads(given)
    (hook,) = settings["hooks"]["Stop"][0]["hooks"]
    split = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\n' {hook['command']}"], capture_output=True, text=True, check=True
    )
    assert tuple(split.stdout.splitlines()) == TELL
    assert settings["skipDangerousModePermissionPrompt"] is True
    assert made.argv[-1] == "--dangerously-skip-permissions"
    assert made.env == {"CLAUDE_CODE_SANDBOXED": "1"}
    assert "not on it" not in str(made)


def test_codex_is_told_which_hooks_to_trust_and_no_others() -> None:
    made = converse("codex")
    (hooks,) = [tomllib.loads(word)["hooks"] for word in made.argv if word.startswith("hooks=")]
    trusted = hooks.pop("state")
    assert {group["hooks"][0]["command"] for (group,) in hooks.values()} == {shlex.join(TELL)}
    assert len(trusted) == len(hooks)
    assert all(key.startswith("/<session-flags>/config.toml:") and key.endswith(":0:0") for key in trusted)
    assert not any("bypass-hook-trust" in word for word in made.argv)
    assert made.argv[-1] == "--dangerously-bypass-approvals-and-sandbox"


def test_the_users_flags_stand_in_place_of_ours() -> None:
    made = converse("claude", "--permission-mode", "plan")
    assert made.argv[-2:] == ("--permission-mode", "plan")
    assert "--dangerously-skip-permissions" not in made.argv


def test_who_cannot_be_talked_to_is_named() -> None:
    with pytest.raises(BadConfig, match="agy cannot be talked to in a terminal"):
        talker_of(find("agy", {}))


# What follows


def told_of(*signs: SignalKind | tuple[SignalKind, str]) -> list[Signal]:
    pairs = [(sign, None) if isinstance(sign, SignalKind) else sign for sign in signs]
    return [Signal(kind, float(at), text) for at, (kind, text) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("signs", "mood", "since"),
    [
        ([READY], Mood.WAITING, 0),
        ([READY, TAKEN], Mood.WORKING, 1),
        ([TAKEN, (ACTED, "a"), (ASKS, "a")], Mood.ASKING, 2),
        ([TAKEN, (ASKS, "a"), (ACTED, "a")], Mood.WORKING, 2),
        ([TAKEN, (ASKS, "a"), (ACTED, "b")], Mood.ASKING, 1),
        ([TAKEN, (ASKS, "a"), (ASKS, "b"), (ACTED, "b"), (ACTED, "c")], Mood.ASKING, 1),
        ([TAKEN, (ASKS, "a"), (ACTED, "b"), RESTED], Mood.WAITING, 3),
        ([TAKEN, (ASKS, "a"), TAKEN, (ACTED, "b")], Mood.WORKING, 3),
        ([(ASKS, "a"), (ACTED, "a"), (ASKS, "a")], Mood.ASKING, 2),
        ([TAKEN, ASKS], Mood.ASKING, 1),
        ([TAKEN, ASKS, ACTED], Mood.WORKING, 2),
    ],
)
def test_an_agent_asks_until_it_is_answered(
    signs: list[SignalKind | tuple[SignalKind, str]], mood: Mood, since: int
) -> None:
    felt = feel(told_of(*signs))
    assert (felt.mood, felt.since) == (mood, since)


@pytest.mark.parametrize(
    ("given", "taken", "same"),
    [
        ("a\tb", "a    b", True),
        ("a\r\nb", "a\nb", True),
        (" a\n", "a", True),
        ("a", None, False),
        ("a b", "a  b", False),
        ("a", "a\nb", False),
    ],
)
def test_a_prompt_was_taken_if_all_of_it_was(given: str, taken: str | None, same: bool) -> None:
    assert took(given, taken) is same

"""The promise of a coder, for every one of them; what the real CLIs wrote; and the real CLIs at work.

The transcripts are what the real programs printed for a scripted model: `python tools/record.py` makes them again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parts
from fleet.coders import Coder, Command, Declared, Job, find, instructions, names
from fleet.coders.stream import LONGEST
from fleet.core import BadConfig
from fleet.core.task import Status, Task
from fleet.core.work import Event, EventKind, Usage
from standins.agent_desk import MODELS, Desk, desk
from standins.agent_models import script, turns
from standins.model_server import Asked, Call, Say

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
AGENTS = ("claude", "codex", "opencode")
DECLARED: dict[str, Coder] = {
    "of text": Declared("of text", ("my-agent", "--go"), model_flag="--model", resume_flag="--session"),
    "of lines": Declared("of lines", ("my-agent",), events="jsonl", model_flag="-m=", resume_flag="--resume="),
    "like claude": Declared("like claude", ("my-claude",), events="claude"),
    "by argument": Declared("by argument", ("my-agent",), prompt="arg", events="codex", model_flag="--model"),
}
CODERS = {name: find(name, DECLARED) for name in names(DECLARED)}
BY_STDIN = sorted(set(CODERS) - {"by argument"})
HOSTILE = (
    "--help",
    "-",
    "/init\n",
    "@/etc/hostname",
    "!touch pwned",
    "# x",
    "'; touch pwned; '",
    "$(touch pwned)\n`x`",
)
NOT_WORDS = ("", " ", "-x", "--dangerously", "a\nb", "a\0b", "a\x1b[31m", "\ud800")

every_coder = pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
few = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def job(prompt: str = "a prompt", **more: Any) -> Job:
    return Job(prompt, Path("/home/nobody/project"), **more)


def given_text(command: Command) -> str:
    """What the agent is given to read, out of the stream that carries it where there is one."""
    if not command.stdin.startswith('{"type": "user"'):
        return command.stdin
    return str(json.loads(command.stdin)["message"]["content"][0]["text"])


# How an agent is started


@pytest.mark.parametrize("prompt", HOSTILE)
@pytest.mark.parametrize("name", BY_STDIN)
def test_a_prompt_is_given_whole_and_never_on_the_command_line(name: str, prompt: str) -> None:
    command = CODERS[name].command(job(prompt))
    assert given_text(command) == prompt
    assert command.argv == CODERS[name].command(job("another")).argv
    assert prompt not in command.env.values()


def test_a_program_that_wants_its_prompt_as_an_argument_gets_it_last_and_exactly() -> None:
    coder = CODERS["by argument"]
    command = coder.command(job("a 'prompt'\nof two lines", args=("--more",)))
    assert command == Command(("my-agent", "--more", "a 'prompt'\nof two lines"))
    for prompt in ("--help", "x" * 2**17):
        with pytest.raises(BadConfig, match="by argument"):
            coder.command(job(prompt))


@every_coder
def test_what_no_program_can_be_given_is_refused(coder: Coder) -> None:
    for broken in (job("a\0b"), job("half \ud83d of a face"), job(args=("a\0b",))):
        with pytest.raises(BadConfig):
            coder.command(broken)


@every_coder
def test_no_model_and_no_session_means_no_option(coder: Coder) -> None:
    with_neither = coder.command(job()).argv
    assert not [word for word in with_neither if "model" in word or "resume" in word or "session" in word]


@pytest.mark.parametrize("name", [*AGENTS, "of text", "of lines"])
def test_a_model_and_a_session_are_passed_on(name: str) -> None:
    argv = CODERS[name].command(job(model="a model/of:mine", session="ses_0-a.b")).argv
    assert [word for word in argv if word.endswith("a model/of:mine")]
    assert [word for word in argv if word.endswith("ses_0-a.b")]
    assert CODERS[name].can.resume


@every_coder
def test_what_could_be_read_as_an_option_is_no_model_and_no_session(coder: Coder) -> None:
    for text in NOT_WORDS:
        for bad in (job(model=text), job(session=text)):
            with pytest.raises(BadConfig):
                coder.command(bad)


@given(text=st.text(max_size=40), name=st.sampled_from(sorted(CODERS)))
@few
def test_no_word_of_a_model_becomes_an_option(text: str, name: str) -> None:
    coder = CODERS[name]
    try:
        argv = coder.command(job(model=text)).argv
    except BadConfig:
        return
    options = {word.partition("=")[0] for word in argv if word.startswith("-")}
    harmless = {word.partition("=")[0] for word in coder.command(job(model="m")).argv if word.startswith("-")}
    assert options == harmless


@pytest.mark.parametrize("name", sorted(CODERS))
def test_the_users_own_arguments_stand_where_options_may(name: str) -> None:
    argv = CODERS[name].command(job(session="s", args=("--mine", "a b"))).argv
    at = argv.index("--mine")
    assert argv[at + 1] == "a b"
    assert "--" not in argv[:at]


def test_a_session_of_codex_and_the_mark_for_stdin_stand_behind_every_option() -> None:
    assert CODERS["codex"].command(job(session="s", args=("--mine",))).argv[-4:] == ("--mine", "--", "s", "-")
    assert CODERS["codex"].command(job(args=("--mine",))).argv[-3:] == ("--mine", "--", "-")


@every_coder
def test_who_can_ask_is_given_the_server_beside_the_users_own_and_nobody_else_is(coder: Coder) -> None:
    ask = ("/usr/bin/python3", "-I", "a 'quoted' \"path\"/server.py", "/a b/artifacts")
    with_it, without = coder.command(job(ask=ask, ask_wait=90.0)), coder.command(job())
    added = [word for word in with_it.argv if word not in without.argv] + list(with_it.env.values())
    assert bool(added) == coder.can.ask
    assert all(word in json.dumps(added) for word in ("fleet_questions", "server.py") if coder.can.ask)
    assert "strict" not in " ".join(with_it.argv)


def test_each_cli_waits_for_the_server_a_minute_longer_than_it_takes() -> None:
    wanted = job(ask=("python", "server.py", "x"), ask_wait=90.0)
    claude = CODERS["claude"].command(wanted).argv
    (config,) = [json.loads(word.partition("=")[2]) for word in claude if word.startswith("--mcp-config=")]
    server = {"type": "stdio", "command": "python", "args": ["server.py", "x"], "timeout": 150_000, "alwaysLoad": True}
    assert config == {"mcpServers": {"fleet_questions": server}}
    times = "startup_timeout_sec=60, tool_timeout_sec=150"
    assert f'mcp_servers.fleet_questions={{command="python", args=["server.py", "x"], {times}}}' in (
        CODERS["codex"].command(wanted).argv
    )
    opencode = json.loads(CODERS["opencode"].command(wanted).env["OPENCODE_CONFIG_CONTENT"])
    local = {"type": "local", "command": ["python", "server.py", "x"], "enabled": True, "timeout": 150_000}
    assert opencode == {"mcp": {"fleet_questions": local}}


def test_what_a_tool_of_an_mcp_server_was_asked_and_answered_is_read_from_codex() -> None:
    """As Codex 0.166.0 wrote it."""
    item = {"id": "item_1", "type": "mcp_tool_call", "server": "fleet_questions", "tool": "ask_human"}
    asked: dict[str, Any] = item | {"arguments": {"prompt": "Which one?", "options": ["a"]}, "error": None}
    told = {"content": [{"type": "text", "text": "The grey one"}], "structured_content": None}
    lines = (
        {"type": "item.started", "item": asked | {"result": None, "status": "in_progress"}},
        {"type": "item.completed", "item": asked | {"result": told, "status": "completed"}},
    )
    called, ended = (event for line in lines for event in CODERS["codex"].read(json.dumps(line).encode()))
    assert (called.kind, called.tool, called.text) == (
        EventKind.TOOL_CALLED, "fleet_questions.ask_human", "Which one?",
    )  # fmt: skip
    assert (ended.kind, ended.call, ended.text, ended.ok) == (EventKind.TOOL_ENDED, called.call, "The grey one", True)


# What their output means


def stream(coder: str, what: str) -> list[bytes]:
    return (TRANSCRIPTS / coder / f"{what}.jsonl").read_bytes().splitlines()


def heard(coder: str, what: str) -> list[Event]:
    return [event for line in stream(coder, what) for event in CODERS[coder].read(line)]


def of(events: list[Event], *kinds: EventKind) -> list[Event]:
    return [event for event in events if event.kind in kinds]


WORKS: dict[str, list[tuple[str, str, bool]]] = {
    "claude": [("Write", "/home/nobody/project/made.txt", True), ("Bash", "cat made.txt; exit 3", False)],
    "codex": [
        ("command_execution", "/bin/bash -lc 'echo made > made.txt; cat made.txt; exit 3'", False),
        ("file_change", "add /home/nobody/project/patched.txt", True),
    ],
    "opencode": [
        ("bash", "echo made > made.txt; cat made.txt", True),
        ("read", "/home/nobody/project/missing.txt", False),
    ],
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("what", ["works", "resumed"])
def test_tool_calls_are_seen_by_name_and_matched_with_their_results(name: str, what: str) -> None:
    events = of(heard(name, what), EventKind.TOOL_CALLED, EventKind.TOOL_ENDED)
    seen = [(called.tool, called.text, ended.ok) for called, ended in zip(events[::2], events[1::2], strict=True)]
    assert seen == WORKS[name]
    assert [called.call for called in events[::2]] == [ended.call for ended in events[1::2]]
    assert len({called.call for called in events}) == len(WORKS[name])
    assert [event.text for event in events if event.kind is EventKind.TOOL_ENDED and "made" in (event.text or "")]


@pytest.mark.parametrize("name", AGENTS)
def test_the_session_is_told_at_once_and_stays_when_it_is_taken_up_again(name: str) -> None:
    first, later = heard(name, "works"), heard(name, "resumed")
    assert first[0].kind is EventKind.SESSION
    assert first[0].session
    assert {event.session for event in [*first, *later] if event.session} == {first[0].session}


ONE = Usage(1110, 5)


@pytest.mark.parametrize(
    ("name", "usages", "total", "cost", "limit"),
    [
        ("claude", [Usage(1110, 1)] * 3, Usage(3330, 15), 0.00234, 200_000),
        ("codex", [], Usage(3330, 15), None, None),
        ("opencode", [ONE] * 3, None, None, None),
    ],
)
def test_what_was_read_from_a_cache_counts_once(
    name: str, usages: list[Usage], total: Usage | None, cost: float | None, limit: int | None
) -> None:
    events = heard(name, "works")
    assert [event.usage for event in of(events, EventKind.USAGE)] == usages
    (result,) = of(events, EventKind.RESULT)
    assert (result.total, result.cost, result.context_limit) == (total, cost, limit)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("what", ["works", "resumed"])
def test_a_session_that_went_well_ends_well(name: str, what: str) -> None:
    events = heard(name, what)
    assert events[-1].kind is EventKind.RESULT
    assert events[-1].ok is True
    assert [event.text for event in of(events, EventKind.SAID)] == ["It is made."]


@pytest.mark.parametrize(
    ("name", "words"),
    [("claude", ("429", "resets at 5pm")), ("codex", ("401", "invalid x-api-key")), ("opencode", ("401", "x-api-key"))],
)
def test_what_a_provider_refused_is_the_result_in_its_words(name: str, words: tuple[str, ...]) -> None:
    events = heard(name, "refused")
    (result,) = of(events, EventKind.RESULT)
    assert result.ok is False
    assert all(word in (result.text or "") for word in words)
    assert not of(events, EventKind.SAID, EventKind.USAGE)


def test_a_subagents_context_is_not_the_sessions() -> None:
    events = heard("claude", "subagent")
    assert [event.tool for event in of(events, EventKind.TOOL_CALLED)] == ["Agent", "Bash"]
    assert len(of(events, EventKind.USAGE)) == 2
    (result,) = of(events, EventKind.RESULT)
    assert result.total == Usage(4440, 20)


def test_nothing_in_a_transcript_is_strange_to_its_reader() -> None:
    known = {"turn.started", "user", "system/task_started", "system/task_progress", "system/task_updated"}
    others = {
        event.text
        for name in AGENTS
        for path in (TRANSCRIPTS / name).glob("*.jsonl")
        for event in of(heard(name, path.stem), EventKind.OTHER)
    }
    assert others <= known | {"system/task_notification"}


def test_the_transcripts_are_of_the_pinned_versions_and_name_no_machine() -> None:
    (started, *_) = stream("claude", "works")
    assert json.loads(started)["claude_code_version"] == parts.npm_version("@anthropic-ai/claude-code")
    files = [path for path in TRANSCRIPTS.rglob("*") if path.is_file()]
    assert {path.stem for path in files} == {"works", "resumed", "refused", "subagent"}
    for path in files:
        text = path.read_text().replace("/home/nobody", "")
        assert [word for word in ("/root", "/home/", "/tmp/tmp", str(Path.home())) if word in text] == []


# Whatever they print


def assert_sound(events: list[Event]) -> None:
    """Events that anybody can keep: short, writable, with numbers that are numbers."""
    for event in events:
        kept = [event.text, event.tool, event.call, event.session, event.model]
        assert all(text is None or (isinstance(text, str) and len(text) <= LONGEST + 100) for text in kept)
        assert all(text is None or text.encode() for text in kept)
        for usage in (event.usage, event.total):
            assert usage is None or (0 <= usage.prompt < 10**17 and 0 <= usage.completion < 10**17)
        assert event.cost is None or 0 <= event.cost < 10**15
        assert event.session is None or event.session[0] != "-"
        assert isinstance(event.ok, bool | None)


STRANGE = [
    b"",
    b"   ",
    b"plain words",
    b"\xff\xfe\x00broken \xf0\x9f",
    b"[1, 2, 3]",
    b"null",
    b"NaN",
    b'"a string"',
    b'{"type": ',
    b'{"type": "result", "is_error": false, "result": "\xff"}',
    b'{"type": "text", "part": {"text": "half a \\ud83d face"}}',
    b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "half a \\ud83d face"}]}}',
    b'{"type": ["result"], "kind": {"a": 1}}',
    b'{"type": {"type": "result"}}',
    b'{"type": "result", "total_cost_usd": NaN, "usage": {"input_tokens": 1e400}, "modelUsage": []}',
    b'{"type": "result", "total_cost_usd": -Infinity, "usage": {"input_tokens": -5}, "modelUsage": {"m": 5}}',
    b'{"type": "result", "total_cost_usd": ' + b"9" * 400 + b', "usage": {"input_tokens": ' + b"9" * 400 + b"}}",
    b'{"type": "turn.completed", "usage": {"input_tokens": ' + b"9" * 5000 + b"}}",
    b'{"type": "step_finish", "part": {"tokens": {"input": true, "cache": [1]}, "cost": "x", "reason": 5}}',
    b'{"type": "system", "subtype": "init", "session_id": "--dangerous", "model": 5}',
    b'{"type": "thread.started", "thread_id": "-c"}',
    b'{"type": "item.completed", "item": {"type": "file_change", "changes": [1, {"path": 5}], "arguments": [[]]}}',
    b"[" * 100_000,
    b'{"type": "assistant", "message": ' * 20_000,
    b'{"type": "item.completed", "item": {"type": "mcp_tool_call", "arguments": ' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "' + b"x" * 4_000_000 + b'"}]}}',
    b"x" * 20_000_000,
]


@every_coder
@pytest.mark.parametrize("number", range(len(STRANGE)))
def test_a_strange_line_is_kept_and_never_an_error(coder: Coder, number: int) -> None:
    line = STRANGE[number]
    events = coder.read(line)
    assert_sound(events)
    assert bool(events) == bool(line.strip())


RECORDED = sorted(
    {
        line
        for name in AGENTS
        for path in (TRANSCRIPTS / name).glob("*.jsonl")
        for line in path.read_bytes().splitlines()
    }
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(line=st.binary(max_size=200), name=st.sampled_from(sorted(CODERS)))
@few
def test_any_bytes_can_be_read(line: bytes, name: str) -> None:
    assert_sound(CODERS[name].read(line))


@given(line=st.sampled_from(RECORDED), at=st.floats(0, 1), name=st.sampled_from(sorted(CODERS)))
@few
def test_a_line_that_was_cut_off_can_be_read(line: bytes, at: float, name: str) -> None:
    assert_sound(CODERS[name].read(line[: int(len(line) * at)]))


@given(data=st.data(), line=st.sampled_from(RECORDED), name=st.sampled_from(sorted(CODERS)))
@settings(few, max_examples=300)
def test_a_line_with_anything_in_any_of_its_places_can_be_read(data: st.DataObject, line: bytes, name: str) -> None:
    message = json.loads(line)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(list(places(message))))
        holder[key] = data.draw(ANYTHING)
        assert_sound(CODERS[name].read(json.dumps(message).encode()))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a message where something else could stand."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


# The demonstration, which is a real program


def a_task(title: str, description: str = "") -> Task:
    return Task("demo-1.2", title, description, Status.OPEN, 2, 0.0)


@pytest.fixture
def demonstrate(tmp_path: Path) -> Callable[[Task], list[Event]]:
    """Run the demonstration in tmp_path/project, as a supervisor would."""
    project, artifacts = tmp_path / "project", tmp_path / "artifacts"
    project.mkdir()

    def run(task: Task) -> list[Event]:
        coder = CODERS["demonstration"]
        text = instructions.prompt(task=task, spec_cwd=project, artifacts=artifacts, attempt="a", previous=None)
        command = coder.command(Job(text, project, model="any"))
        told = {"FLEET_TASK_ID": task.id, "FLEET_ARTIFACT_DIR": str(artifacts), "FLEET_DEMONSTRATION_PAUSE": "0"}
        env = {"PATH": os.defpath, "HOME": str(tmp_path)} | told
        done = subprocess.run(
            command.argv, cwd=project, env=env, input=command.stdin.encode(), capture_output=True, check=False
        )
        assert done.stderr == b""
        events = [event for line in done.stdout.splitlines() for event in coder.read(line)]
        assert done.returncode == (0 if events[-1].ok else 1)
        return events

    return run


def git(project: Path, *args: str) -> str:
    argv = ["git", "-C", str(project), *args]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_the_demonstration_really_edits_and_really_commits(
    tmp_path: Path, demonstrate: Callable[[Task], list[Event]]
) -> None:
    project = tmp_path / "project"
    git(project, "init", "-q")
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ntouch hooked\nexit 1\n")
    hook.chmod(0o755)
    events = demonstrate(a_task('Add a function that\'s "quoted"', "--help"))
    assert git(project, "log", "--format=%an|%s") == 'fleet demonstration (scripted)|Add a function that\'s "quoted"\n'
    assert git(project, "status", "--porcelain") == ""
    made = (project / "task_demo_1_2.py").read_text()
    done = subprocess.run([sys.executable, "-c", f"{made}\nprint(task_demo_1_2())"], capture_output=True, check=True)
    assert done.stdout.decode() == 'Add a function that\'s "quoted"\n'
    assert "done" in (tmp_path / "artifacts" / "PLAN_AND_STATUS.md").read_text()
    assert [event.tool for event in of(events, EventKind.TOOL_CALLED)] == ["Write", "Write", "Bash", "Write"]
    assert all(event.ok for event in of(events, EventKind.TOOL_ENDED))
    assert (events[0].model, events[-1].ok, events[-1].cost) == ("scripted", True, 0.0)
    assert "scripted" in " ".join(event.text or "" for event in of(events, EventKind.SAID))


def test_the_demonstration_works_where_there_is_no_repository(
    tmp_path: Path, demonstrate: Callable[[Task], list[Event]]
) -> None:
    assert demonstrate(a_task("One line"))[-1].ok
    demonstrate(a_task("Another line"))
    assert (tmp_path / "project" / "task_demo_1_2.txt").read_text() == "One line\nAnother line\n"


def test_the_demonstration_can_fail_and_can_do_nothing(
    tmp_path: Path, demonstrate: Callable[[Task], list[Event]]
) -> None:
    assert demonstrate(a_task("Please fail"))[-1].ok is False
    assert demonstrate(a_task("Do nothing"))[-1].ok is True
    assert list((tmp_path / "project").iterdir()) == []


def test_the_demonstration_says_so_when_it_could_not_write_or_commit(
    tmp_path: Path, demonstrate: Callable[[Task], list[Event]]
) -> None:
    project = tmp_path / "project"
    (project / "task_demo_1_2.txt").mkdir()
    assert demonstrate(a_task("One line"))[-1].ok is False
    (project / "task_demo_1_2.txt").rmdir()
    git(project, "init", "-q")
    (project / ".git" / "index.lock").touch()
    events = demonstrate(a_task("One line"))
    assert [event.ok for event in of(events, EventKind.TOOL_ENDED)] == [True, True, False]
    assert events[-1].ok is False


# The real CLIs


@pytest.fixture
def at_desk(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, script(Say("HERON"))) as where:
        yield where


def work(where: Desk, name: str, prompt: str, session: str | None = None) -> list[Event]:
    coder = CODERS[name]
    done = where.run(coder.command(Job(prompt, where.project, MODELS[name], session)))
    assert done.exit == 0, done.err
    return [event for line in done.lines for event in coder.read(line)]


def conversation(asked: Asked) -> str:
    return json.dumps(turns(asked), ensure_ascii=False)


def asked_to_work(where: Desk) -> list[Asked]:
    return [asked for asked in where.model.asked if asked.tools]


@pytest.mark.agents
@pytest.mark.parametrize("name", AGENTS)
def test_a_long_prompt_that_begins_like_an_option_reaches_the_model_whole(name: str, at_desk: Desk) -> None:
    description = "--help\n" + "a line of 40 characters, more or less..\n" * 7500 + "the very end"
    task = replace(a_task("--version"), description=description)
    prompt = instructions.prompt(
        task=task, spec_cwd=at_desk.project, artifacts=at_desk.home, attempt="demo-1.2.1", previous=None
    )
    assert len(prompt) > 300_000
    assert work(at_desk, name, prompt)[-1].ok is True
    (asked,) = asked_to_work(at_desk)
    assert json.dumps(prompt, ensure_ascii=False)[1:-1].strip("\\n") in conversation(asked)
    assert at_desk.strangers == []


@pytest.mark.agents
@pytest.mark.parametrize("name", AGENTS)
def test_a_session_is_taken_up_again_with_all_that_was_said(name: str, at_desk: Desk) -> None:
    session = work(at_desk, name, "The first word is PELICAN.")[0].session
    later = work(at_desk, name, instructions.again("the check failed", attempt="demo-1.2.2"), session)
    assert later[0].session == session
    last = conversation(asked_to_work(at_desk)[-1])
    assert last.index("PELICAN") < last.index("HERON") < last.index("the check failed")
    assert at_desk.strangers == []


@pytest.mark.agents
@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize(
    "prompt", ["/fetch now", "look at @secret.txt and\n@secret.txt", "!touch pwned\n!`touch pwned`"]
)
def test_no_mark_in_a_prompt_makes_a_cli_do_something_of_its_own(name: str, prompt: str, at_desk: Desk) -> None:
    (at_desk.project / "secret.txt").write_text("TOP-SECRET\n")
    for directory in (".claude/commands", ".opencode/command"):
        (at_desk.project / directory).mkdir(parents=True)
        (at_desk.project / directory / "fetch.md").write_text(
            "---\ndescription: fetches\n---\nEXPANDED !`touch pwned`\n"
        )
    work(at_desk, name, prompt)
    (asked,) = asked_to_work(at_desk)
    assert json.dumps(prompt)[1:-1] in conversation(asked)
    assert "TOP-SECRET" not in conversation(asked)
    assert "EXPANDED" not in conversation(asked)
    assert not (at_desk.project / "pwned").exists()


@pytest.mark.agents
def test_opencode_never_waits_for_a_person_and_keeps_to_what_its_user_forbade(at_desk: Desk) -> None:
    at_desk.model.answers = script(
        Call("bash", {"command": "echo made > made.txt", "description": "asks"}),
        Call("bash", {"command": "rm made.txt", "description": "forbidden"}),
        Call("read", {"filePath": str(at_desk.home / ".codex" / "config.toml")}),
        Say("done"),
    )
    ended = of(work(at_desk, "opencode", "Make it."), EventKind.TOOL_ENDED)
    assert [event.ok for event in ended] == [True, False, True]
    assert (at_desk.project / "made.txt").exists()

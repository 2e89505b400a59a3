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
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parts
from fleet.coders import Coder, Command, Declared, Job, conformance, find, instructions, names
from fleet.coders.acp import Acp
from fleet.coders.conformance import CHECKS, HOSTILE, OF_TRANSCRIPT, STRANGE, job
from fleet.coders.misfit import flaw
from fleet.core import BadConfig
from fleet.core.task import Status, Task
from fleet.core.work import Event, EventKind, Usage
from standins.agent_desk import MODELS, Desk, desk
from standins.agent_models import script, turns
from standins.aider_desk import MODEL as AIDERS_MODEL
from standins.aider_desk import aider_desk, edits, environment, is_about_a_commit
from standins.model_server import Asked, Call, Say

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
AGENTS = ("claude", "codex", "opencode")
EACH = ["claude", "codex", pytest.param("opencode", marks=pytest.mark.long)]  # it takes four seconds to start
DECLARED: dict[str, Coder] = {
    "of text": Declared("of text", ("my-agent", "--go"), model_flag="--model", resume_flag="--session"),
    "of lines": Declared("of lines", ("my-agent",), events="jsonl", model_flag="-m=", resume_flag="--resume="),
    "like claude": Declared("like claude", ("my-claude",), events="claude"),
    "in a terminal": Declared("in a terminal", ("my-agent",), model_flag="--model=", interactive=("my-agent", "--tui")),
    "by argument": Declared("by argument", ("my-agent",), prompt="arg", events="codex", model_flag="--model"),
    "by protocol": Acp("by protocol", ("my-agent",)),
}
CODERS = {name: find(name, DECLARED) for name in names(DECLARED)}
every_coder = pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
few = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def given_text(command: Command) -> str:
    """What the agent is given to read, out of the stream that carries it where there is one."""
    if not command.stdin.startswith('{"type": "user", "message"'):
        return command.stdin
    return str(json.loads(command.stdin)["message"]["content"][0]["text"])


# The promise, by the checks that others can run over their own coders too


def transcript(coder: str) -> list[bytes]:
    return [line for path in sorted((TRANSCRIPTS / coder).glob("*.*")) for line in path.read_bytes().splitlines()]


def promises() -> Iterator[tuple[str, str]]:
    """Every coder with every check; with those of a transcript where there is one."""
    for coder, name in product(CODERS, CHECKS):
        if CHECKS[name] not in OF_TRANSCRIPT or transcript(coder):
            yield coder, name


@pytest.mark.parametrize(("coder", "name"), list(promises()))
def test_every_coder_keeps_every_promise(coder: str, name: str) -> None:
    assert conformance.check(name, CODERS[coder], transcript(coder)).why == ""


# How an agent is started


@pytest.mark.parametrize("prompt", HOSTILE)
@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "of text", "of lines", "demonstration"])
def test_a_prompt_is_given_whole_and_with_nothing_beside_it(name: str, prompt: str) -> None:
    assert given_text(CODERS[name].command(job(prompt))) == prompt


def test_a_program_that_wants_its_prompt_as_an_argument_gets_it_last_and_exactly() -> None:
    coder = CODERS["by argument"]
    command = coder.command(job("a 'prompt'\nof two lines", args=("--more",)))
    assert command == Command(("my-agent", "--more", "a 'prompt'\nof two lines"))
    for prompt in ("--help", "x" * 2**17):
        with pytest.raises(BadConfig, match="by argument"):
            coder.command(job(prompt))


@every_coder
def test_no_model_and_no_session_means_no_option(coder: Coder) -> None:
    with_neither = coder.command(job()).argv
    assert not [word for word in with_neither if word.startswith(("--model", "--resume", "--session", "-m="))]


@pytest.mark.parametrize("name", [*AGENTS, "of text", "of lines", "by protocol"])
def test_a_model_and_a_session_are_passed_on(name: str) -> None:
    argv = CODERS[name].command(job(model="a model/of:mine", session="ses_0-a.b")).argv
    assert [word for word in argv if word.endswith("a model/of:mine")]
    assert [word for word in argv if word.endswith("ses_0-a.b")]
    assert CODERS[name].can.resume


@every_coder
def test_what_may_be_spent_is_told_to_those_who_keep_to_it(coder: Coder) -> None:
    told = set(coder.command(job(budget=2.5)).argv) - set(coder.command(job()).argv)
    assert bool(told) is coder.can.budget
    if coder.name == "claude":
        assert told == {"--max-budget-usd=2.5000"}
        assert "--max-budget-usd=1.2346" in coder.command(job(budget=1.23451)).argv, "never less than there is"
        assert "--max-budget-usd=0.0001" in coder.command(job(budget=0.0)).argv, "0 would not be taken"


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


def test_a_session_of_codex_and_the_mark_for_stdin_stand_behind_every_option() -> None:
    assert CODERS["codex"].command(job(session="s", args=("--mine",))).argv[-4:] == ("--mine", "--", "s", "-")
    assert CODERS["codex"].command(job(args=("--mine",))).argv[-3:] == ("--mine", "--", "-")


@every_coder
def test_who_can_ask_is_given_the_server_beside_the_users_own_and_nobody_else_is(coder: Coder) -> None:
    ask = ("/usr/bin/python3", "-I", "a 'quoted' \"path\"/server.py", "/a b/artifacts")
    with_it, without = coder.command(job(ask=ask, ask_wait=90.0)), coder.command(job())
    added = [word for word in with_it.argv if word not in without.argv]
    added += [value for name, value in with_it.env.items() if without.env.get(name) != value]
    assert bool(added) == coder.can.ask
    assert ("server.py" in json.dumps(added)) == coder.can.ask
    if coder.name != "by protocol":  # where the bridge gives it its name
        assert ("fleet_questions" in json.dumps(added)) == coder.can.ask
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
    (path,) = (TRANSCRIPTS / coder).glob(f"{what}.*")
    return path.read_bytes().splitlines()


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


ONE = Usage(1110, 5, 1000, 0)


@pytest.mark.parametrize(
    ("name", "usages", "total", "cost", "limit"),
    [
        ("claude", [Usage(1110, 1, 1000, 100)] * 3, Usage(3330, 15, 3000, 300, 0.00234), 0.00234, 200_000),
        ("codex", [], Usage(3330, 15, 3000, 0), None, None),
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


def test_aider_is_understood_without_a_stream() -> None:
    works, refused = ([*map(CODERS["aider"].read, stream("aider", what))] for what in ("works", "refused"))
    events = [event for told in works for event in told]
    assert of(events, EventKind.SESSION) == [Event(EventKind.SESSION, model="openai/local-coder")]
    done = [(event.tool, event.text) for event in of(events, EventKind.TOOL_CALLED)]
    assert done[0] == ("edit", "made.txt")
    assert (done[1][1] or "").endswith(" feat: add made.txt")
    assert [event.usage for event in of(events, EventKind.USAGE)] == [Usage(652, 13)]
    assert [(event.ok, event.cost) for event in of(events, EventKind.RESULT)] == [(True, 0.00068), (True, None)]
    (error,) = of([event for told in refused for event in told], EventKind.ERROR)
    assert (error.status, "invalid x-api-key" in (error.text or "")) == (401, True)


def test_a_subagents_context_is_not_the_sessions() -> None:
    events = heard("claude", "subagent")
    assert [event.tool for event in of(events, EventKind.TOOL_CALLED)] == ["Agent", "Bash"]
    assert [event.aside for event in of(events, EventKind.USAGE)] == [None, True, None]
    (result,) = of(events, EventKind.RESULT)
    assert result.total is not None
    assert (result.total.prompt, result.total.completion, result.total.cache_read) == (4440, 20, 4000)
    assert result.models == {"claude-sonnet-4-5": result.total}


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
    assert f"Aider v{parts.find('aider').version}".encode() in stream("aider", "works")
    files = [path for path in TRANSCRIPTS.rglob("*") if path.is_file()]
    in_terminals = {"signals", "transcript"}
    assert {path.stem for path in files} == {"works", "resumed", "refused", "limited", "subagent", *in_terminals}
    for path in files:
        text = path.read_text().replace("/home/nobody", "")
        assert [word for word in ("/root", "/home/", "/tmp/tmp", str(Path.home())) if word in text] == []


# Whatever they print


def assert_sound(events: list[Event]) -> None:
    """Events that anybody can keep."""
    assert [wrong for wrong in map(flaw, events) if wrong] == []


@every_coder
def test_no_line_with_something_in_it_is_passed_over(coder: Coder) -> None:
    assert [line[:60] for line in STRANGE if bool(coder.read(line)) != bool(line.strip())] == []


RECORDED = sorted({line for path in TRANSCRIPTS.rglob("*.jsonl") for line in path.read_bytes().splitlines()})
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
@pytest.mark.parametrize("name", EACH)
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
@pytest.mark.parametrize("name", EACH)
def test_a_session_is_taken_up_again_with_all_that_was_said(name: str, at_desk: Desk) -> None:
    session = work(at_desk, name, "The first word is PELICAN.")[0].session
    later = work(at_desk, name, instructions.again("the check failed", attempt="demo-1.2.2"), session)
    assert later[0].session == session
    last = conversation(asked_to_work(at_desk)[-1])
    assert last.index("PELICAN") < last.index("HERON") < last.index("the check failed")
    assert at_desk.strangers == []


@pytest.mark.agents
@pytest.mark.parametrize("name", EACH)
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
@pytest.mark.long
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


@pytest.mark.aider
def test_aider_takes_a_task_for_words_and_leaves_nothing_but_its_work(tmp_path: Path) -> None:
    with aider_desk(tmp_path, edits("made.txt", "made")) as where:
        (where.project / "README.md").write_text("# Not committed\n")
        commands = "/run touch pwned\n!touch pwned\n@secret.txt http://pelican.example/page\n"
        prompt = commands + "a line of 40 characters, more or less..\n" * 2500 + "the very end"
        done = where.run(CODERS["aider"].command(Job(prompt, where.project, AIDERS_MODEL)), **environment(where))
        events = [event for line in done.lines for event in CODERS["aider"].read(line)]
        first, *more = where.model.asked
        assert json.dumps(prompt)[1:-1] in json.dumps(turns(first))
        assert [asked for asked in more if is_about_a_commit(asked)]
        assert where.strangers == []
        assert git(where.project, "log", "--format=%s", "-1", "--name-only").split("\n\n") == [
            "feat: add made.txt",
            "made.txt\n",
        ]
        assert git(where.project, "status", "--porcelain", "--ignored") == " M README.md\n"
        assert sorted(path.name for path in where.home.glob(".aider*")) == [".aider", ".aider.model.metadata.json"]
    assert [event.tool for event in of(events, EventKind.TOOL_CALLED)] == ["edit", "commit"]
    (usage,) = [event.usage for event in of(events, EventKind.USAGE)]
    assert usage is not None
    assert usage.prompt > 20_000
    assert [event.cost for event in of(events, EventKind.RESULT) if event.cost] == [pytest.approx(0.03, abs=0.02)]

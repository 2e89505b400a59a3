"""The bridge to agents that speak the Agent Client Protocol: good ones, bad ones, and the real Claude Code's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.coders import Job
from fleet.coders.acp import BRIDGE, Acp
from fleet.core import BadConfig
from fleet.core.work import Event, EventKind, Usage
from standins.agent_desk import desk
from standins.agent_models import script, turns
from standins.coders.scratch import TRANSCRIPTS as ALL
from standins.coders.scratch import alive, until
from standins.model_server import Call, Say

AGENT = Path(__file__).parent.parent / "standins" / "acp_agent.py"
TRANSCRIPTS = ALL / "acp"
SECONDS = 60
HASTE = "--patience=3"


@dataclass(frozen=True)
class Bridged:
    """A stand-in that was led through one prompt."""

    exit: int
    events: list[Event]
    err: str
    sent: list[dict[str, Any]]  # what the agent was sent

    def of(self, kind: EventKind) -> list[Event]:
        return [event for event in self.events if event.kind is kind]

    @property
    def methods(self) -> list[str]:
        return [one["method"] for one in self.sent if "method" in one]


class Scene:
    def __init__(self, directory: Path) -> None:
        self.directory, self.log, self.err = directory, directory / "log", directory / "err"
        self.env = {"PATH": os.defpath, "HOME": str(directory), "FLEET_TASK_ID": "t1"}

    def coder(self, mind: str, permissions: str = "allow") -> Acp:
        return Acp("mine", (sys.executable, str(AGENT), mind, str(self.log)), permissions)

    def start(self, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with self.err.open("wb") as err:  # a pipe would be held open by what an agent leaves behind
            return subprocess.Popen(
                argv,
                cwd=self.directory,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                start_new_session=True,
            )

    def run(self, mind: str, permissions: str = "allow", **job: Any) -> Bridged:
        coder = self.coder(mind, permissions)
        command = coder.command(Job("Make it.", self.directory, **job))
        child = self.start((*BRIDGE, HASTE, *command.argv[len(BRIDGE) :]))
        return self.finish(child, command.stdin)

    def finish(self, child: subprocess.Popen[bytes], stdin: str | None = None, heard: bytes = b"") -> Bridged:
        """To the end, which comes."""
        with child:
            try:
                out, _ = child.communicate(None if stdin is None else stdin.encode(), timeout=SECONDS)
            finally:
                child.kill()
        return self.bridged(child.returncode, heard + out)

    def bridged(self, code: int, out: bytes) -> Bridged:
        sent = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        events = [event for line in out.splitlines() for event in self.coder("").read(line)]
        return Bridged(code, events, self.err.read_text(), sent)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    for pid in leftovers(tmp_path):
        os.kill(pid, signal.SIGKILL)


def leftovers(directory: Path) -> list[int]:
    """Whatever still lives of what was started in a directory."""
    mark = f"HOME={directory}".encode()
    found = [int(name) for name in os.listdir("/proc") if name.isdigit() and alive(int(name))]
    return [pid for pid in found if mark in environment(pid)]


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


# A conversation


def test_a_turn_is_told_in_our_own_words(scene: Scene) -> None:
    done = scene.run("works")
    assert (done.exit, done.err) == (0, "")
    assert [event.text for event in done.of(EventKind.SAID)] == ["I will make it.", "Made it."]
    (called,), (ended,) = done.of(EventKind.TOOL_CALLED), done.of(EventKind.TOOL_ENDED)
    assert (called.tool, called.text, called.call) == ("edit", "made.txt", "call-1")
    assert (ended.ok, ended.text, ended.call) == (True, "over", "call-1")
    usage = done.of(EventKind.USAGE)
    assert [(event.context, event.context_limit, event.spent) for event in usage] == [
        (900, 1000, 0.25),
        (950, 1000, 0.5),
    ]
    assert done.of(EventKind.SESSION) == [Event(EventKind.SESSION, session="session-of-a-stand-in", model="small")]
    assert done.events[-1] == Event(EventKind.RESULT, text="Made it.", ok=True, usage=Usage(1010, 5, 1000))
    assert "of_next_year" in [event.text for event in done.of(EventKind.OTHER)]


def test_the_agent_is_offered_nothing_but_its_prompt(scene: Scene) -> None:
    (greeting, begin, prompt, _) = scene.run("works").sent
    assert greeting["params"].keys() == {"protocolVersion", "clientInfo"}
    assert begin["params"] == {"cwd": str(scene.directory), "mcpServers": []}
    assert prompt["params"]["prompt"][0] == {"type": "text", "text": "Make it."}
    told = scene.run("stranger")
    assert (told.exit, json.loads(told.of(EventKind.SAID)[0].text or "")["code"]) == (0, -32601)


def test_what_an_agent_asks_is_answered_by_policy_and_never_for_good(scene: Scene) -> None:
    rejected = scene.run("works", permissions="reject")
    assert [event.ok for event in rejected.of(EventKind.TOOL_ENDED)] == [False]
    assert not (scene.directory / "made.txt").exists()
    assert "permission, reject: Write made.txt" in [event.text for event in rejected.of(EventKind.OTHER)]
    scene.run("works", permissions="allow")
    assert (scene.directory / "made.txt").read_text() == "this-time\n"


def test_a_session_is_taken_up_again_and_its_replay_is_not_told(scene: Scene) -> None:
    done = scene.run("works", session="session-of-a-stand-in")
    assert done.methods == ["initialize", "session/load", "session/prompt"]
    assert done.of(EventKind.SESSION)[0].session == "session-of-a-stand-in"
    assert [event.text for event in done.of(EventKind.TOOL_CALLED)] == ["made.txt"]


def test_an_agent_that_forgets_its_sessions_names_none(scene: Scene) -> None:
    done = scene.run("forgets")
    assert (done.exit, done.of(EventKind.SESSION)[0].session) == (0, None)
    assert any("cannot take up a session again" in (event.text or "") for event in done.of(EventKind.OTHER))
    again = scene.run("forgets", session="one-of-before")
    assert again.exit == 1
    assert [event.text for event in again.events] == ["it cannot take up the session one-of-before again"]


def test_a_model_is_chosen_where_there_is_a_choice(scene: Scene) -> None:
    done = scene.run("works", model="large")
    assert "session/set_model" in done.methods
    assert done.of(EventKind.SESSION)[0].model == "large"
    other = scene.run("works", model="huge")
    assert (other.exit, other.of(EventKind.SESSION)[0].model) == (0, "small")
    said = [event.text for event in other.of(EventKind.OTHER)]
    assert "the model huge was not chosen: session/set_model: no such model" in said


def test_the_server_that_asks_a_person_is_named_to_the_agent(scene: Scene) -> None:
    done = scene.run("works", ask=("ask-a-person", "--now"))
    (begin,) = [one for one in done.sent if one.get("method") == "session/new"]
    assert begin["params"]["mcpServers"] == [
        {
            "name": "fleet_questions",
            "command": "ask-a-person",
            "args": ["--now"],
            "env": [{"name": "FLEET_TASK_ID", "value": "t1"}],
        }
    ]


# When something goes wrong


@pytest.mark.parametrize(
    ("mind", "words"),
    [
        ("mute", "it did not answer initialize within 3 s"),
        ("shouts", "it sent a line of more than 16 MiB before it answered initialize"),
        ("confuses", "it broke the protocol: an answer to a request that was never made"),
        ("mumbles", "it broke the protocol: an answer without a result"),
        ("newer", "it speaks version 2 of the protocol, fleet speaks 1"),
        ("nameless", "it did not name the session that it began"),
        ("locked", "session/new: Authentication required"),
        ("dies", "it ended with exit code 3 before it answered session/prompt"),
        ("leaves", "it ended with exit code 3 before it answered session/prompt"),
    ],
)
def test_an_agent_that_breaks_the_rules_is_an_error_and_never_a_hang(scene: Scene, mind: str, words: str) -> None:
    done = scene.run(mind)
    assert (done.exit, done.err, done.of(EventKind.RESULT)) == (1, "", [])
    (error,) = done.of(EventKind.ERROR)
    assert (error.text or "").startswith(words)
    assert error.status == (401 if mind == "locked" else None)


def test_rubbish_between_messages_is_kept_and_harms_nobody(scene: Scene) -> None:
    done = scene.run("babbles")
    assert done.exit == 0
    assert [event.text for event in done.of(EventKind.OTHER)][:3] == ["hello", "[1]", "null"]


def test_a_turn_that_did_not_end_well_is_no_success(scene: Scene) -> None:
    done = scene.run("refuses")
    assert (done.exit, done.events[-1].ok, done.events[-1].text) == (1, False, "the agent stopped: refusal")


def test_a_program_that_is_not_there_is_said(scene: Scene) -> None:
    child = scene.start((*BRIDGE, "no-such-agent"))
    done = scene.finish(child, "")
    assert (done.exit, done.err) == (127, "")
    assert [event.text for event in done.events] == ["no-such-agent cannot be started: No such file or directory"]


def test_the_agents_own_options_are_not_taken_for_ours(scene: Scene) -> None:
    shows = Acp("mine", (sys.executable, "-c", "import sys; print(*sys.argv[1:])", "--session=x"))
    argv = shows.command(Job("", scene.directory, args=("--", "--patience=0", "-h"))).argv
    done = scene.finish(scene.start(argv), "")
    assert [event.text for event in done.of(EventKind.OTHER)] == ["--session=x -- --patience=0 -h"]


def test_nothing_is_imported_from_the_directory_that_is_worked_in(scene: Scene) -> None:
    for name in ("acp.py", "fleet.py", "pydantic.py", "json.py"):
        (scene.directory / name).write_text("raise SystemExit('planted')\n")
    assert scene.run("works").exit == 0


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_agent_is_asked_to_stop_and_answers(scene: Scene, sign: signal.Signals) -> None:
    done = interrupted(scene, "waits", sign)
    assert done.exit == 128 + sign
    assert done.methods[-1] == "session/cancel"
    assert done.events[-1] == Event(EventKind.RESULT, text="the agent stopped: cancelled", ok=False)


def test_an_agent_that_does_not_stop_is_killed(scene: Scene) -> None:
    done = interrupted(scene, "stubborn", signal.SIGINT)
    assert (done.exit, done.methods[-1]) == (130, "session/cancel")
    assert done.of(EventKind.RESULT) == []


def interrupted(scene: Scene, mind: str, sign: signal.Signals) -> Bridged:
    """The bridge, interrupted with its whole group while a tool runs; nothing of it is left."""
    command = scene.coder(mind).command(Job("Wait.", scene.directory))
    child = scene.start(command.argv)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(command.stdin.encode())
    child.stdin.close()
    child.stdin = None
    heard = b""
    while b"tool_called" not in heard:
        line = child.stdout.readline()
        assert line, heard
        heard += line
    os.killpg(child.pid, sign)
    done = scene.finish(child, None, heard)
    until(lambda: not leftovers(scene.directory))
    return done


# How it is started


def test_facts_that_cannot_be_meant_are_refused() -> None:
    for argv, permissions in (
        ((), "allow"),
        (("",), "allow"),
        (("a\0b",), "allow"),
        (("--x",), "allow"),
        (("x",), "?"),
    ):
        with pytest.raises(BadConfig, match=r"coders\.mine"):
            Acp("mine", argv, permissions)


# What the real one told: Claude Code behind the bridge, for a scripted model


def recorded(what: str) -> list[Event]:
    lines = (TRANSCRIPTS / f"{what}.jsonl").read_bytes().splitlines()
    return [event for line in lines for event in Acp("mine", ("x",)).read(line)]


def of(events: list[Event], *kinds: EventKind) -> list[Event]:
    return [event for event in events if event.kind in kinds]


@pytest.mark.parametrize("what", ["works", "resumed"])
def test_a_turn_of_claude_code_is_whole(what: str) -> None:
    events = recorded(what)
    calls = of(events, EventKind.TOOL_CALLED, EventKind.TOOL_ENDED)
    assert [event.tool or event.ok for event in calls] == ["Write", True, "Bash", False]
    assert [event.text for event in of(events, EventKind.SAID)] == ["It is made."]
    assert events[-1] == Event(EventKind.RESULT, text="It is made.", ok=True, usage=Usage(3330, 15))
    usage = of(events, EventKind.USAGE)
    assert {event.context for event in usage} == {1111, 1115}
    assert [event.spent is not None for event in usage] == [False] * 6 + [True]
    assert {event.session for event in events if event.session} == {recorded("works")[1].session}


def test_what_a_provider_refused_is_the_result_with_its_status() -> None:
    (result,) = of(recorded("refused"), EventKind.RESULT)
    assert (result.ok, result.status) == (False, 429)
    assert "resets at 5pm" in (result.text or "")


@pytest.mark.more_agents
def test_a_long_prompt_reaches_the_model_as_it_is_and_a_person_can_be_asked(tmp_path: Path) -> None:
    ask = Call("mcp__fleet_questions__ask_human", {"question": "which bird"})
    prompt = "/init @secret.txt\n" + "a line of 40 characters, more or less..\n" * 7500 + "@secret.txt"
    with desk(tmp_path, script(ask, Say("done"))) as at:
        (at.project / "secret.txt").write_text("TOP-SECRET\n")
        coder = Acp("mine", ("claude-agent-acp",))
        job = Job(prompt, at.project, "haiku", ask=(sys.executable, str(AGENT.parent / "mcp_ask.py")))
        done = at.run(coder.command(job), FLEET_TASK_ID="t7")
        assert done.exit == 0, done.err
        events = [event for line in done.lines for event in coder.read(line)]
        assert [event.tool for event in of(events, EventKind.TOOL_CALLED)] == ["mcp__fleet_questions__ask_human"]
        first, *_, last = [json.dumps(turns(asked)) for asked in at.model.asked if asked.tools]
        assert json.dumps(prompt)[1:-1] in first
        assert "TOP-SECRET" not in last
        assert "of t7 is CORMORANT" in last
        assert at.strangers == []

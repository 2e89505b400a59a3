"""Record the streams of the real agent CLIs again, into tests/transcripts: `python tools/record.py [CODER ...]`.

Each works for a scripted model on loopback, with an emptied environment and a home of its own. What would name this
machine (directories, ports, sockets) is replaced; all else stays as the CLI wrote it. Run it when a pinned version in
requirements/npm or npm-more changes, and look at the difference. `acp` is Claude Code behind the bridge. Of those that
can be talked to, what they told of themselves in a terminal and what their own transcript kept is recorded as well.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from fleet.coders import Job, find  # noqa: E402
from fleet.coders.acp import Acp  # noqa: E402
from fleet.core.talk import SignalKind  # noqa: E402
from standins.agent_desk import MODELS, MORE_MODELS, Desk, desk  # noqa: E402
from standins.agent_models import Answer, Mind, Refuse, results, script  # noqa: E402
from standins.aider_desk import MODEL, aider_desk, edits, environment  # noqa: E402
from standins.model_server import Asked, Call, Say  # noqa: E402
from standins.talk_desk import ACT, MANNERS, at_terminal  # noqa: E402

TRANSCRIPTS = ROOT / "tests" / "transcripts"
LIMIT = Refuse(429, "rate_limit_error", "You have hit your limit; it resets at 5pm")
EXHAUSTED = Refuse(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 3600.5s.")
BAD_KEY = Refuse(401, "authentication_error", "invalid x-api-key")
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n"

DECLARED = {"acp": Acp("acp", ("claude-agent-acp",))}


@dataclass(frozen=True)
class Recording:
    """What one CLI is made to do: a few tools, then a word; the same session taken up again; a refusal."""

    tools: tuple[Call, ...]
    refusal: Refuse
    more: dict[str, Mind] = field(default_factory=dict)

    @property
    def works(self) -> Mind:
        return script(*self.tools, Say("It is made."))


def delegates(asked: Asked) -> Answer:
    """Claude's main agent hands a command to a subagent of its own and waits for it."""
    if "AS-A-SUBAGENT" in str(asked.body["messages"][0]) and "Agent" not in asked.tools:
        done = Say("The subagent is done.")
        return done if results(asked) else Call("Bash", {"command": "echo below", "description": "says so"})
    task = {"description": "a part", "prompt": "AS-A-SUBAGENT: say so", "subagent_type": "Explore"}
    call = Call("Agent", {**task, "run_in_background": False})
    return Say("All is done.") if results(asked) else call


RECORDINGS = {
    "claude": Recording(
        (
            Call("Write", {"file_path": "{project}/made.txt", "content": "made\n"}),
            Call("Bash", {"command": "cat made.txt; exit 3", "description": "show it, and fail"}),
        ),
        LIMIT,
        {"subagent": delegates},
    ),
    "acp": Recording(
        (
            Call("Write", {"file_path": "{project}/made.txt", "content": "made\n"}),
            Call("Bash", {"command": "cat made.txt; exit 3", "description": "show it, and fail"}),
        ),
        LIMIT,
    ),
    "codex": Recording(
        (
            Call("exec_command", {"cmd": "echo made > made.txt; cat made.txt; exit 3"}),
            Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}),
        ),
        BAD_KEY,
    ),
    "opencode": Recording(
        (
            Call("bash", {"command": "echo made > made.txt; cat made.txt", "description": "make it"}),
            Call("read", {"filePath": "{project}/missing.txt"}),
        ),
        BAD_KEY,
    ),
    "gemini": Recording(
        (
            Call("run_shell_command", {"command": "echo made > made.txt; cat made.txt", "description": "make it"}),
            Call("read_file", {"file_path": "{project}/missing.txt"}),
        ),
        Refuse(401, "UNAUTHENTICATED", "invalid x-api-key"),
        {"limited": lambda asked: EXHAUSTED},
    ),
    "qwen": Recording(
        (
            Call("write_file", {"file_path": "{project}/made.txt", "content": "made\n"}),
            Call("run_shell_command", {"command": "cat made.txt; exit 3", "is_background": False}),
        ),
        BAD_KEY,
    ),
}


def record(name: str, directory: Path) -> dict[str, bytes]:
    """The streams of one CLI, by the name of their files."""
    recording = RECORDINGS[name]
    with desk(directory, recording.works) as where:
        where.model.answers = placed(recording.works, where.project)
        works = run(where, name, "Make it.", None)
        heard = [event for line in works.splitlines() for event in find(name, DECLARED).read(line)]
        session = next(event.session for event in heard if event.session)
        streams = {"works": works}
        if find(name, DECLARED).can.resume:
            streams["resumed"] = run(where, name, "Go on.", session)
        for what, mind in {"refused": lambda asked: recording.refusal, **recording.more}.items():
            where.model.answers = mind
            streams[what] = run(where, name, "Make it.", None)
        return {what: scrubbed(stream, where) for what, stream in streams.items()}


def record_aider(directory: Path) -> dict[str, bytes]:
    """Aider has no tools and no session: it answers with a file, or is refused."""
    with aider_desk(directory, edits("made.txt", "made")) as where:
        streams = {"works": run(where, "aider", "Make it.", None, **environment(where))}
        where.model.answers = lambda asked: BAD_KEY
        streams["refused"] = run(where, "aider", "Make it.", None, **environment(where))
        return {what: scrubbed(stream, where) for what, stream in streams.items()}


def record_terminal(name: str, directory: Path) -> dict[str, bytes]:
    """One that asks for leave, gets it, and is left. Of its transcript only what somebody reads."""
    manner = MANNERS[name]
    with at_terminal(directory, name, manner.flags) as (where, term):
        term.hear(SignalKind.READY)
        before = len(term.signals)
        term.say(ACT)
        term.hear(SignalKind.ASKS, before)
        term.enter()
        term.hear(SignalKind.RESTED, before)
        term.calm()  # a turn is told to be over a moment before it is
        term.press(*manner.leave)
        term.hear(SignalKind.LEFT, before)
        signals, kept = term.noted, Path(term.signals[-1].transcript or "").read_bytes().splitlines()
        telling = [line for line in kept if term.talker.recall(line) or term.talker.signals(line)]
        streams = {"terminal/signals": signals, "terminal/transcript": telling if kept != signals else []}
        return {what: scrubbed(b"\n".join([*lines, b""]), where) for what, lines in streams.items() if lines}


def run(where: Desk, name: str, prompt: str, session: str | None, **env: str) -> bytes:
    job = Job(prompt, where.project, (MODELS | MORE_MODELS | {"aider": MODEL, "acp": "haiku"})[name], session)
    own = {"TMPDIR": str(where.home)} if name == "gemini" else {}  # where it leaves a report of every error
    done = where.run(find(name, DECLARED).command(job), **env, **own)
    sys.stderr.write(f"{name}: exit {done.exit}, {len(done.lines)} lines\n{done.err}")
    return done.out


def placed(mind: Mind, project: Path) -> Callable[[Asked], Answer]:
    """The mind with the project's directory in the arguments of its calls."""

    def answer(asked: Asked) -> Answer:
        said = mind(asked)
        if not isinstance(said, Call):
            return said
        filled = {
            key: value.replace("{project}", str(project)) if isinstance(value, str) else value
            for key, value in said.arguments.items()
        }
        return Call(said.tool, filled, said.namespace)

    return answer


def scrubbed(stream: bytes, where: Desk) -> bytes:
    """The stream with nothing of this machine in it."""
    named = str(where.project).replace("/", "-").encode()  # Claude Code names a directory after the project
    for found, instead in (
        (str(where.project).encode(), b"/home/nobody/project"),
        (str(where.home).encode(), b"/home/nobody"),
        (named, b"-home-nobody-project"),
        (str(where.home.parent).encode(), b"/home/nobody"),
        (str(where.model.port).encode(), b"8931"),
    ):
        stream = stream.replace(found, instead)
    return re.sub(rb"/tmp/cc-socks/\d+\.sock", b"/tmp/cc-socks/1.sock", stream)


def main(names: list[str]) -> None:
    for name in names or sorted([*RECORDINGS, "aider"]):
        with tempfile.TemporaryDirectory() as directory:
            where = Path(directory).resolve()
            streams = record_aider(where) if name == "aider" else record(name, where)
        if name in MANNERS:
            with tempfile.TemporaryDirectory() as directory:
                streams |= record_terminal(name, Path(directory).resolve())
        for what, stream in streams.items():
            suffix = "txt" if name == "aider" else "jsonl"
            path = TRANSCRIPTS / name / f"{what}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(stream)


if __name__ == "__main__":
    main(sys.argv[1:])

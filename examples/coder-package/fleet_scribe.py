"""A coder of one's own: how `scribe` is started and what it prints. The program itself is below, to have one to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fleet.coders.base import Can, Coder, Command, Job, checked
from fleet.coders.stream import count, fields, other, parse, strange, word
from fleet.core.work import Event, EventKind, Usage

CAN = Can(usage=True)


@dataclass(frozen=True, slots=True)
class Scribe:
    name: str = "scribe"
    context_limit: int | None = 8000
    program: str = "scribe"
    can: Can = CAN
    unproven: str = ""

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = () if job.model is None else (f"--model={job.model}",)
        return Command(("scribe", *model, *job.args), stdin=job.prompt)

    def read(self, line: bytes) -> list[Event]:
        data = parse(line)
        if data is None:
            return strange(line)
        match data.get("step"):
            case "begin":
                return [Event(EventKind.SESSION, model=word(data.get("model")))]
            case "write":
                file = word(data.get("file"))
                called = Event(EventKind.TOOL_CALLED, text=file, tool="write")
                return [called, Event(EventKind.TOOL_ENDED, text=file, tool="write", ok=True)]
            case "end":
                used = fields(data.get("tokens"))
                usage = Usage(count(used.get("read")), count(used.get("written")))
                return [
                    Event(EventKind.USAGE, usage=usage),
                    Event(EventKind.RESULT, text=word(data.get("text")), ok=True),
                ]
            case step:
                return [other(word(step) or word(line.decode("utf-8", "replace")))]


_promise: type[Coder] = Scribe


def main() -> None:
    """The program: note how long the prompt is, and commit the note."""
    if "--version" in sys.argv:
        say("scribe 1.0")
        return
    model = next((word.partition("=")[2] for word in sys.argv if word.startswith("--model=")), None)
    say(json.dumps({"step": "begin", "model": model}))
    prompt, note = sys.stdin.read(), Path("SCRIBE.md")
    note.write_text(f"{os.environ['FLEET_TASK_ID']}: {len(prompt.splitlines())} lines\n")
    say(json.dumps({"step": "write", "file": note.name}))
    author = ("-c", "user.name=scribe", "-c", "user.email=scribe@example.invalid")
    subprocess.run(["git", "add", note.name], check=True)
    subprocess.run(["git", *author, "commit", "-q", "-m", "Note the task", "--", note.name], check=True)
    say(json.dumps({"step": "end", "text": "Noted.", "tokens": {"read": len(prompt) // 4, "written": 5}}))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

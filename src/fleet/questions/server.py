"""The MCP server that an agent CLI starts for itself, on stdin and stdout: one tool, which asks a person and waits.

It is written by hand rather than with an SDK, because one runs beside every agent: see docs/decisions/0014. It knows
nothing but a task's Q&A.md. When an answer stands below the question, whoever wrote it, the agent has it.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

if __name__ == "__main__":  # run by its file, without site packages: only fleet itself is to be found
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from contextlib import suppress
from pathlib import Path

from fleet import __version__
from fleet.core import FleetError
from fleet.questions import file
from fleet.questions.thread import Question, find

PROGRAM = Path(__file__)
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
NAME = "fleet_questions"
LOOK_EVERY = 0.5  # seconds; a look is one call of the kernel
PROGRESS_EVERY = 10.0
LONGEST, MOST_OPTIONS = 20_000, 20
LONGEST_LINE = 16 * 1024 * 1024
TOOL = {
    "name": "ask_human",
    "title": "Ask a person",
    "description": (
        "Ask the person who gave you this task, and wait for the answer. Ask only what you cannot find out yourself, "
        "and cannot go on without. Say in the prompt what you know already, and what depends on the answer."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "The question, whole: nobody sees what you said before."},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The answers to choose from, if there are some. Any other answer may be given too.",
            },
        },
        "required": ["prompt"],
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
NOBODY = (
    "Nobody has answered question {number} yet. It is kept. Bring PLAN_AND_STATUS.md and KNOWLEDGE.md up to date, then "
    "end: you will be taken up again with the answer."
)
Message = dict[str, object]


class Waiting:
    """An open call of the tool."""

    def __init__(self, call: object, token: object, question: Question, until: float) -> None:
        self.call, self.token, self.question, self.until = call, token, question, until
        self.seen: file.Mark | None = None
        self.told = 0.0


class Server:
    """Answers one agent. `after` is how many questions there were before its attempt."""

    def __init__(self, artifacts: Path, wait: float, after: int) -> None:
        self._artifacts, self._wait, self._after = artifacts, wait, after
        self._waiting: list[Waiting] = []

    def run(self) -> None:
        """Until the agent closes our input."""
        rest = b""
        while True:
            ready, _, _ = select.select([0], [], [], LOOK_EVERY if self._waiting else None)
            if ready:
                chunk = os.read(0, 65536)
                if not chunk or len(rest) > LONGEST_LINE:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._hear(line)
            for waiting in list(self._waiting):
                self._look(waiting)

    def _hear(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            heard = json.loads(line)
        except (ValueError, RecursionError):
            _say({"id": None, "error": {"code": -32700, "message": "this is not JSON"}})
            return
        for message in heard if isinstance(heard, list) else [heard]:
            if not isinstance(message, dict):
                _say({"id": None, "error": {"code": -32600, "message": "this is not a request"}})
            elif "method" in message:
                self._answer(message)

    def _answer(self, message: Message) -> None:
        given = message.get("params")
        params = given if isinstance(given, dict) else {}
        match message["method"], "id" in message:
            case "notifications/cancelled", _:
                self._waiting = [one for one in self._waiting if one.call != params.get("requestId")]
            case _, False:
                pass
            case "initialize", _:
                _say({"id": message["id"], "result": _introduction(params.get("protocolVersion"))})
            case "ping", _:
                _say({"id": message["id"], "result": {}})
            case "tools/list", _:
                _say({"id": message["id"], "result": {"tools": [TOOL]}})
            case "tools/call", _:
                self._call(message["id"], params)
            case method, _:
                _say({"id": message["id"], "error": {"code": -32601, "message": f"no such method: {method}"}})

    def _call(self, call: object, params: Message) -> None:
        if params.get("name") != TOOL["name"]:
            _say({"id": call, "error": {"code": -32602, "message": f"no such tool: {params.get('name')}"}})
            return
        given, meta = params.get("arguments"), params.get("_meta")
        arguments = given if isinstance(given, dict) else {}
        prompt, options = arguments.get("prompt"), arguments.get("options")
        if not isinstance(prompt, str) or not prompt.strip():
            _tell(call, "The prompt is missing: what do you want to know?", failed=True)
            return
        choice = [one for one in options if isinstance(one, str)] if isinstance(options, list) else []
        try:
            question = file.ask(self._artifacts, prompt[:LONGEST], choice[:MOST_OPTIONS], self._after)
        except (FleetError, OSError) as problem:
            _tell(call, f"The question could not be written down: {problem}", failed=True)
            return
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._waiting.append(Waiting(call, token, question, time.monotonic() + self._wait))

    def _look(self, waiting: Waiting) -> None:
        """See whether the answer is there; the file is read only when it changed."""
        now, seen = time.monotonic(), file.mark(self._artifacts)
        if seen != waiting.seen:
            waiting.seen = seen
            found = self._found(waiting.question)
            if found is not None and found.answer is not None:
                self._waiting.remove(waiting)
                _tell(waiting.call, found.answer)
                self._mark(found)
                return
        if now >= waiting.until:
            self._waiting.remove(waiting)
            _tell(waiting.call, NOBODY.format(number=waiting.question.number))
        elif waiting.token is not None and now - waiting.told >= PROGRESS_EVERY:
            waiting.told = now
            done = {"progressToken": waiting.token, "progress": round(now, 1), "message": "waits for an answer"}
            _say({"method": "notifications/progress", "params": done})

    def _found(self, question: Question) -> Question | None:
        try:
            return find(file.read(self._artifacts), question)
        except (FleetError, OSError):
            return None  # somebody is at it; they may put it right

    def _mark(self, question: Question) -> None:
        with suppress(FleetError, OSError):  # then the agent is told the answer once more
            file.mark_read(self._artifacts, question)


def _introduction(wanted: object) -> Message:
    version = wanted if wanted in VERSIONS else VERSIONS[0]
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": NAME, "version": __version__},
    }


def _tell(call: object, text: str, *, failed: bool = False) -> None:
    shown = text.encode("utf-8", "replace").decode()  # what a file holds may be no text
    _say({"id": call, "result": {"content": [{"type": "text", "text": shown}], "isError": failed}})


def _say(message: Message) -> None:
    left = json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"
    while left:
        left = left[os.write(1, left) :]


def main() -> None:
    artifacts, wait, after = sys.argv[1:4]
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the agent is gone
        Server(Path(artifacts), float(wait), int(after)).run()


if __name__ == "__main__":
    main()

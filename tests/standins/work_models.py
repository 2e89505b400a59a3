"""A scripted model that does a task's work, for any of the agent CLIs and in the words of that CLI's own tools.

It knows where and at which attempt from the prompt alone, as a real model would.
"""

from __future__ import annotations

import json
import re
import shlex
import threading

from standins.agent_models import GEMINI, Answer, Mind, results, turns
from standins.model_server import Asked, Call, Say

ASKS = {"/v1/messages": "claude", "/v1/responses": "codex", "/v1/chat/completions": "opencode"}
TOKENS = 1115  # of one request, as the scripted model says in each protocol
CLOSING = "It is made."
SECONDS = 90.0  # what no test waits for


def coder_of(asked: Asked) -> str:
    """Who asks, by the protocol; of the two that speak OpenAI's, by the tools that it offers."""
    if asked.path.startswith(GEMINI):
        return "gemini"
    return "qwen" if "run_shell_command" in asked.tools else ASKS[asked.path.partition("?")[0]]


def conversation(asked: Asked) -> str:
    return json.dumps(turns(asked), ensure_ascii=False)


def attempt_of(asked: Asked) -> str:
    """The attempt that the conversation is about now, such as t1.2."""
    return str(re.findall(r"attempt ([\w.-]+\.\d+)\b", conversation(asked))[-1])


def directory_of(asked: Asked) -> str:
    """Where the agent was told to work."""
    return str(re.findall(r'Working directory: ([^\s"\\]+)', conversation(asked))[0])


def write(coder: str, path: str, text: str) -> Call:
    match coder:
        case "claude":
            return Call("Write", {"file_path": path, "content": text})
        case "opencode":
            return Call("write", {"filePath": path, "content": text})
        case "gemini" | "qwen":
            return Call("write_file", {"file_path": path, "content": text})
        case _:  # Codex has no tool that only writes
            return shell(coder, f"printf %s {shlex.quote(text)} > {shlex.quote(path)}")


def shell(coder: str, command: str) -> Call:
    match coder:
        case "claude":
            return Call("Bash", {"command": command, "description": "as the task says"})
        case "opencode":
            return Call("bash", {"command": command, "description": "as the task says"})
        case "gemini" | "qwen":
            return Call("run_shell_command", {"command": command, "description": "as the task says"})
        case _:
            return Call("exec_command", {"cmd": command})


def works(asked: Asked) -> Answer:
    """Write a file named after the attempt, commit it, and say so."""
    if not asked.tools:
        return Say("a title")
    coder, attempt = coder_of(asked), attempt_of(asked)
    match results(asked):
        case 0:
            return write(coder, f"{directory_of(asked)}/made-{attempt}.txt", f"made by {coder}\n")
        case 1:
            return shell(coder, commit(f"made-{attempt}.txt", f"{attempt} by {coder}"))
        case _:
            return Say(CLOSING)


def commit(file: str, subject: str) -> str:
    """A command that commits one file, and waits for whoever commits in the same repository."""
    author = "-c user.name=scripted -c user.email=scripted@fleet.invalid -c commit.gpgSign=false"
    return f"flock .git sh -c 'git add {file} && git {author} commit -q -m \"{subject}\" -- {file}'"


class Gate:
    """Holds the model's answers back until the test has looked."""

    def __init__(self) -> None:
        self._waiting = threading.Semaphore(0)
        self._open = threading.Event()

    def before(self, mind: Mind, step: int = 0) -> Mind:
        """The same mind, which waits before the answer to so many tool results."""

        def held(asked: Asked) -> Answer:
            if asked.tools and results(asked) == step and not self._open.is_set():
                self._waiting.release()
                self._open.wait(SECONDS)
            return mind(asked)

        return held

    def wait(self, number: int = 1) -> None:
        """Until so many requests are held back."""
        for _ in range(number):
            assert self._waiting.acquire(timeout=SECONDS), "the agent has not asked the model"

    def open(self) -> None:
        self._open.set()

"""Agent CLIs that can be talked to, each at its desk and in a terminal, with a model that acts when it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.coders import Job, find, talker_of, teller
from standins.agent_desk import MODELS, MORE_MODELS, Desk, desk
from standins.agent_models import Answer, Mind, results, turns
from standins.model_server import Asked, Call, Say
from standins.terminal import Terminal, terminal

TOUCH = "touch made.txt"
ACT = "ACT NOW"
LANG = {"LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Manner:
    """How one CLI is made to ask before it acts, what its model then calls, and how a person leaves it."""

    flags: tuple[str, ...]
    call: Call
    leave: tuple[str, ...]


MANNERS = {
    "qwen": Manner(
        ("--approval-mode=default",),
        Call("run_shell_command", {"command": TOUCH, "description": "x", "is_background": False}),
        ("/quit", "Enter"),
    ),
    "opencode": Manner(("--print-logs=false",), Call("bash", {"command": TOUCH, "description": "x"}), ("C-c", "C-c")),
    "codex": Manner(
        ("--ask-for-approval=on-request", "--sandbox=read-only"),
        Call("exec_command", {"cmd": TOUCH, "sandbox_permissions": "require_escalated", "justification": "x"}),
        ("C-c", "C-c"),
    ),
    "claude": Manner(
        ("--permission-mode=default",), Call("Bash", {"command": TOUCH, "description": "x"}), ("C-d", "C-d")
    ),
}


def mind(call: Call) -> Mind:
    """A model that calls the tool when it is told to act, and says a word otherwise."""

    def answer(asked: Asked) -> Answer:
        if not asked.tools:
            return Say("a title")
        last = json.dumps(turns(asked)[-2:])
        return call if ACT in last and not results(asked) else Say("HERON")

    return answer


@contextmanager
def at_terminal(directory: Path, name: str, flags: tuple[str, ...] = ()) -> Iterator[tuple[Desk, Terminal]]:
    talker = talker_of(find(name, {}))
    with desk(directory, mind(MANNERS[name].call)) as where:
        (where.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
        (where.project / "secret.txt").write_text("TOP-SECRET\n")
        notes = directory / "attempt"
        command = talker.converse(
            Job("", where.project, (MODELS | MORE_MODELS)[name], args=flags), teller(notes / "signals.jsonl")
        )
        with terminal(notes, talker, command, where.project, where.environment() | LANG) as term:
            yield where, term

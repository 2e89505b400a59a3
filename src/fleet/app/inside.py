"""Inside an attempt: an agent that calls `fleet` cannot change the queue, and that it tried is noted down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fleet.core.errors import FleetError

# Commands that have nothing to do with the home, and those that only look at it. All others change something there.
APART = ("demo", "validate", "discover", "generate", "warmup", "status", "coders", "skills", "plugins")
LOOKING = (
    "tasks", "ready", "show", "task", "questions", "log", "list", "logs", "diff", "quota", "doctor", "cost", "verify",
)  # fmt: skip
HELP = {"-h", "--help"}
LARGEST = 64 * 1024
LONGEST = 500


def refuse(name: str | None, words: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse a command that an agent calls in the home of its attempt; in another that it names it may do anything."""
    if name is None or name in APART or HELP & set(words) or not _is_inside(env):
        return
    if name in LOOKING:
        raise FleetError("this is inside an attempt, from where the queue cannot be seen")
    _note(words, env)
    raise FleetError(
        "this is inside an attempt: an agent cannot change the queue, and this was noted down",
        hint="finish the work, say what you did, and end: fleet then checks the result itself",
    )


def _is_inside(env: Mapping[str, str]) -> bool:
    named = env.get("FLEET_HOME")
    task = env.get("FLEET_TASK_DIR")
    if "FLEET_ATTEMPT" not in env:
        return False
    return not named or not task or os.path.realpath(named) == os.path.realpath(os.path.join(task, "..", ".."))


def _note(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Say it to the supervisor, in the file that it made for this: nothing else of the home may be there."""
    number = env["FLEET_ATTEMPT"].rpartition(".")[2]
    path = os.path.join(env.get("FLEET_TASK_DIR", ""), "attempts", number, "refused.jsonl")
    line = {"at": time.time(), "command": ["fleet", *(word[:LONGEST] for word in words[:20])]}
    with suppress(OSError):  # nobody is told, and it is refused all the same
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(file, "ab") as notes:
            if os.fstat(file).st_size < LARGEST:
                notes.write(json.dumps(line).encode() + b"\n")

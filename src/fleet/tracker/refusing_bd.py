"""The `bd` that an agent finds first: it leaves the queue alone, and is bd itself for a project that has its own beads.

Run as: python -I -S refusing_bd.py <home> <the words for bd ...>

It is a program, not a module. What it refuses is noted down for the supervisor, which makes an event of it. Who calls
the real bd by its path goes round it: what keeps the queue safe is the fence, in which the home is not there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import pairwise

ELSEWHERE = ("BEADS_DIR", "BEADS_DB", "BD_DB")
READING = (
    "",
    "show",
    "list",
    "ready",
    "blocked",
    "search",
    "stats",
    "status",
    "count",
    "info",
    "help",
    "version",
    "prime",
)
LARGEST = 64 * 1024
LONGEST = 500
REFUSED = """\
bd: this is inside an attempt: an agent cannot change the queue, and this was noted down.
  A task is closed by fleet alone. Finish the work, say what you did and end: fleet then checks the result itself.
"""
UNSEEN = """\
bd: this is inside an attempt, from where the queue cannot be seen. Your task is what you were told, whole.
"""


def main(home: str, words: list[str]) -> int:
    if _has_its_own(home, words):
        _become(home, words)
    if next((word for word in words if not word.startswith("-")), "") in READING:
        sys.stderr.write(UNSEEN)
    else:
        _note(["bd", *words])
        sys.stderr.write(REFUSED)
    return 1


def _has_its_own(home: str, words: list[str]) -> bool:
    """Whether bd would work on something else than the home: something said to it, or a .beads here or above."""
    said = [os.environ[name] for name in ELSEWHERE if os.environ.get(name)]
    said += [after for word, after in pairwise(words) if word in ("--db", "-C", "--directory")]
    if said:
        return not any(_is_below(path, home) for path in said)
    here = os.path.realpath(os.getcwd())
    while not os.path.isdir(os.path.join(here, ".beads")):
        here, last = os.path.dirname(here), here
        if here == last:
            return False
    return here != os.path.realpath(home)


def _is_below(path: str, home: str) -> bool:
    path, home = os.path.realpath(path), os.path.realpath(home)
    return path == home or path == f"{home}/.beads" or path.startswith(f"{home}/.beads/")


def _become(home: str, words: list[str]) -> None:
    """Be the next bd on the PATH, if there is one."""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(directory, "bd")
        if not os.path.realpath(directory).startswith(os.path.realpath(home)) and os.access(program, os.X_OK):
            os.execv(program, ["bd", *words])  # noqa: S606 - no shell is the point
    sys.stderr.write("bd: not found\n")
    sys.exit(127)


def _note(command: list[str]) -> None:
    """Say it to the supervisor, in the file that it made for this."""
    number = os.environ.get("FLEET_ATTEMPT", "").rpartition(".")[2]
    path = os.path.join(os.environ.get("FLEET_TASK_DIR", ""), "attempts", number, "refused.jsonl")
    line = json.dumps({"at": time.time(), "command": [word[:LONGEST] for word in command[:20]]}).encode() + b"\n"
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        if os.fstat(file).st_size < LARGEST:
            os.write(file, line)
    except OSError:
        pass  # nobody is told, and it is refused all the same


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

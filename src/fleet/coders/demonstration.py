"""A coder that is scripted, and says so: a real program that does a small real edit, for trying out a fleet.

It needs no model, no key and no network. Its stream has the shape of Claude Code's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from fleet.coders import claude
from fleet.coders.base import Can, Coder, Command, Job, checked
from fleet.core.work import Event

PROGRAM = Path(__file__).parent / "scripted" / "agent.py"
CAN = Can(usage=True, cost=True, tools=True, words=True)


@dataclass(frozen=True, slots=True)
class Demonstration:
    name: str = "demonstration"
    context_limit: int | None = 200_000
    program: str = sys.executable
    can: Can = CAN
    unproven: str = ""

    def command(self, job: Job) -> Command:
        """A model is taken for granted: there is none."""
        job = checked(job)
        return Command((sys.executable, "-I", "-S", str(PROGRAM), *job.args), stdin=job.prompt)

    def read(self, line: bytes) -> list[Event]:
        return claude.read(line)


_promise: type[Coder] = Demonstration

"""What an agent's whole output shows: read once more from its beginning when it has ended, and hashed on the way."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from fleet.coders.stream import Reader
from fleet.core import FleetError
from fleet.core.proof import Heard, Program
from fleet.core.work import Attempt
from fleet.evidence.heard import Listening
from fleet.host import program
from fleet.supervisor.house import House
from fleet.supervisor.transcript import Transcript


def heard(house: House, attempt: Attempt) -> Heard:
    """What the attempt's transcript shows. Of one in a terminal there is none, only what was counted on the way."""
    if attempt.interactive:
        calls = sum(attempt.tools.values()) if attempt.tools else None
        return Heard(tools=dict(attempt.tools), calls=calls)
    told = Listening()
    if attempt.started is None:
        return replace(told.heard(tells_tools=False), sha256="")
    read, tells_tools = _reader(house, attempt)
    with Transcript(house.attempt_directory(attempt) / "stdout", hear=told.take) as source:
        before = b""
        for piece in source.lines(last=True):
            for line, _ in piece:
                if line and line != before:  # a flood of the same is no news
                    for event in read(line):
                        told.add(event)
                before = line
    return told.heard(tells_tools=tells_tools)


def _reader(house: House, attempt: Attempt) -> tuple[Reader, bool]:
    """How its lines are read, and whether they tell of every tool call."""
    try:
        coder = house.find_coder(attempt.coder, house.runtime)
    except FleetError:
        from fleet.coders.command import text

        return text, False
    return coder.read, coder.can.tools


def program_of(house: House, attempt: Attempt) -> Program:
    """What was started, with the version that it has told meanwhile."""
    known = attempt.program or Program()
    with suppress(FleetError):
        return program.with_version(house.home, known)
    return known

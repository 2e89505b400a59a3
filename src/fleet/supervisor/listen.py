"""What an agent's whole output shows: read once more from its beginning when it has ended, and hashed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fleet.coders.stream import Reader
from fleet.core import FleetError
from fleet.core.proof import Heard, Program
from fleet.core.work import Attempt
from fleet.evidence.heard import Listening
from fleet.host import files, program
from fleet.supervisor.house import House

PIECE = 256 * 1024
LONGEST = 8 * 1024 * 1024  # of a line; keepers cut them far shorter


def heard(house: House, attempt: Attempt) -> Heard:
    """What the attempt's transcript shows. Of one in a terminal there is none, only what was counted on the way."""
    if attempt.interactive:
        calls = sum(attempt.tools.values()) if attempt.tools else None
        return Heard(tools=dict(attempt.tools), calls=calls)
    told = Listening()
    if attempt.started is None:
        return replace(told.heard(tells_tools=False), sha256="")
    read, tells_tools = _reader(house, attempt)
    for line in _lines(house.attempt_directory(attempt) / "stdout", told):
        for event in read(line):
            told.add(event)
    return told.heard(tells_tools=tells_tools)


def _lines(path: Path, told: Listening) -> Iterator[bytes]:
    """Every line that is not the same as the one before it. A flood of the same is hashed, and is no news."""
    rest, before, last = b"", b"", b""
    for piece in files.pieces(path, PIECE):
        told.take(piece)
        if piece == before:
            continue
        before = piece
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line and line != last:
                yield line
            last = line
        rest = rest if len(rest) <= LONGEST else b""
    if rest:
        yield rest


def _reader(house: House, attempt: Attempt) -> tuple[Reader, bool]:
    """How its lines are read, and whether they tell of every tool call."""
    try:
        coder = house.find_coder(attempt.coder, house.runtime)
    except FleetError:
        from fleet.coders.command import text

        return text, False
    return coder.read, coder.can.tools or (coder.can.some_tools and house.ledger.tells_tools(attempt.coder))


def program_of(house: House, attempt: Attempt) -> Program:
    """What was started, with the version that it has told meanwhile."""
    known = attempt.program or Program()
    with suppress(FleetError):
        return program.with_version(house.home, known)
    return known

"""Coders that other packages bring: an entry point in the group `fleet.coders`, whose object makes a coder.

A stranger's code runs inside the supervisor here. Whatever it raises or returns becomes an error that is told or an
event that is kept; it ends nobody's work but its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.coders.base import Can, Coder, Command, Job, Talker, talker_of
from fleet.coders.misfit import flaw, flaw_of_signal, misfit, misfit_command
from fleet.coders.stream import other, short
from fleet.config.runtime_schema import CODER_NAME
from fleet.core.errors import BadConfig, FleetError
from fleet.core.talk import Signal
from fleet.core.text import clean
from fleet.core.work import Event
from fleet.host import plugins

Foreign = (Exception, SystemExit)  # what a stranger's code may raise; a person's Ctrl-C is not its own


def load(offer: plugins.Offer) -> Coder:
    """The coder as its package made it; BadConfig when it cannot be made."""
    try:
        make = offer.load()
        coder: Coder = make() if callable(make) else make  # type: ignore[assignment]
        wrong = misfit(coder) or ("" if CODER_NAME.match(offer.name) else f"its name must match {CODER_NAME.pattern}")
    except Foreign as problem:
        raise _broken(offer, f"{type(problem).__name__}: {problem}") from None
    if wrong:
        raise _broken(offer, wrong)
    return coder


def guarded(offer: plugins.Offer) -> Coder:
    """The coder as the supervisor uses it."""
    coder = load(offer)
    facts = (offer.name, coder.context_limit, coder.program, coder.can, coder.unproven, coder.command, coder.read)
    return Guest(*facts, talker_of(coder) if coder.can.talk else None)


@dataclass(frozen=True, slots=True)
class Guest:
    """A stranger's coder under the name it is installed by. Its facts were read once, and are what they should be."""

    name: str
    context_limit: int | None
    program: str
    can: Can
    unproven: str
    _command: Callable[[Job], Command]
    _read: Callable[[bytes], list[Event]]
    _talker: Talker | None = None

    @property
    def tells(self) -> bool:
        return self._talker is not None and self._talker.tells

    def command(self, job: Job) -> Command:
        return self._made(lambda: self._command(job))

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        return self._made(lambda: talker_of(self._talker or self).converse(job, tell))

    def pasted(self, prompt: str) -> str:
        try:
            pasted = talker_of(self._talker or self).pasted(prompt)
        except Foreign:
            return prompt
        return pasted if isinstance(pasted, str) else prompt

    def signals(self, line: bytes) -> list[Signal]:
        try:
            heard = talker_of(self._talker or self).signals(line)
            return [signal for signal in heard if not flaw_of_signal(signal)]
        except Foreign:
            return []

    def recall(self, line: bytes) -> list[Event]:
        try:
            return [self._kept(event) for event in talker_of(self._talker or self).recall(line)]
        except Foreign:
            return []

    def _made(self, make: Callable[[], Command]) -> Command:
        try:
            made = make()
            wrong = misfit_command(made)
        except FleetError:
            raise
        except Foreign as problem:
            wrong = f"{type(problem).__name__}: {problem}"
        if wrong:
            raise BadConfig(
                f"the coder {self.name} made no command: {clean(wrong, 300)}", hint=f"fleet coders check {self.name}"
            )
        return made

    def read(self, line: bytes) -> list[Event]:
        try:
            return [self._kept(event) for event in self._read(line)]
        except Foreign as problem:
            return [other(short(f"the coder {self.name} could not read a line: {type(problem).__name__}: {problem}"))]

    def _kept(self, event: Event) -> Event:
        wrong = flaw(event)
        return other(short(f"the coder {self.name} gave no event: {wrong}")) if wrong else event


def _broken(offer: plugins.Offer, why: str) -> BadConfig:
    return BadConfig(
        f"the coder {clean(offer.name)} of the package {clean(offer.package)} cannot be used: {clean(why, 300)}",
        hint="mend or uninstall that package",
    )


_promise: type[Talker] = Guest

"""What an agent in a terminal tells of itself: signals, and what follows from them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from enum import StrEnum

from fleet.core.frozen import dataclass


class SignalKind(StrEnum):
    """What an agent's own hook, or its own record, said happened."""

    READY = "ready"  # it stands at its prompt for the first time
    TAKEN = "taken"  # it was given this text
    ACTED = "acted"  # a sign of life in the middle of a turn: a tool was called, or came back
    ASKS = "asks"  # it waits for a person's leave, or for an answer, in its terminal
    RESTED = "rested"  # its turn is over
    LEFT = "left"  # its session is over
    LOGGED_OUT = "logged_out"  # its provider did not let it in: it is not logged in


@dataclass(frozen=True, slots=True)
class Signal:
    kind: SignalKind
    at: float
    text: str | None = None
    session: str | None = None
    transcript: str | None = None  # the file in which the agent keeps what was said


class Mood(StrEnum):
    """What an agent in a terminal does, as far as it tells."""

    STARTING = "starting"
    WORKING = "working"
    WAITING = "waiting"  # at its prompt
    ASKING = "asking"
    LOGGED_OUT = "not logged in"
    UNKNOWN = "unknown"  # it tells nothing of itself


@dataclass(frozen=True, slots=True)
class Felt:
    mood: Mood
    since: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whether a prompt was taken. None: it left the input line of an agent at work, which takes it later."""

    taken: bool | None
    cause: str
    picture: str = ""  # of its screen, when it was not
    logged_out: bool = False  # because its agent is not logged in


MOODS = {
    SignalKind.READY: (Mood.WAITING, "at its prompt"),
    SignalKind.TAKEN: (Mood.WORKING, ""),
    SignalKind.ACTED: (Mood.WORKING, ""),
    SignalKind.ASKS: (Mood.ASKING, "waits for your leave"),
    SignalKind.RESTED: (Mood.WAITING, "its turn is over"),
    SignalKind.LEFT: (Mood.UNKNOWN, "its session is over"),
    SignalKind.LOGGED_OUT: (Mood.LOGGED_OUT, "its provider did not let it in"),
}


def feel(signals: Sequence[Signal], *, tells: bool = True) -> Felt:
    """What an agent does now: what the last signal says. `tells`: it is one of those who give signals at all.

    Who asks goes on asking while other work of the same turn comes back: only what it asked for is an answer.
    """
    if not signals:
        return Felt(Mood.STARTING, None, "it has not come to its prompt yet") if tells else Felt(Mood.UNKNOWN, None, "")
    last = _asked(signals) or signals[-1]
    mood, why = MOODS[last.kind]
    return Felt(mood, last.at, last.text or why if mood in (Mood.ASKING, Mood.LOGGED_OUT) else why)


def _asked(signals: Sequence[Signal]) -> Signal | None:
    """What is still asked: a signal after which nothing happened but other acts of the same turn."""
    done: set[str | None] = set()
    for signal in reversed(signals):
        match signal.kind:
            case SignalKind.ACTED:
                done.add(signal.text)
            case SignalKind.ASKS if signal.text is not None and signal.text not in done:
                return signal
            case SignalKind.ASKS if done:
                continue
            case _:
                return None
    return None


TAB = " " * 4
LONGEST_PROMPT = 200_000  # characters; of a longer one an agent's hook tells the beginning, which is no proof


def took(given: str, told: str | None) -> bool:
    """Whether what an agent says it was given is what was pasted: but for tabs, line ends, and blanks around it.

    Terminal programs write a tab as blanks and an end of line as they like, and Claude Code writes a letter with its
    accent as one character; they leave everything else as it is.
    """
    return told is not None and bare(given) == bare(told)


def bare(text: str) -> str:
    """A text without what agents write in another way."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", TAB).strip()
    return unicodedata.normalize("NFC", lines)

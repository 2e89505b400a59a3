"""A prompt is given to an agent in a terminal, and seen to be taken; or it is said that it was not, and what was seen.

Nothing is typed into a question: not while the agent tells that it asks, nor before it has come to its prompt.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.core.talk import Delivery, Felt, Mood, Signal, SignalKind, feel
from fleet.host import locks
from fleet.sessions.server import Screen, Server

FORBIDDEN = frozenset({Mood.ASKING, Mood.STARTING})
LOCK = "prompt.lock"
PAUSE = 0.02
GLANCE = 0.1  # between two looks at the screen, each of which costs a call
STEADY = 0.5  # a screen that stays the same for so long is waited for no longer
SHOWN_WITHIN = 10.0
SETTLED_WITHIN = 0.6
ENTERS, ENTER_PAUSE = 4, 1.5

Hear = Callable[[], Sequence[Signal]]


@dataclass(frozen=True, slots=True)
class Terminal:
    """One attempt's terminal, and what its agent tells."""

    server: Server
    pane: str
    hear: Hear
    tells: bool
    forbidden: frozenset[Mood]

    def screen(self) -> Screen | None:
        return self.server.screen(self.pane)

    def felt(self) -> Felt:
        return feel(self.hear(), tells=self.tells)

    def not_taken(self, cause: str) -> Delivery:
        screen = self.screen()
        return Delivery(False, cause, screen.picture if screen is not None else "")


def deliver(
    server: Server,
    attempt: str,
    text: str,
    hear: Hear,
    *,
    directory: Path,
    tells: bool,
    ready_within: float = 60.0,
    taken_within: float = 20.0,
    forbidden: frozenset[Mood] = FORBIDDEN,
) -> Delivery:
    """Paste a prompt, press Enter and see it taken. One at a time for each attempt, whose directory this is."""
    problem = unfit(text)
    if problem is not None:
        return Delivery(False, problem)
    lock = locks.take(directory / LOCK, ready_within + taken_within)
    if lock is None:
        return Delivery(False, "another prompt is being given to it")
    try:
        pane = server.pane(attempt)
        if pane is None:
            return Delivery(False, "it has no terminal")
        terminal = Terminal(server, pane, hear, tells, forbidden)
        return _unready(terminal, ready_within) or _give(terminal, plain(text), taken_within)
    finally:
        locks.release(lock)


def unfit(text: str) -> str | None:
    """Why a text cannot be pasted as it is. An escape sequence in it could end the paste, and type the rest."""
    if not text.strip():
        return "the prompt is empty"
    for number, character in enumerate(plain(text)):
        if character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cs"}:
            return f"the prompt has a control character, U+{ord(character):04X}, as its character {number + 1}"
    return None


def plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def is_same(sent: str, told: str) -> bool:
    """Whether an agent took what was sent.

    Agents cut blanks from both ends; some write line ends or tabs in another way. All else must be equal.
    """
    return _bare(sent) == _bare(told)


def _bare(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return lines.replace("\t", "    ")


def _until(within: float, pause: float = PAUSE) -> Iterator[float]:
    """Ever again until the time is over, and once more after it: the time that has passed."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < within:
        yield passed
        time.sleep(pause)
    yield passed


def _unready(terminal: Terminal, within: float) -> Delivery | None:
    """Wait until it can be given a prompt; why not, when it cannot."""
    return _unready_by_signals(terminal, within) if terminal.tells else _unready_by_screen(terminal, within)


def _unready_by_signals(terminal: Terminal, within: float) -> Delivery | None:
    looked = -GLANCE
    felt = terminal.felt()
    for passed in _until(within):
        felt = terminal.felt()
        if felt.mood not in terminal.forbidden:
            return None
        if felt.mood is Mood.ASKING:
            return terminal.not_taken(f"it asks, and a prompt would be the answer: {felt.why}")
        if passed - looked >= GLANCE:
            looked = passed
            screen = terminal.screen()
            if screen is None or screen.dead:
                return terminal.not_taken("it has ended")
    return terminal.not_taken(f"{felt.why}, in {within:.0f} s")


def _unready_by_screen(terminal: Terminal, within: float) -> Delivery | None:
    last, since = terminal.screen(), 0.0
    for passed in _until(within, GLANCE):
        screen = terminal.screen()
        if screen is None or screen.dead:
            return terminal.not_taken("it has ended")
        if screen != last:
            last, since = screen, passed
        elif screen.raw and screen.picture and passed - since >= STEADY:
            return None
    return terminal.not_taken(f"nothing read its terminal, or its screen never came to rest, in {within:.0f} s")


def _give(terminal: Terminal, text: str, within: float) -> Delivery:
    heard = len(terminal.hear())
    before = terminal.screen()
    if before is None or before.dead or not terminal.server.paste(terminal.pane, text):
        return terminal.not_taken("it has ended")
    pasted = _shown(terminal, before)
    if pasted is None:
        return terminal.not_taken("its screen did not change when the prompt was pasted")
    return _submit(terminal, _Paste(text, heard, before, pasted), within)


def _shown(terminal: Terminal, before: Screen) -> Screen | None:
    """The screen after a paste, once it has changed and come to rest, or was waited for long enough."""
    last: Screen | None = None
    changed = 0.0
    for passed in _until(SHOWN_WITHIN, PAUSE):
        screen = terminal.screen()
        if screen is None or screen.dead:
            return None
        if last is None and screen != before:
            last, changed = screen, passed
        elif last is not None:
            if screen == last or passed - changed > SETTLED_WITHIN:
                return screen
            last = screen
    return last


@dataclass(frozen=True, slots=True)
class _Paste:
    """What was pasted, and what was known before and after it."""

    text: str
    heard: int
    before: Screen
    screen: Screen


def _submit(terminal: Terminal, paste: _Paste, within: float) -> Delivery:
    """Press Enter until the prompt has left the input line, and a few times at most."""
    enters, pressed, left = 0, 0.0, False
    for passed in _until(within):
        felt = terminal.felt()
        said = taken(terminal.hear()[paste.heard :], paste.text)
        if said is not None:
            return said
        if felt.mood in terminal.forbidden and not left:
            return terminal.not_taken(f"it began to ask while the prompt was pasted: {felt.why}")
        if enters and passed - pressed < GLANCE:
            continue
        screen = terminal.screen()
        if screen is None or screen.dead:
            return terminal.not_taken("it ended before it took the prompt")
        left = enters > 0 and has_left(paste.before, paste.screen, screen)
        if left and not terminal.tells:
            return Delivery(True, "the prompt left its input line")
        if not left and enters < ENTERS and (not enters or passed - pressed >= ENTER_PAUSE):
            terminal.server.enter(terminal.pane)
            enters, pressed = enters + 1, passed
    return _unconfirmed(terminal, left=left, within=within)


def _unconfirmed(terminal: Terminal, *, left: bool, within: float) -> Delivery:
    if left and terminal.felt().mood is Mood.WORKING:
        return Delivery(None, "it is at work: the prompt left its input line, and it takes it when its turn is over")
    if left:
        return terminal.not_taken(
            f"the prompt left its input line, and it did not say in {within:.0f} s that it took it"
        )
    return terminal.not_taken(f"not taken in {within:.0f} s: the prompt stands in its input line")


def taken(signals: Sequence[Signal], text: str) -> Delivery | None:
    """What the signals since the paste say of it. What stood in the input line before was sent with it."""
    for signal in signals:
        if signal.kind is SignalKind.TAKEN and signal.text is not None:
            if is_same(text, signal.text):
                return Delivery(True, "it said that it took the prompt")
            if _bare(text) in _bare(signal.text):
                return Delivery(
                    True, "it said that it took the prompt, together with more that stood in its input line"
                )
    return None


def has_left(before: Screen, pasted: Screen, now: Screen) -> bool:
    """Whether what was pasted stands no longer where it was typed.

    Where there is a cursor it marks the input line. A program without one shows the paste in the last line it changed:
    as long as nothing is different from there on downwards, it stands there.
    """
    if pasted.cursor and now.cursor:
        typed = _line(pasted, pasted.row)[: pasted.column].strip()
        if typed and typed != _line(before, before.row)[: before.column].strip():
            return typed not in _line(now, now.row)
    changed = [row for row, line in enumerate(pasted.lines) if line != _line(before, row)]
    return not changed or now.lines[changed[-1] :] != pasted.lines[changed[-1] :]


def _line(screen: Screen, row: int) -> str:
    return screen.lines[row] if row < len(screen.lines) else ""

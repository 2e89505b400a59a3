"""A prompt is given to an agent in a terminal, and seen to be taken; or it is said that it was not, and what was seen.

Nothing is typed into a question: not while the agent tells that it asks, nor before it has come to its prompt.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fleet.core.frozen import dataclass
from fleet.core.talk import LONGEST_PROMPT, Delivery, Felt, Mood, Signal, SignalKind, bare, feel, took
from fleet.core.text import clean
from fleet.host import locks
from fleet.host.vitals import vitals
from fleet.sessions.server import Screen, Server

FORBIDDEN = frozenset({Mood.ASKING, Mood.STARTING})
LOCK = "prompt.lock"
PAUSE = 0.02
GLANCE = 0.1  # between two looks at the screen, each of which costs a call
DEATH_GLANCE = 0.5  # of one that will tell when it is ready
STEADY = 0.5  # a screen that stays the same for so long is waited for no longer
SHOWN_WITHIN = 10.0
SHOWN_AT_ALL = 3.0  # then a change anywhere will do, for those whose cursor is not where they type
SETTLED_WITHIN = 0.6
CALM, CALM_WITHIN = 0.15, 15.0  # of an input line: agents say that they are ready while they still draw it
QUEUED = 4.0  # one at work that has not said by then that it took a prompt will say so when its turn is over
LOGIN_WITHIN = 5.0  # in which one without a login says so, after its first prompt
ENTERS, ENTER_PAUSE = 5, 1.0
TAIL = 20
LEAST_PROOF = 4  # characters
MAX_LINE_BYTES = 4095  # of a terminal that reads lines: the kernel drops what is more
MEANS_MORE = re.compile(r"(?:\\|(?:^|\s)[@/$#]\S*)\Z")

Hear = Callable[[], Sequence[Signal]]


@dataclass(frozen=True, slots=True)
class Terminal:
    """One attempt's terminal, and what its agent tells."""

    server: Server
    pane: str
    hear: Hear
    tells: bool
    keeper: int | None = None
    login_screen: str = ""  # what it shows instead of a prompt to who is not logged in

    def screen(self) -> Screen | None:
        return self.server.screen(self.pane)

    def waits_for_line(self) -> bool:
        """Whether one of its processes sits in a read of the terminal, as a shell's `read` or a REPL does."""
        found = vitals([self.keeper]).get(self.keeper) if self.keeper is not None else None
        return found is not None and found.reader is not None

    def felt(self) -> Felt:
        return feel(self.hear(), tells=self.tells)

    def not_taken(self, cause: str, *, logged_out: bool = False) -> Delivery:
        screen = self.screen()
        return Delivery(False, cause, screen.picture if screen is not None else "", logged_out)

    def asks_for_login(self, screen: Screen) -> bool:
        return bool(self.login_screen) and self.login_screen in screen.picture


def deliver(
    server: Server,
    attempt: str,
    text: str,
    hear: Hear,
    *,
    directory: Path,
    tells: bool,
    login_screen: str = "",
    is_doubtful: bool = False,
    ready_within: float = 60.0,
    taken_within: float = 20.0,
) -> Delivery:
    """Paste a prompt, press Enter and see it taken. One at a time for each attempt, whose directory this is.

    `is_doubtful`: no login of its agent is known, so what becomes of the prompt is waited for a little longer.
    """
    problem = unfit(text)
    if problem is not None:
        return Delivery(False, problem)
    lock = locks.take(directory / LOCK, ready_within + taken_within)
    if lock is None:
        return Delivery(False, "another prompt is being given to it")
    try:
        session = server.find(attempt)
        if session is None or session.pane is None:
            return Delivery(False, "it has no terminal")
        terminal = Terminal(server, session.pane, hear, tells, session.pid, login_screen)
        given = _unready(terminal, ready_within) or _give(terminal, plain(text), taken_within)
        return _let_in(terminal, given) if is_doubtful and tells and given.taken else given
    finally:
        locks.release(lock)


def unfit(text: str) -> str | None:
    """Why a text cannot be pasted as it is. An escape sequence in it could end the paste, and type the rest."""
    if not text.strip():
        return "the prompt is empty"
    if len(bare(text)) > LONGEST_PROMPT:
        most = f"only up to {LONGEST_PROMPT} can be seen to be taken"
        return f"the prompt has {len(text)} characters, and {most}: put it in a file, and name that"
    for number, character in enumerate(plain(text)):
        if character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cs"}:
            return f"the prompt has a control character, U+{ord(character):04X}, as its character {number + 1}"
    return None


def unfit_for_line(text: str) -> str | None:
    """Why a text cannot be given to a program that reads lines: each would be an input of its own, or be cut short."""
    lines = text.rstrip("\n").count("\n") + 1
    if lines > 1:
        return f"it reads one line at a time, and the prompt has {lines}: put it in a file, and name that"
    if len(text.encode()) > MAX_LINE_BYTES:
        return (
            f"it reads lines of up to {MAX_LINE_BYTES} bytes, and the prompt is longer: put it in a file, and name that"
        )
    return None


def plain(text: str) -> str:
    """The text as it is pasted.

    In front of Enter a backslash would mean another line, and a name of something (`@file`, `/command`) would be
    completed to another one; a blank behind them does no harm.
    """
    text = text.replace("\r\n", "\n")
    return f"{text} " if MEANS_MORE.search(text) else text


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


def _let_in(terminal: Terminal, given: Delivery) -> Delivery:
    """Wait until an agent that took a prompt tells more: that it is not logged in, or anything else."""
    told = len(terminal.hear())
    for _ in _until(LOGIN_WITHIN):
        felt = terminal.felt()
        if felt.mood is Mood.LOGGED_OUT:
            return terminal.not_taken(felt.why, logged_out=True)
        if felt.mood is not Mood.WORKING or len(terminal.hear()) > told:
            break
    return given


def _unready_by_signals(terminal: Terminal, within: float) -> Delivery | None:
    looked, felt = 0.0, terminal.felt()
    for passed in _until(within):
        felt = terminal.felt()
        if felt.mood not in FORBIDDEN:
            return None
        if felt.mood is Mood.ASKING:
            return terminal.not_taken(f"it asks, and a prompt would be the answer: {felt.why}")
        if passed - looked >= DEATH_GLANCE:
            looked = passed
            screen = terminal.screen()
            if screen is None or screen.dead:
                return terminal.not_taken("it has ended")
            if terminal.asks_for_login(screen):
                return terminal.not_taken("it asks for a login", logged_out=True)
    return terminal.not_taken(f"{felt.why}, in {within:.0f} s")


def _unready_by_screen(terminal: Terminal, within: float) -> Delivery | None:
    last, since = terminal.screen(), 0.0
    for passed in _until(within, GLANCE):
        screen = terminal.screen()
        if screen is None or screen.dead:
            return terminal.not_taken("it has ended")
        if screen != last:
            last, since = screen, passed
        elif passed - since >= STEADY and ((screen.raw and screen.picture) or terminal.waits_for_line()):
            return None
    return terminal.not_taken(f"the agent did not show an input prompt within {within:.0f} s")


def _give(terminal: Terminal, text: str, within: float) -> Delivery:
    signals = terminal.hear()
    before = _calm(terminal)
    if before is not None and not before.raw and (problem := unfit_for_line(text)):
        return terminal.not_taken(problem)
    if before is None or before.dead or not terminal.server.paste(terminal.pane, text):
        return terminal.not_taken("it has ended")
    pasted = _shown(terminal, text, before)
    if pasted is None:
        return terminal.not_taken("its screen did not change when the prompt was pasted")
    return _submit(terminal, _Paste(text, len(signals), feel(signals).mood is Mood.WORKING, before, pasted), within)


def _calm(terminal: Terminal) -> Screen | None:
    """The screen before a paste, once its input line has come to rest, or was waited for long enough."""
    last, since = None, 0.0
    for passed in _until(CALM_WITHIN, CALM / 2):
        screen = terminal.screen()
        if screen is None or screen.dead:
            return screen
        moved = last is None or typed(screen) != typed(last) or screen.row != last.row
        if moved or not ((screen.raw and screen.picture) or terminal.waits_for_line()):
            since = passed
        last = screen
        if passed - since >= CALM:
            break
    return last


def _shown(terminal: Terminal, text: str, before: Screen) -> Screen | None:
    """The screen after a paste, once the input line has changed and come to rest, or was waited for long enough."""
    last, changed = before, 0.0
    for passed in _until(SHOWN_WITHIN):
        screen = terminal.screen()
        if screen is None or screen.dead:
            return None
        if last is before and (is_shown(text, before, screen) or (passed > SHOWN_AT_ALL and screen != before)):
            last, changed = screen, passed
        elif last is not before:
            if screen == last or passed - changed > SETTLED_WITHIN:
                return screen
            last = screen
    return None if last is before else last


@dataclass(frozen=True, slots=True)
class _Paste:
    """What was pasted, and what was known before and after it."""

    text: str
    heard: int
    at_work: bool
    before: Screen
    screen: Screen


def _submit(terminal: Terminal, paste: _Paste, within: float) -> Delivery:
    """Press Enter until the prompt has left the input line, and a few times at most."""
    enters, pressed, pause, looked, left = 0, -ENTER_PAUSE, ENTER_PAUSE, -GLANCE, False
    since: Sequence[Signal] = ()
    for passed in _until(within):
        signals = terminal.hear()
        since = signals[paste.heard :]
        settled = taken(since, paste.text) or (None if left else _asks(terminal, signals))
        if settled is not None:
            return settled
        if passed - looked < GLANCE:
            continue
        looked = passed
        screen = terminal.screen()
        if screen is None or screen.dead:
            return terminal.not_taken("it ended before it took the prompt")
        by_line = not paste.before.raw  # Enter hands over the line, whatever stands there afterwards
        left = enters > 0 and (by_line or has_left(paste.text, paste.before, paste.screen, screen))
        if left and not terminal.tells:
            return Delivery(True, "the prompt left its input line")
        if left and paste.at_work and passed - pressed >= QUEUED:
            break
        if not left and enters < ENTERS and passed - pressed >= pause:
            terminal.server.enter(terminal.pane)
            enters, pressed, pause = enters + 1, passed, 1.5 * pause
    return _unconfirmed(terminal, paste, since, left=left, within=within)


def _asks(terminal: Terminal, signals: Sequence[Signal]) -> Delivery | None:
    felt = feel(signals, tells=terminal.tells)
    if felt.mood is not Mood.ASKING:
        return None
    return terminal.not_taken(f"it began to ask while the prompt was pasted: {felt.why}")


def _unconfirmed(terminal: Terminal, paste: _Paste, since: Sequence[Signal], *, left: bool, within: float) -> Delivery:
    other = next((one.text for one in since if one.kind is SignalKind.TAKEN and one.text), None)
    if other is not None:
        return terminal.not_taken(f"it took another text: {clean(other)}")
    if left and paste.at_work:
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
            if took(text, signal.text):
                return Delivery(True, "it said that it took the prompt")
            if _ends_with(bare(signal.text), bare(text)):
                return Delivery(
                    True, "it said that it took the prompt, together with more that stood in its input line"
                )
    return None


def _ends_with(told: str, words: str) -> bool:
    """Whether a text has these as its last words. A few letters are no proof: a person may have sent them."""
    return len(words) >= LEAST_PROOF and told.endswith(words) and not told[: -len(words)][-1:].isalnum()


def has_left(text: str, before: Screen, pasted: Screen, now: Screen) -> bool:
    """Whether what was pasted stands no longer where it was typed.

    A cursor that moved with the paste marks the input line, even a hidden one; when Enter only made another line below
    it, the paste stands there still. Without such a cursor it stands in the last line that changed, as long as nothing
    is different from there on downwards.
    """
    marks = [mark for mark in (_tail(text), typed(pasted)) if len(mark) > 2 and mark not in _line(before, before.row)]
    below = typed(before) != typed(now) == ""  # the cursor, on a line without the sign that an empty input line has
    if any(mark in _line(now, now.row - below) for mark in marks):
        return False
    if typed(pasted) != typed(before):
        return typed(pasted) != typed(now)
    changed = [row for row, line in enumerate(pasted.lines) if line != _line(before, row)]
    return not changed or now.lines[changed[-1] :] != pasted.lines[changed[-1] :]


def is_shown(text: str, before: Screen, now: Screen) -> bool:
    """Whether a paste has arrived: the input line changed, or the end of the text is seen that was not seen before."""
    return typed(now) != typed(before) or (_tail(text) in now.picture and _tail(text) not in before.picture)


def _tail(text: str) -> str:
    return text.rstrip().rpartition("\n")[2][-TAIL:].strip()


def typed(screen: Screen) -> str:
    """What stands before the cursor."""
    return _line(screen, screen.row)[: screen.column].strip()


def _line(screen: Screen, row: int) -> str:
    return screen.lines[row] if 0 <= row < len(screen.lines) else ""

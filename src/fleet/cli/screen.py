"""The terminal as a screen to draw on, for as long as it is ours: in the background of a shell nothing is drawn."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

import click

ENTER_SCREEN, LEAVE_SCREEN, CLEAR_SCREEN = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[J"
BACKGROUND_NOTE = "in the background nothing is drawn; fg brings it to the front"


def can_draw(stream: TextIO) -> bool:
    """Whether the stream is a terminal, and not one that its shell has given to another job."""
    if not stream.isatty():
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:  # no shell controls us from there
        return True


class Screen:
    """A screen of its own that is drawn again and again, leaving what was on the terminal as it was.

    Nothing is drawn while it is not wanted, piped, or in the background of a shell, which is said once.
    """

    def __init__(self, wanted: bool, hint: str = "Ctrl-C ends", background_note: str = BACKGROUND_NOTE) -> None:
        self._wanted = wanted and sys.stdout.isatty()
        self._hint = hint
        self._background_note = background_note
        self._lock = threading.Lock()
        self._is_entered = False
        self._stops_after_drawing = False

    def __enter__(self) -> Screen:
        is_main = threading.current_thread() is threading.main_thread()
        if self._wanted and is_main and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._wanted = False
            self._leave()

    def draw(self, show: Callable[[], None]) -> None:
        """Draw it anew, when the terminal is ours; `show` prints what is on it."""
        with self._lock:
            if self._wanted and can_draw(sys.stdout):
                start = CLEAR_SCREEN if self._is_entered else ENTER_SCREEN + CLEAR_SCREEN
                self._is_entered = True  # before it is: an interrupt may come in between
                click.echo(start, nl=False)
                click.echo(f"{datetime.now():%H:%M:%S}  {self._hint}")
                show()
            elif self._wanted:
                self._leave()
                self._say_why()
        if self._stops_after_drawing:
            self._stops_after_drawing = False
            os.kill(os.getpid(), signal.SIGTSTP)

    def _say_why(self) -> None:
        note, self._background_note = self._background_note, ""
        if note:
            click.echo(note, err=True)

    def _leave(self) -> None:
        if self._is_entered:
            click.echo(LEAVE_SCREEN, nl=False)
        self._is_entered = False

    def _stop(self, number: int, frame: object) -> None:
        """Ctrl-Z: give the terminal back before we stand still. What is being drawn is finished first."""
        if not self._lock.acquire(blocking=False):
            self._stops_after_drawing = True
            return
        try:
            self._leave()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # returns when a shell lets us go on
            signal.signal(number, self._stop)
        finally:
            self._lock.release()

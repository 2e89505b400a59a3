"""The terminal that an agent was given."""

from __future__ import annotations

import os
import time

from fleet.keeper.program.kernel import signal
from fleet.keeper.program.record import write_all

LAST_LOOK = 0.05
# Of a program that was cut off: no more pastes in brackets, no mouse, a cursor, plain text.
CALM = b"\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?25h\x1b[0m"


class Terminal:
    """The terminal that we were started in: the agent has it while it runs, and it is left as it was found."""

    def __init__(self) -> None:
        import termios  # only here: most keepers have no terminal

        self._set = termios.tcsetattr
        self._now, self._error, self._onward = termios.TCSANOW, termios.error, (termios.tcflow, termios.TCOON)
        self.fd = os.dup(0)
        self._found = termios.tcgetattr(self.fd)

    def stand_back(self) -> None:
        """What we say is for the attempt's directory; the terminal is the agent's."""
        nothing = os.open(os.devnull, os.O_RDWR)
        ours = os.open("keeper.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number, fd in enumerate((nothing, nothing, ours)):
            os.dup2(fd, number, inheritable=False)

    def streams(self) -> list[int]:
        return [os.dup(self.fd) for _ in range(3)]

    def environment(self) -> dict[bytes, bytes]:
        """What tells a program how to draw here. That it is tmux who draws is not its business."""
        return {name: os.environb[name] for name in (b"TERM", b"COLORTERM") if name in os.environb}

    def give(self, group: int) -> None:
        """Let a process group read keys; SIGTTOU must be ignored."""
        os.tcsetpgrp(self.fd, group)

    def go_on(self, pid: int) -> None:
        """Continue an agent that was stopped by a key, or by itself: there is no shell here that could."""
        try:
            self.give(pid)
            os.killpg(pid, signal.SIGCONT)
        except OSError:
            pass

    def take_back(self, words: str) -> None:
        """Say how it ended, on a terminal as sane as it was; it may be gone, or full."""
        try:
            self.give(os.getpgrp())
            self._set(self.fd, self._now, self._found)
            flow, onward = self._onward
            flow(self.fd, onward)
            os.set_blocking(self.fd, False)
            write_all(self.fd, CALM + b"\r\n\x1b[K" + words.encode("ascii", "replace") + b"\r\n")
            time.sleep(LAST_LOOK)  # what is still on its way when the last process ends, tmux may not see
        except (OSError, self._error):
            pass

"""A person at a terminal: a real interactive bash, what is typed into it and what it shows."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PROMPT = "ready> "
WITHIN_S = 40.0


class Shell:
    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self.shown = ""
        self._terminal = terminal
        self._read_to = 0

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def wait_for(self, words: str) -> str:
        """What is shown until these words, counted from where the last wait ended."""
        deadline = time.monotonic() + WITHIN_S
        while (at := self.shown.find(words, self._read_to)) < 0:
            assert time.monotonic() < deadline, f"no {words!r} in {self.shown[self._read_to :]!r}"
            if select.select([self._terminal], [], [], 1)[0]:
                self.shown += os.read(self._terminal, 65536).decode(errors="replace")
        began, self._read_to = self._read_to, at + len(words)
        return self.shown[began : self._read_to]

    def call(self, line: str) -> str:
        """What a command shows, from its line to the next prompt."""
        self.type(f"{line}\n")
        return self.wait_for(PROMPT)


@contextmanager
def interactive_bash(env: Mapping[str, str], cwd: Path) -> Iterator[Shell]:
    """A bash with job control, in a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        bash = ["bash", "--noprofile", "--norc", "-i"]
        os.execvpe(bash[0], bash, {**env, "PS1": PROMPT, "TERM": "xterm", "HISTFILE": ""})
    shell = Shell(pid, terminal)
    try:
        shell.wait_for(PROMPT)
        yield shell
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGHUP)  # which bash hands on to its jobs
        os.close(terminal)
        os.waitpid(pid, 0)

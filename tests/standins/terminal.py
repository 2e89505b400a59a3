"""An agent CLI in a real terminal: a tmux server of its own, whose one session runs the command and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fleet.coders import Command, Talker
from fleet.core.talk import Signal, SignalKind
from standins.coders.scratch import until

NAME = "agent"
TRIES, PATIENCE = 5, 2.0
STILL = 20  # looks at a screen that must all be the same
SETTINGS = "set -g remain-on-exit on\nset -g history-limit 5000\n"


@dataclass(frozen=True, slots=True)
class Terminal:
    directory: Path
    talker: Talker

    @property
    def noted(self) -> list[bytes]:
        """What the agent told of itself, line by line."""
        path = self.directory / "signals.jsonl"
        return path.read_bytes().splitlines() if path.exists() else []

    @property
    def signals(self) -> list[Signal]:
        return [signal for line in self.noted for signal in self.talker.signals(line)]

    def hear(self, kind: SignalKind, after: int = 0) -> Signal:
        """The first signal of this kind after so many of all kinds, waited for."""

        def found() -> Signal | None:
            return next((one for one in self.signals[after:] if one.kind is kind), None)

        try:
            heard = until(found, 30)
        except AssertionError:
            raise AssertionError(f"no {kind} after {self.signals[after:]}\n{self.screen()}") from None
        assert heard is not None
        return heard

    def say(self, prompt: str) -> Signal:
        """Paste a prompt and press Enter; the signal that it was taken.

        An Enter that comes while a long paste is still read is lost in it: so it is pressed again, as long as nothing
        at all was told since.
        """
        before = len(self.signals)
        self.paste(self.talker.pasted(prompt))
        self.enter()
        return self.hear(SignalKind.TAKEN, before)

    def enter(self) -> None:
        """Press Enter until the agent tells something."""
        before = len(self.signals)
        for _ in range(TRIES):
            self.press("Enter")
            with suppress(AssertionError):
                until(lambda: len(self.signals) > before, PATIENCE)
                return

    def paste(self, text: str) -> None:
        """One bracketed paste; it is over when the screen shows something of it, and stands still."""
        before = self.screen()
        self.tmux("load-buffer", "-b", NAME, "-", stdin=text)
        self.tmux("paste-buffer", "-p", "-r", "-d", "-b", NAME, "-t", NAME)
        until(lambda: self.screen() != before, 10)
        self.calm()

    def calm(self) -> None:
        """Wait until the screen is the same many times over."""
        seen = [self.screen()]

        def still() -> bool:
            now = self.screen()
            seen[:] = [*seen, now] if now == seen[-1] else [now]
            return len(seen) > STILL

        until(still, 20)

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", NAME, *keys)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", NAME)

    def tmux(self, *args: str, stdin: str = "") -> str:
        argv = ["tmux", "-S", str(self.directory / "tmux"), "-f", str(self.directory / "tmux.conf"), *args]
        done = subprocess.run(argv, input=stdin.encode(), capture_output=True, check=False, timeout=20)
        return done.stdout.decode(errors="replace")


@contextmanager
def terminal(
    directory: Path, talker: Talker, command: Command, cwd: Path, env: Mapping[str, str]
) -> Iterator[Terminal]:
    """The command in a terminal; `directory` holds its signals. Nothing of it is left afterwards."""
    directory.mkdir(exist_ok=True)
    (directory / "tmux.conf").write_text(SETTINGS)
    where = Terminal(directory, talker)
    variables = [f"{name}={value}" for name, value in {**env, "TERM": "tmux-256color", **command.env}.items()]
    argv = ("/usr/bin/env", "-i", *variables, *command.argv)
    try:
        where.tmux("new-session", "-d", "-s", NAME, "-x", "160", "-y", "45", "-c", str(cwd), "--", *argv)
        yield where
    finally:
        where.tmux("kill-server")

"""tmux by its own commands: a server that is ours alone, and never the one that its user works in."""

from __future__ import annotations

import os
import re
import socket
import termios
from collections.abc import Sequence
from pathlib import Path

from fleet.core import FleetError, ToolMissing, Unavailable
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import locks
from fleet.host.run import Ran, run

PROGRAM = "tmux"
OLDEST = (3, 0)
PATIENCE = 20.0
INSTALL = "apt install tmux, or brew install tmux"
# What a client says when there is no server to talk to, or no longer.
NO_SERVER = ("no server running", "error connecting", "server exited", "lost server", "no sessions")
CUT_OFF = ("server exited", "lost server")
NOT_THERE = ("can't find", "no such", "no current")


def sockets() -> Path:
    """The directory of everybody's sockets: whoever can enter it can have any of their servers run a program."""
    return Path(f"/tmp/tmux-{os.getuid()}")  # noqa: S108 - where tmux puts them


class Refused(FleetError):
    """tmux did not do what it was told; the message is its own."""


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks to the server with this socket name, which is started by the first command that needs one.

    A server keeps the environment of whoever started it, and hands it to all that it runs. So it is given next to
    nothing, and neither the user's settings nor the user's own place for sockets: cron and a shell find the same one.
    """

    socket: str

    def argv(self, *words: str) -> list[str]:
        return [PROGRAM, "-u", "-L", self.socket, "-f", os.devnull, *words]

    def ask(self, *commands: Sequence[str], stdin: bytes = b"") -> Ran:
        """Run commands one after the other, in one call; the first that fails ends it."""
        done = _run(self.argv(*_joined(commands)), stdin)
        if done.timed_out:
            raise Unavailable(
                f"tmux does not answer (server {self.socket})", hint=f"tmux -L {self.socket} list-sessions"
            )
        return done

    def tell(self, *commands: Sequence[str], stdin: bytes = b"") -> str | None:
        """What the commands print; None when there is no server, or not what they are about."""
        done = self.ask(*commands, stdin=stdin)
        if done.code == 0:
            return done.out.decode(errors="replace")
        if said(done, *NO_SERVER, *NOT_THERE):
            return None
        raise Refused(f"tmux refused: {done.said or f'exit {done.code}'}", hint="fleet doctor")

    def clear(self) -> bool:
        """Remove the socket that a server left; whether there is none now. One that answers is left alone.

        Under tmux's own lock, which whoever starts a server holds until it answers.
        """
        path = sockets() / self.socket
        if not os.path.lexists(path):
            return True
        beside = path.with_name(f"{path.name}.lock")
        lock = locks.take(beside)
        if lock is None:
            return False
        try:
            if not (path.is_socket() and _is_dead(path)):
                return False
            path.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
            return True
        finally:
            locks.release(lock)


def _is_dead(path: Path) -> bool:
    """Whether nobody listens at a socket any more."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(1.0)
        try:
            asked.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def said(done: Ran, *what: str) -> bool:
    return any(one in done.said for one in what)


def version() -> str | None:
    """What the tmux on the search path calls itself; None when there is none."""
    try:
        return clean(_run([PROGRAM, "-V"]).out.decode(errors="replace").strip().rpartition(" ")[2])
    except ToolMissing:
        return None


def prefix(inside: str) -> str:
    """The prefix key of the server that $TMUX names; tmux's own where that cannot be asked."""
    asked = _run([PROGRAM, "-S", inside.partition(",")[0], "show-options", "-gv", "prefix"])
    return asked.out.decode(errors="replace").strip() if asked.code == 0 else "C-b"


def is_too_old(name: str) -> bool:
    """Whether this release lacks what is used here. `3.3a`, `next-3.6`; one that is not numbered is trusted."""
    numbered = re.fullmatch(r"(?:next-)?(\d+)\.(\d+)[a-z]?", name)
    return numbered is not None and tuple(map(int, numbered.groups())) < OLDEST


def literal(text: str) -> str:
    """Text for a place where tmux would expand formats, some of which run programs."""
    return text.replace("#", "##")


def is_raw(tty: Path) -> bool | None:
    """Whether a program reads this terminal key by key, as everything with an input line of its own does."""
    try:
        fd = os.open(tty, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return not termios.tcgetattr(fd)[3] & termios.ICANON
    except termios.error:
        return None
    finally:
        os.close(fd)


def _run(argv: Sequence[str], stdin: bytes = b"") -> Ran:
    try:
        return run(argv, cwd=Path("/"), env=_environment(), timeout=PATIENCE, stdin=stdin)
    except ToolMissing as problem:
        raise ToolMissing("tmux is not installed", hint=INSTALL) from problem


def _joined(commands: Sequence[Sequence[str]]) -> list[str]:
    """Commands as the words of one call. A word that ends in a semicolon would end its command there."""
    words: list[str] = []
    for command in commands:
        words += [";"] if words else []
        words += [f"{word[:-1]}\\;" if word.endswith(";") else word for word in command]
    return words


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "LANG") if name in os.environ}
    return {"PATH": os.environ.get("PATH", os.defpath), **kept, "LC_CTYPE": "C.UTF-8", "TERM": "screen-256color"}

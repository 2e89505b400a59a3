"""Our own tmux server: sessions are opened, seen, looked at and closed by the attempt they were made for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.core.frozen import dataclass
from fleet.host import tmux
from fleet.sessions.base import Seen

PREFIX = "C-b"
TRIES = 20
TICK = 0.02  # seconds
# Set anew by each one that opens a session: whoever is first starts the server.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("set-option", "-s", "exit-empty", "on"),
    ("set-option", "-s", "escape-time", "20"),
    ("set-option", "-g", "destroy-unattached", "off"),
    ("set-option", "-g", "default-terminal", "screen-256color"),
    ("set-option", "-g", "history-limit", "50000"),
    ("set-option", "-g", "update-environment", ""),  # who attaches brings nothing of theirs into the session
    ("set-option", "-g", "status-left", " #{session_name} "),
    ("set-option", "-g", "status-left-length", "80"),
    ("set-option", "-g", "status-right-length", "60"),
    ("set-option", "-gw", "remain-on-exit", "on"),
    ("set-option", "-gqw", "remain-on-exit-format", ""),  # since 3.3; the keeper says how it ended
    ("set-option", "-gw", "allow-rename", "off"),
    ("set-option", "-gw", "automatic-rename", "off"),
)
SEEN = (
    "#{session_id} #{pane_id} #{pane_pid} #{pane_dead} #{session_attached} "
    "=#{@fleet_attempt} =#{@fleet_pane} #{session_name}"
)
SCREEN = "#{cursor_x} #{cursor_y} #{cursor_flag} #{pane_in_mode} #{pane_dead} #{pane_tty}"


@dataclass(frozen=True, slots=True)
class Screen:
    """What a pane shows now, and what can be known of it besides."""

    lines: tuple[str, ...]
    column: int
    row: int
    cursor: bool  # some programs hide it and draw one of their own
    in_mode: bool  # somebody scrolls back in it: keys do not reach the program
    dead: bool
    raw: bool  # a program reads it key by key

    @property
    def picture(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip()


class Server:
    """The tmux server of one home and one repository, so that equal branches of two projects stay apart."""

    def __init__(self, home: Path, repository: Path) -> None:
        self.socket = f"fleet-{_short(home)}-{_short(repository)}"
        self._tmux = tmux.Client(self.socket)

    def open(
        self,
        name: str,
        attempt: str,
        cwd: Path,
        argv: Sequence[str],
        size: tuple[int, int] = (200, 50),
        *,
        is_first: bool = False,
    ) -> Seen:
        """A session that runs a program, found again when there is one for this attempt, wherever it was begun; it is
        not looked for by who knows that this is the first.

        The name gets a number when another has it already. Nothing of the words is read by a shell, or by tmux.
        """
        for number, wanted in enumerate(_names(name)):
            found = None if is_first and not number else self.find(attempt)
            found = found or self._new(wanted, attempt, cwd, argv, size)
            if found is not None:
                return found
        raise Unavailable(f"no session could be opened for {attempt}", hint=f"tmux -L {self.socket} list-sessions")

    def _new(self, name: str, attempt: str, cwd: Path, argv: Sequence[str], size: tuple[int, int]) -> Seen | None:
        """A new session, with its marks from the first moment on; None when the name is taken."""
        commands = (*OPTIONS, _new_session(name, cwd, argv, size), *_marks(name, attempt))
        for _ in range(TRIES):
            done = self._tmux.ask(*commands)
            if not tmux.said(done, *tmux.CUT_OFF):  # the server had nothing left to do and was about to end
                break
        if done.code and not tmux.said(done, "duplicate session"):
            raise tmux.Refused(f"tmux refused to open {name}: {done.said}", hint="fleet doctor")
        return next(iter(read_panes(done.out.decode(errors="replace"))), None)

    def seen(self) -> list[Seen]:
        """All sessions that were made for attempts; none when no server runs."""
        listed = self._tmux.tell(("list-panes", "-a", "-F", SEEN))
        return read_panes(listed or "")

    def find(self, attempt: str) -> Seen | None:
        return next((one for one in self.seen() if one.attempt == attempt), None)

    def close(self, attempt: str) -> bool:
        """Close the session of an attempt, which hangs up on whatever still runs there; False when there is none."""
        found = self.find(attempt)
        return found is not None and self._tmux.tell(("kill-session", "-t", found.id)) is not None

    def tidy(self) -> None:
        """Remove the socket of a server that is gone, or goes because it has no session left. Nothing hangs on it."""
        with suppress(FleetError, OSError):
            for _ in range(TRIES):
                if self._tmux.tell(("list-sessions",)) or self._tmux.clear():
                    return
                time.sleep(TICK)

    def picture(self, attempt: str, history: int = 0) -> str | None:
        """What a session shows, with so many lines from before; None when there is no such session."""
        pane = self.pane(attempt)
        shown = self._tmux.tell(("capture-pane", "-p", "-J", "-S", str(-history), "-t", pane)) if pane else None
        return None if shown is None else "\n".join(line.rstrip() for line in shown.split("\n")).rstrip()

    def attach_argv(self, attempt: str, inside: str = "") -> tuple[str, ...] | None:
        """The command that shows a session on this terminal; None when there is no such session. `inside` is $TMUX of
        another tmux around it: the session's status line says how to leave it, and not that one.
        """
        found = self.find(attempt)
        if found is None:
            return None
        leave = leave_keys(tmux.prefix(inside)) if inside else leave_keys()
        self._tmux.tell(("set-option", "-t", found.id, "status-right", f" leave: {leave} "))
        forget = [word for name in ("TMUX", "TMUX_PANE", "TMUX_TMPDIR") for word in ("-u", name)]
        return ("env", *forget, *self._tmux.argv("attach-session", "-t", found.id))

    def pane(self, attempt: str) -> str | None:
        found = self.find(attempt)
        return found.pane if found is not None else None

    def screen(self, pane: str) -> Screen | None:
        """What a pane shows, and what can be known of it, in one look; None when it is gone."""
        shown = self._tmux.tell(("display-message", "-p", "-t", pane, SCREEN), ("capture-pane", "-p", "-t", pane))
        return read_screen(shown) if shown else None

    def paste(self, pane: str, text: str) -> bool:
        """Paste text as a terminal does, in brackets when the program asked for them; False when the pane is gone."""
        buffer = f"fleet-{os.getpid()}-{pane.lstrip('%')}"
        told = self._tmux.tell(
            *_leave_modes(pane),
            ("load-buffer", "-b", buffer, "-"),
            ("paste-buffer", "-p", "-d", "-b", buffer, "-t", pane),
            stdin=text.encode(),
        )
        return told is not None

    def enter(self, pane: str) -> bool:
        """Press Enter; False when the pane is gone."""
        return self._tmux.tell(*_leave_modes(pane), ("send-keys", "-t", pane, "Enter")) is not None


def leave_keys(around: str | None = None) -> str:
    """The keys that leave a session, inside another tmux with this prefix: one that is the same is typed twice."""
    return f"{PREFIX} {PREFIX} d" if around == PREFIX else f"{PREFIX} d"


def read_panes(listed: str) -> list[Seen]:
    """Sessions from the list of all panes: each by the pane of its keeper, or without one when that was closed."""
    found: dict[str, Seen] = {}
    for line in listed.splitlines():
        fields = line.split(" ", 7)
        if len(fields) < 8 or fields[5] == "=":
            continue
        session, pane, pid, dead, attached, attempt, mark, name = fields
        ours = mark == attempt
        if ours or session not in found:
            living = ours and dead != "1"
            found[session] = Seen(
                session,
                name,
                attempt[1:],
                int(pid) if living else None,
                not living,
                int(attached),
                pane if ours else None,
            )
    return list(found.values())


def read_screen(shown: str) -> Screen:
    facts, _, picture = shown.partition("\n")
    column, row, cursor, in_mode, dead, tty = facts.split(" ", 5)
    return Screen(
        tuple(picture.rstrip("\n").split("\n")),
        int(column),
        int(row),
        cursor == "1",
        in_mode not in ("", "0"),
        dead == "1",
        tmux.is_raw(Path(tty)) is True,
    )


def _new_session(name: str, cwd: Path, argv: Sequence[str], size: tuple[int, int]) -> tuple[str, ...]:
    width, height = map(str, size)
    words = argv if len(argv) > 1 else ("env", *argv)  # a single word would be read by a shell
    where = ("-s", tmux.literal(name), "-c", tmux.literal(str(cwd)))
    return ("new-session", "-d", "-x", width, "-y", height, *where, "--", *words)


def _marks(name: str, attempt: str) -> tuple[tuple[str, ...], ...]:
    target = f"={name}:"
    return (
        ("set-option", "-t", target, "@fleet_attempt", attempt),
        ("set-option", "-p", "-t", target, "@fleet_pane", attempt),
        ("display-message", "-p", "-t", target, SEEN),
    )


def _leave_modes(pane: str) -> tuple[tuple[str, ...], ...]:
    """Somebody scrolls back, or looks at a clock or a list: what is typed then does not reach the program."""
    scrolls = "#{||:#{==:#{pane_mode},copy-mode},#{==:#{pane_mode},view-mode}}"
    return (
        ("if-shell", "-F", "-t", pane, scrolls, f"send-keys -X -t {pane} cancel"),
        ("if-shell", "-F", "-t", pane, "#{pane_in_mode}", f"copy-mode -q -t {pane}"),  # since 3.2, and seldom needed
    )


def _names(name: str) -> Iterator[str]:
    """The name, and others when it is taken; in the same order for everybody, so that two at once meet."""
    yield name
    yield from (f"{name}-{number}" for number in range(2, 2 + TRIES))


def _short(path: Path) -> str:
    return sha256(os.fsencode(path.resolve())).hexdigest()[:8]

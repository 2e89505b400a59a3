"""An agent with an input line, in a terminal: a prompt is pasted or typed, Enter sends it, and it answers.

Run as: talks.py <directory> [word]...   what it took is in <directory>/took, each prompt ended by a NUL; what it was
given while it asked is in <directory>/strays; what it tells of itself in <directory>/signals, unless it is mute.

mute            tells nothing of itself
late            comes to its prompt once <directory>/go is there
asks-first      asks for leave before it comes to its prompt
asks-later      asks for leave once it took a prompt
asks-at-paste   asks for leave as soon as something is pasted
deaf            does not hear the first Enter
breaks          takes the first Enter for another line
hasty           says that it is ready before it draws anything, and loses what is typed until then
numb            hears no Enter at all
continues       takes a backslash before Enter for another line, and completes a name there
garbles         takes every prompt backwards
dies            ends when it takes a prompt
hides           draws a cursor of its own
queues          is at work, and takes a prompt later
rambles         is at work, and its screen is never still
stubborn        is not impressed by signals
litters         has a child in a session of its own, which is stubborn too
suspends        stops itself when it takes a prompt
"""

import json
import os
import select
import signal
import sys
import termios
import time
import tty

DIRECTORY, WORDS = sys.argv[1], set(sys.argv[2:])
BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def tell(kind: str, text: str | None = None) -> None:
    if "mute" not in WORDS:
        with open(f"{DIRECTORY}/signals", "a") as file:
            file.write(json.dumps({"kind": kind, "at": time.time(), "text": text}) + "\n")


def note(name: str, what: bytes) -> None:
    with open(f"{DIRECTORY}/{name}", "ab") as file:
        file.write(what)


def show(text: str) -> None:
    os.write(1, text.encode())


class Talk:
    def __init__(self) -> None:
        self.line = b""
        self.pasting = self.asking = False
        self.deaf, self.breaks = "deaf" in WORDS, "breaks" in WORDS
        self.ticks = 0

    def draw(self) -> None:
        last = self.line.decode(errors="replace").split("\n")
        if len(last) == 2 and not last[-1]:
            return  # an empty line below the first
        shown = (
            last[-1] if len(last) == 1 and len(last[0]) < 150 else f"[pasted {len(last)} lines, {len(self.line)} bytes]"
        )
        show(f"\r\x1b[K> {shown}" + ("\u2588" if "hides" in WORDS else ""))

    def ask(self) -> None:
        self.asking = True
        show("\r\n\x1b[KMay I? 1. yes  2. no ")
        tell("asks", "May I?")

    def greet(self) -> None:
        self.draw()
        tell("ready")
        if WORDS & {"queues", "rambles"}:
            tell("taken", "something else")

    def hear(self, keys: bytes) -> None:
        while keys:
            if self.asking:
                note("strays", keys)
                return
            keys = self.paste(keys) if self.pasting else self.type(keys)
        if not self.asking:
            self.draw()

    def paste(self, keys: bytes) -> bytes:
        self.line += keys
        if END not in self.line:
            return b""
        self.line, _, rest = self.line.partition(END)
        self.line = self.line.replace(b"\r", b"\n")
        self.pasting = False
        if "asks-at-paste" in WORDS:
            self.ask()
        return rest

    def type(self, keys: bytes) -> bytes:
        if keys.startswith(BEGIN):
            self.pasting = True
            return keys[len(BEGIN) :]
        if keys[:1] == b"\r":
            self.enter()
        elif keys[:1] == b"\x03":
            sys.exit(130)
        elif keys[:1] == b"\x1a":
            os.kill(os.getpid(), signal.SIGTSTP)
        else:
            self.line += keys[:1]
        return keys[1:]

    def enter(self) -> None:
        if not self.misses():
            self.take()

    def misses(self) -> bool:
        """Whether Enter did something else than to send the line."""
        deaf, breaks, self.deaf, self.breaks = self.deaf or "numb" in WORDS, self.breaks, False, False
        if breaks:
            self.line += b"\n"
            show("\r\n\x1b[K")
        return deaf or breaks or ("continues" in WORDS and self.continues())

    def continues(self) -> bool:
        if self.line.endswith(b"\\"):
            self.line = self.line[:-1] + b"\n"
            return True
        if self.line.rpartition(b" ")[2].startswith(b"@"):
            self.line += b"abouts "
            return True
        return False

    def take(self) -> None:
        taken, self.line = self.line[:: -1 if "garbles" in WORDS else 1], b""
        show(f"\r\n\x1b[Kyou said {len(taken)} bytes\r\n")
        if "dies" in WORDS:
            sys.exit(3)
        note("took", taken + b"\0")
        if "queues" in WORDS:
            return
        tell("taken", taken.decode().rstrip())
        if "suspends" in WORDS:
            os.kill(os.getpid(), signal.SIGSTOP)
            note("took", b"and went on\0")
        if "asks-later" in WORDS:
            self.ask()
        else:
            tell("rested")

    def idle(self) -> None:
        if "rambles" in WORDS:
            self.ticks += 1
            show(f"\x1b7\x1b[1;1H\x1b[Kworking {self.ticks}\x1b8")


def litter() -> None:
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        note("child", str(os.getpid()).encode())
        while True:
            signal.pause()


def wait() -> None:
    while not os.path.exists(f"{DIRECTORY}/go"):
        time.sleep(0.02)


def begin() -> Talk:
    if "stubborn" in WORDS:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if "litters" in WORDS:
        litter()
    tty.setraw(0)
    if "hasty" in WORDS:
        tell("ready")
        select.select([0], [], [], 0.6)
        termios.tcflush(0, termios.TCIFLUSH)
    show("\x1b[?2004h" + ("\x1b[?25l" if "hides" in WORDS else "") + "An agent that talks.\r\n")
    if "late" in WORDS:
        wait()
    talk = Talk()
    if "asks-first" in WORDS:
        talk.ask()
    else:
        talk.greet()
    return talk


def read() -> bytes:
    try:
        keys = os.read(0, 65536)
    except OSError:
        keys = b""
    if not keys and "stubborn" in WORDS:
        signal.pause()
    return keys


talk = begin()
while True:
    if select.select([0], [], [], 0.03)[0]:
        keys = read()
        if not keys:
            break
        talk.hear(keys)
    talk.idle()

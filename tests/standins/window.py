"""What the program shows on a terminal, and how wide that is."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import unicodedata
from pathlib import Path

from standins.coders.scratch import Scratch


def terminal(home: Scratch, *args: str, width: int = 80, cwd: Path | None = None, typed: str = "") -> str:
    """What the program shows on a terminal of so many columns, where somebody has typed this."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    shown = b""
    argv, env = [home.python, "-m", "fleet", *args], home.env | {"TERM": "xterm"}
    with subprocess.Popen(argv, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave):
        os.close(slave)
        os.write(master, typed.encode())
        while chunk := heard(master):
            shown += chunk
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


def heard(master: int) -> bytes:
    """What a program on the terminal printed since; nothing once it has ended."""
    try:
        return os.read(master, 65536)
    except OSError:  # the other end is closed
        return b""


def columns(line: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)

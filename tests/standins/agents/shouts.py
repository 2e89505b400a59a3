"""Says one line of so many MiB without an end of line in between, then a good line; then stays if told to."""

import os
import signal
import sys


def say(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]


for _ in range(int(sys.argv[1])):
    say(b"x" * 1024 * 1024)
say(b"\n" + b'{"kind": "good"}\n')
if sys.argv[2:] == ["stay"]:
    say(b"ready\n")
    signal.pause()

"""Says lines of 3,000 bytes until the fourth, waits for a line in the pipe it is given, then says two more lines."""

import os
import sys

for _ in range(4):
    os.write(1, b"x" * 2999 + b"\n")
os.write(2, b"ready\n")
with open(sys.argv[1]) as go:
    go.readline()
os.write(1, b"first\n")
os.write(1, b"second\n")

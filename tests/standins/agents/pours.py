"""Pours out so many MiB of short lines as fast as it can, forever when given none."""

import os
import sys

BLOCK = (b"x" * 127 + b"\n") * 512
left = int(sys.argv[1]) * 1024 * 1024 if sys.argv[1:] else None
while left is None or left > 0:
    done = os.write(1, BLOCK if left is None else BLOCK[:left])
    BLOCK = BLOCK[done:] + BLOCK[:done]
    left = None if left is None else left - done

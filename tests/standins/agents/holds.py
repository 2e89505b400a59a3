"""Not an agent but a supervisor that dies: holds an agent in a directory, says so, and waits to be killed."""

import os
import signal
import sys
from pathlib import Path

from fleet.keeper import Start, hold

directory, timeout, lock, *argv = sys.argv[1:]
held = hold(
    Path(directory),
    Start(
        argv=tuple(argv),
        env=dict(os.environ),
        cwd=Path("/"),
        stdin="",
        timeout=float(timeout),
        output=1024 * 1024,
        dead_man=600.0,
        supervisor_lock=Path(lock),
    ),
)
print("held", flush=True)
signal.pause()

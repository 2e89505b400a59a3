"""The promises under faults, in large: `make torture`. Prints its seed and a table of figures; takes about two hours.

Arguments are handed to pytest: `python tools/torture.py -k poison` runs one of them, FLEET_SEED=7 repeats a run, and
FLEET_TORTURE=small runs it as `PARTS=all make test` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 3 * 3600


def main(argv: list[str]) -> int:
    env = {"FLEET_TORTURE": "large"} | os.environ
    options = ["--durations=5", f"--timeout={LONGEST}", "-p", "no:randomly"]
    return subprocess.call([sys.executable, "-m", "pytest", "tests/torture", *options, *argv], cwd=ROOT, env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

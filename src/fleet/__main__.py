"""`python -m fleet`, and the entry point of the programs fleet, flt and subagent-fleet."""

from __future__ import annotations

import gc
import sys

OBJECTS = 50_000  # that may come before Python looks for rubbish: by itself it does so a hundred times while we start


def main() -> None:
    gc.set_threshold(OBJECTS)
    from fleet.cli import main

    sys.exit(main())


if __name__ == "__main__":
    main()

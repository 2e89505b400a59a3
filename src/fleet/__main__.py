"""`python -m fleet`, and the entry point of the programs fleet, flt and subagent-fleet."""

from __future__ import annotations

import sys


def main() -> None:
    from fleet.cli import main

    sys.exit(main())


if __name__ == "__main__":
    main()

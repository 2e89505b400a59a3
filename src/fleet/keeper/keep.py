"""The keeper: one small process that owns one agent's process tree, whatever becomes of the supervisor.

Run as: python -I -S keep.py <attempt directory> <lock fd> <events fd> <control fd>
    or: python -I -S keep.py <attempt directory> terminal    as the first process of a terminal, which the agent gets

It is a program, not a module: nothing imports it or its parts, which are in `program`, and it imports nothing else of
fleet. Hundreds may run at once, so imports are counted in megabytes and milliseconds: json, signal, subprocess or
pathlib would each cost more than all of this, and finding its parts is a twentieth of its start-up. So it is run from
one file into which `joined` put them all; this one does the same where there can be no such file. Either way all of it
is in memory before an agent runs: an upgrade of fleet does not touch a keeper.
"""

import os
import sys


def start() -> None:
    sys.dont_write_bytecode = True  # a full disk would cut it short
    parts = type(sys)("fleet.keeper.program")  # without the packages above it: those load what a keeper does not need
    parts.__path__ = [os.path.join(os.path.dirname(start.__code__.co_filename), "program")]
    sys.modules[parts.__name__] = parts
    from fleet.keeper.program.main import main

    main()


if __name__ == "__main__":
    start()

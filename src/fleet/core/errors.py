"""What can go wrong in a way that a user can act on.

FleetError                 exit 1   it failed
├── BadConfig              exit 2   the configuration or the call is wrong
├── Unavailable            exit 1   something needed does not answer now; trying again is worth it
├── NotFound               exit 3   the thing named does not exist
└── ToolMissing            exit 5   a program we need is not installed
"""

from __future__ import annotations

import errno

# What a machine says that has run out of something for now: disk, processes, files, memory.
PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class FleetError(Exception):
    """A sentence for the user, the next thing to try, and the exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadConfig(FleetError):
    exit_code = 2


class Unavailable(FleetError):
    pass


class NotFound(FleetError):
    exit_code = 3


class ToolMissing(FleetError):
    exit_code = 5


def is_passing(problem: OSError) -> bool:
    """Whether the same call may succeed later."""
    return problem.errno in PASSING


def of_system(problem: OSError) -> FleetError:
    """What the system refused, as a sentence."""
    return FleetError(f"{problem.filename or 'the system'}: {problem.strerror or problem}")

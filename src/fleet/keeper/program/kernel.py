"""What the parts need of the kernel, where the standard library has no word for it, or an expensive one."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
else:
    import _signal as signal  # noqa: F401 - without the enums around it, which are a third of the start-up time

CHUNK = 64 * 1024
NEVER = float("inf")
LINUX = os.path.exists("/proc/self/stat")
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36


def prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def system(name: str, *given: object, about: bytes = b"") -> int:
    """Ask the kernel for something that Python has no word for."""
    done = getattr(ctypes.CDLL(None, use_errno=True), name)(*given)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(about) or name)
    return int(done)


def read_file(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.read(fd, CHUNK)
        finally:
            os.close(fd)
    except OSError:
        return b""

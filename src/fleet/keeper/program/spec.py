"""What the supervisor wants done, as it is handed down."""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class FenceSpec(TypedDict):
        hidden: list[bytes]
        shown: list[bytes]
        guarded: list[bytes]
        writable: list[bytes]
        read_only: list[bytes]
        apart: bytes
        network: bool
        required: bool
        label: bytes


class Spec:
    """What the supervisor wants done."""

    def __init__(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        timeout: float,
        output: int,
        line: int,
        interrupt: float,
        terminate: float,
        dead_man: float,
        supervisor_lock: bytes,
        fence: FenceSpec | None,
    ) -> None:
        self.argv, self.env, self.cwd = argv, env, cwd
        self.timeout, self.output, self.line = timeout, output, line
        self.interrupt, self.terminate = interrupt, terminate
        self.dead_man, self.supervisor_lock = dead_man, supervisor_lock
        self.fence, self.unfenced = fence, ""
        self.is_fenced = None if fence is None else True


def read_spec() -> Spec:
    """The order, whose file is gone once it is read: it carries the agent's environment."""
    with open("spec", "rb") as file:
        spec = Spec(**marshal.load(file))  # noqa: S302 - our own file, where only we can write
    os.unlink("spec")
    return spec

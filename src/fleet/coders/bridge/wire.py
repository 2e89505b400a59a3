"""The agent as the bridge's child, and the lines between them. What the agent sends is a stranger's: any of it may be
anything, of any length, or never come."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from fleet.coders.stream import LARGEST, Fields, parse
from fleet.core.text import clean

LAST_WORDS = 0.5  # seconds in which what a dead agent wrote may still arrive
LEAVE, TERMINATE = 1.5, 0.5  # seconds to end by itself, then to end when told to


class Wire(asyncio.SubprocessProtocol):
    """Messages to and from the agent, as the protocol's SDK wants them (`acp.core`: a transport).

    Whatever breaks the rules closes it, with the problem told: the SDK would drop an answer that it cannot use, and
    wait for it for ever.
    """

    def __init__(self, strange: Callable[[bytes], None]) -> None:
        self.problem: str | None = None  # why nothing more will come; `it` is the agent
        self._strange = strange
        self._messages: asyncio.Queue[Fields | None] = asyncio.Queue()
        self._asked: set[object] = set()
        self._rest = bytearray()
        self._exited, self._closed = asyncio.Event(), False
        self._child: asyncio.SubprocessTransport | None = None

    # ---- the agent's process

    async def start(self, argv: list[str]) -> None:
        """In a session of its own, so that what interrupts us does not interrupt it: it is told by the protocol."""
        pipe, inherited = asyncio.subprocess.PIPE, None
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self, *argv, stdin=pipe, stdout=pipe, stderr=inherited, start_new_session=True
        )

    async def end(self) -> None:
        """The agent is gone when this returns: it is left alone, then told to end, then killed."""
        if self._child is None:
            return
        stdin = self._child.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()
        for patience, sign in ((LEAVE, signal.SIGTERM), (TERMINATE, signal.SIGKILL)):
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._exited.wait()
            if not self._exited.is_set():
                with suppress(ProcessLookupError):
                    os.killpg(self._child.get_pid(), sign)
        await self._exited.wait()
        self._child.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._child = transport

    def process_exited(self) -> None:
        """Told even while something that the agent left behind holds its output open."""
        self._exited.set()
        self._hang_up()

    def _hang_up(self) -> None:
        """Nothing more comes: at once when the agent is gone and its output closed, soon when it is one of the two."""
        code = self._child.get_returncode() if self._child else None
        problem = "it closed its output" if code is None else _how(code)
        pause = 0.0 if self._closed and self._exited.is_set() else LAST_WORDS
        asyncio.get_running_loop().call_later(pause, self._close, problem)

    # ---- lines

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line(bytes(self._rest) + line)
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > LARGEST:
            self._rest.clear()
            self._close(f"it sent a line of more than {LARGEST // 2**20} MiB")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._closed = True
            self._hang_up()

    def _line(self, line: bytes) -> None:
        message = parse(line)
        if self.problem is not None or not line.strip():
            return
        if message is None:
            self._strange(line)
        elif broken := self._broken(message):
            self._close(f"it broke the protocol: {broken}")
        else:
            self._messages.put_nowait(message)

    def _broken(self, message: Fields) -> str | None:
        """What is wrong with a message, if it is an answer that would leave us waiting."""
        if "method" in message:
            return None if isinstance(message["method"], str) else "a method without a name"
        name = message.get("id")
        if not isinstance(name, str | int) or name not in self._asked:
            return f"an answer to a request that was never made: {clean(json.dumps(message), 200)}"
        self._asked.discard(name)
        error = message.get("error")
        if "result" not in message and not isinstance(error, dict):
            return f"an answer without a result: {clean(json.dumps(message), 200)}"
        return None

    def _close(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
            self._messages.put_nowait(None)

    # ---- what the SDK calls

    async def send(self, message: Fields) -> None:
        stdin = self._child.get_pipe_transport(0) if self._child else None
        if not isinstance(stdin, asyncio.WriteTransport) or stdin.is_closing():
            raise ConnectionError("its input is closed")
        if "method" in message and "id" in message:
            self._asked.add(message["id"])
        stdin.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Fields | None:
        return await self._messages.get()

    async def close(self) -> None:
        """Nothing: the agent is ended by `end`."""


def _how(code: int) -> str:
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

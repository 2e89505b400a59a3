"""HTTP to machines that may be dead, slow, huge or hostile: every answer is bounded in time and size."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import h11

from fleet.core.text import clean

MAX_BODY = 4 * 1024 * 1024


class Cause(StrEnum):
    """Why a machine did not give a usable answer."""

    REFUSED = "refused"
    TIMED_OUT = "timed out"
    NO_ROUTE = "no route"
    NO_SUCH_HOST = "no such host"
    TLS = "TLS failed"
    REDIRECTED = "redirected"
    UNAUTHORISED = "unauthorised"
    HTTP_ERROR = "HTTP error"
    TOO_LARGE = "answer too large"
    BAD_JSON = "bad JSON"
    MISSING_KEY = "missing key"
    WRONG_KIND = "wrong kind"
    NO_API_KEY = "no API key"
    BROKEN = "connection broken"


class Unanswered(Exception):
    """No usable answer, with its cause. Never carries the body, a stranger's words; at most its `error`, cleaned."""

    def __init__(self, cause: Cause, detail: str, status: int | None = None, error: str | None = None) -> None:
        super().__init__(f"{cause}: {detail}")
        self.error = error
        self.cause = cause
        self.detail = detail
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # by their names in lower case

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as problem:
            raise Unanswered(Cause.BAD_JSON, f"the answer is not JSON ({len(self.body)} bytes)") from problem


class Http:
    """Asks many machines at once; use it as an async context manager.

    With `together`, the timeout counts for all requests from the moment it is entered: however many machines are
    silent, they are waited for once.

    No redirect is followed, and no proxy of the environment is used: what is meant for a machine on your own network
    must not be sent anywhere else.
    """

    def __init__(self, timeout: float = 5.0, *, tls: bool = True, together: bool = False) -> None:
        self.timeout = timeout
        self._together = together
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._until = 0.0

    async def __aenter__(self) -> Http:
        asyncio.get_running_loop().set_default_executor(_DaemonThreads())
        self._context = ssl.create_default_context() if self._tls else None
        self._until = asyncio.get_running_loop().time() + self.timeout
        return self

    async def __aexit__(self, *_: object) -> None:
        """Every exchange closes its own connection."""

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.ask("GET", url, headers=headers)

    async def post(
        self, url: str, body: object, headers: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Answer:
        return await self.ask("POST", url, body=body, headers=headers, timeout=timeout)

    async def ask(
        self,
        method: str,
        url: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """One whole answer in time, a drip of bytes included; or Unanswered. A timeout given here is for this one."""
        limit = self.timeout if timeout is None else timeout
        now = asyncio.get_running_loop().time()
        until = self._until if self._together and timeout is None else now + limit
        request = b"" if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout_at(until):
                answer = await self._exchange(method, url, request, headers or {})
        except TimeoutError:
            raise Unanswered(Cause.TIMED_OUT, f"no whole answer within {limit:g} s") from None
        except (h11.ProtocolError, OSError, UnicodeError) as problem:
            raise _explain(problem) from problem
        if answer.status >= 300:
            raise _refusal(answer)
        return answer

    async def _exchange(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(url)
        tls = self._context if parts.scheme == "https" else None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # A name with a dead IPv6 address must not eat the whole timeout.
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls, happy_eyeballs_delay=0.25)
        try:
            target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            wire = h11.Connection(h11.CLIENT)
            writer.write(_request(wire, method, target, body, {"host": parts.netloc, **headers}))
            return await _answer(wire, reader)
        finally:
            writer.transport.abort()


def _request(wire: h11.Connection, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = {"accept": "*/*", "accept-encoding": "identity", "connection": "close", "user-agent": "fleet", **headers}
    if body:
        lines |= {"content-type": "application/json", "content-length": str(len(body))}
    events = [h11.Request(method=method, target=target, headers=list(lines.items())), h11.EndOfMessage()]
    if body:
        events.insert(1, h11.Data(data=body))
    return b"".join(wire.send(event) or b"" for event in events)


async def _answer(wire: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    """Read one whole answer, up to the limit."""
    status, body = 0, bytearray()
    headers: dict[str, str] = {}
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                wire.receive_data(await reader.read(65536))
            case h11.Response(status_code=status, headers=found):
                headers = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in found}
            case h11.Data(data=data):
                body += data
                if len(body) > MAX_BODY:
                    raise Unanswered(Cause.TOO_LARGE, f"more than {MAX_BODY // 1024**2} MiB")
            case h11.EndOfMessage():
                return Answer(status, bytes(body), headers)
            case h11.ConnectionClosed():
                raise h11.RemoteProtocolError("closed before it answered")


def _refusal(answer: Answer) -> Unanswered:
    status = answer.status
    if status in (401, 403):
        return Unanswered(Cause.UNAUTHORISED, f"HTTP {status}", status)
    if status < 400:
        return Unanswered(Cause.REDIRECTED, f"HTTP {status}; redirects are not followed", status)
    return Unanswered(Cause.HTTP_ERROR, f"HTTP {status}", status, _error(answer))


def _error(answer: Answer) -> str | None:
    """What model servers say of a failure: {"error": "one sentence"}, or {"error": {"message": "several lines"}}."""
    try:
        said = answer.json()
    except Unanswered:
        return None
    error = said.get("error") if isinstance(said, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return clean(message.strip().partition("\n")[0]) if isinstance(message, str) else None


def _explain(problem: Exception) -> Unanswered:
    match problem:
        case ConnectionRefusedError():
            return Unanswered(Cause.REFUSED, "nothing listens there")
        case socket.gaierror() | UnicodeError():
            return Unanswered(Cause.NO_SUCH_HOST, "the name does not resolve")
        case ssl.SSLError():
            return Unanswered(Cause.TLS, problem.reason or "handshake failed")
        case h11.ProtocolError():
            return Unanswered(Cause.BROKEN, "what answers does not speak HTTP, or hung up")
        case OSError(errno=errno.EHOSTUNREACH | errno.ENETUNREACH | errno.EHOSTDOWN):
            return Unanswered(Cause.NO_ROUTE, "the machine is off, or on another network")
        case OSError() if f"[Errno {errno.ECONNREFUSED}]" in str(problem):
            # Several addresses were tried (localhost has two), and none took the call.
            return Unanswered(Cause.REFUSED, "nothing listens there")
        case _:
            return Unanswered(Cause.BROKEN, getattr(problem, "strerror", None) or type(problem).__name__)


class _DaemonThreads(ThreadPoolExecutor):
    """Name look-ups run here. A resolver that hangs must not keep the program alive, as a pool's threads would."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as problem:
                future.set_exception(problem)

        threading.Thread(target=run, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to wait for."""

"""HTTP to machines that may be dead, slow, huge or hostile: every answer is bounded in time and size."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx

MAX_BODY = 4 * 1024 * 1024


class Cause(StrEnum):
    """Why a machine did not give a usable answer."""

    REFUSED = "refused"
    TIMED_OUT = "timed out"
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
    """No usable answer, with its cause. Never carries the body: a stranger wrote that."""

    def __init__(self, cause: Cause, detail: str, status: int | None = None) -> None:
        super().__init__(f"{cause}: {detail}")
        self.cause = cause
        self.detail = detail
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as problem:
            raise Unanswered(Cause.BAD_JSON, f"the answer is not JSON ({len(self.body)} bytes)") from problem


class Http:
    """One client for many machines; use it as an async context manager."""

    def __init__(self, timeout: float = 5.0, *, tls: bool = True) -> None:
        self.timeout = timeout
        self._tls = tls

    async def __aenter__(self) -> Http:
        asyncio.get_running_loop().set_default_executor(_DaemonThreads())
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context() if self._tls else False,
            timeout=None,  # noqa: S113 - asyncio.timeout bounds the whole exchange, a drip of bytes included
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,  # a LAN address must never be sent to a proxy
            headers={"accept-encoding": "identity", "user-agent": "fleet"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

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
        """One whole answer within the timeout, or Unanswered. Redirects are not followed."""
        limit = self.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                async with self._client.stream(method, url, json=body, headers=headers) as response:
                    answer = Answer(response.status_code, await _bounded(response))
        except TimeoutError:
            raise Unanswered(Cause.TIMED_OUT, f"no whole answer within {limit:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            raise _explain(problem) from problem
        if answer.status >= 300:
            raise _refusal(answer.status)
        return answer


def _refusal(status: int) -> Unanswered:
    if status in (401, 403):
        return Unanswered(Cause.UNAUTHORISED, f"HTTP {status}", status)
    if status < 400:
        return Unanswered(Cause.REDIRECTED, f"HTTP {status}; redirects are not followed", status)
    return Unanswered(Cause.HTTP_ERROR, f"HTTP {status}", status)


async def _bounded(response: httpx.Response) -> bytes:
    chunks = bytearray()
    async for chunk in response.aiter_raw():
        chunks += chunk
        if len(chunks) > MAX_BODY:
            raise Unanswered(Cause.TOO_LARGE, f"more than {MAX_BODY // 1024**2} MiB")
    return bytes(chunks)


def _explain(problem: Exception) -> Unanswered:
    """Name what happened; httpx wraps the system's error several layers deep."""
    layers: list[BaseException] = [problem]
    while (inner := layers[-1].__cause__ or layers[-1].__context__) and len(layers) < 10:
        layers.append(inner)
    for layer in layers:
        name, text = type(layer).__name__, str(layer)
        if isinstance(layer, ConnectionRefusedError) or "Connection refused" in text:
            return Unanswered(Cause.REFUSED, "nothing listens there")
        if name == "gaierror":
            return Unanswered(Cause.NO_SUCH_HOST, "the name does not resolve")
        if isinstance(layer, ssl.SSLError):
            return Unanswered(Cause.TLS, layer.reason or "handshake failed")
    if isinstance(problem, (httpx.RemoteProtocolError, httpx.DecodingError)):
        return Unanswered(Cause.BROKEN, "what answers does not speak HTTP, or hung up")
    return Unanswered(Cause.BROKEN, type(problem).__name__)


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

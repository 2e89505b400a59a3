"""Runs inside LiteLLM: one line for every request that an agent made, and who has one in flight now.

A line says who asked for what, where it went, how long it waited and took, what it used and what it cost: never what
was said, nor by which key. The attempt is what the agent's own header says; who has the key of the gateway can say what
they like there.

Nothing of fleet can be imported here, only the standard library and LiteLLM. `fleet.evidence.requests` reads the files.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

WHERE = "FLEET_GATEWAY_RECORDS"  # the beginning of the names of both files
HEADER = "x-fleet-attempt"
ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
LARGEST = 16 * 1024 * 1024  # bytes of a file of lines; the one before it is kept
LONGEST = 200  # characters of a name
PAUSE = 0.25  # seconds between two writings of who is in flight
LATE = 5.0  # seconds in which LiteLLM tells what a request used, after it ended
FORGOTTEN = 3600.0  # seconds; nobody waits longer for one answer
MOST = 10_000  # requests that are remembered


@dataclass(slots=True)
class Flight:
    """One request from when it came until its line is written."""

    attempt: str
    alias: str
    came: float
    sent: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Book:
    """The two files. A disk that is full costs the records, and no request."""

    lines: Path
    flying: Path
    clock: Callable[[], float] = time.time
    largest: int = LARGEST
    flights: dict[str, Flight] = field(default_factory=dict)
    written: dict[str, None] = field(default_factory=dict)
    _again: bool = False  # who is in flight will be written soon

    def come(self, call: str, attempt: str, alias: str) -> None:
        if call not in self.flights and call not in self.written:
            self._forget()
            self.flights[call] = Flight(attempt, alias, self.clock())
            self.show()

    def sent(self, call: str) -> None:
        """It has its place on a node; of several tries the last one counts."""
        if call in self.flights:
            self.flights[call].sent = self.clock()

    def over(self, call: str) -> None:
        flight = self.flights.get(call)
        if flight is not None and flight.ended is None:
            flight.ended = self.clock()
            self.show()

    def write(self, call: str, facts: Mapping[str, object]) -> None:
        """The line of a request, once, however often it is told."""
        flight = self.flights.pop(call, None)
        if flight is None or call in self.written:
            return
        self.written[call] = None
        if len(self.written) > MOST:
            del self.written[next(iter(self.written))]
        ended = flight.ended or self.clock()
        wait = None if flight.sent is None else round(max(0.0, flight.sent - flight.came), 3)
        line = {
            "at": round(ended, 3),
            "attempt": flight.attempt,
            "alias": flight.alias,
            "wait": wait,
            "seconds": round(max(0.0, ended - flight.came), 3),
            **facts,
        }
        self._append(json.dumps(line).encode() + b"\n")
        if flight.ended is None:
            self.show()

    def show(self) -> None:
        """Write who is in flight: at once, and then a few times a second at the most."""
        if self._again:
            return
        self._again = True
        self._show()
        try:
            asyncio.get_running_loop().call_later(PAUSE, self._show_again)
        except RuntimeError:
            self._again = False

    def _show_again(self) -> None:
        self._again = False
        self._show()

    def _show(self) -> None:
        since: dict[str, float] = {}
        for flight in self.flights.values():
            if flight.ended is None:
                since[flight.attempt] = min(since.get(flight.attempt, flight.came), flight.came)
        draft = self.flying.with_suffix(".draft")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(since).encode())
            os.replace(draft, self.flying)
        except OSError:
            return

    def _append(self, line: bytes) -> None:
        try:
            fd = os.open(self.lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, line)
                large = os.fstat(fd).st_size > self.largest
            finally:
                os.close(fd)
            if large:
                os.replace(self.lines, self.lines.with_suffix(".1.jsonl"))
        except OSError:
            return

    def _forget(self) -> None:
        """Let go of requests whose end nobody told."""
        old = self.clock() - FORGOTTEN
        for call in [call for call, flight in self.flights.items() if flight.came < old]:
            self.write(call, {"status": "unknown"})


def attempt_of(data: Mapping[str, Any]) -> str | None:
    """Which attempt a request says it is of."""
    headers = (data.get("proxy_server_request") or {}).get("headers") or {}
    named = next((value for name, value in headers.items() if str(name).lower() == HEADER), None)
    return named if isinstance(named, str) and ATTEMPT.match(named) else None


def call_of(data: Mapping[str, Any] | None) -> str:
    found = (data or {}).get("litellm_call_id") or ((data or {}).get("metadata") or {}).get("litellm_call_id")
    return str(found or "")


def used(told: Mapping[str, Any]) -> dict[str, object]:
    """What a request used and cost, of what LiteLLM logs. Its cost is 0 as well when it has no price: then it is not
    known, but for machines of one's own.
    """
    usage = (told.get("metadata") or {}).get("usage_object") or {}
    details = usage.get("prompt_tokens_details") or {}
    cost = told.get("response_cost")
    return {
        "model": str(told.get("model") or "")[:LONGEST],
        "prompt": told.get("prompt_tokens"),
        "completion": told.get("completion_tokens"),
        "cache_read": _first(usage.get("cache_read_input_tokens"), details.get("cached_tokens")),
        "cache_write": _first(usage.get("cache_creation_input_tokens"), details.get("cache_creation_tokens")),
        "cost": cost if isinstance(cost, int | float) and cost > 0 else None,
    }


def _first(*values: object) -> int | None:
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def placed(params: Mapping[str, Any]) -> dict[str, object]:
    """On which node a request ran, as the generated file says, and whether that is a machine of one's own."""
    info = params.get("model_info") or {}
    local = info.get("input_cost_per_token") == 0 and info.get("output_cost_per_token") == 0
    return {"node": str(info.get("node") or "")[:LONGEST], "local": bool(info.get("node")) and local}


class FleetRequests(CustomLogger):  # type: ignore[misc]
    """The hooks of LiteLLM that tell of a request: it came, it was sent, it ended, and what it used."""

    def __init__(self, where: str | None) -> None:
        super().__init__()
        self.book = Book(Path(f"{where}.requests.jsonl"), Path(f"{where}.flying.json")) if where else None

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:
        attempt, call = attempt_of(data), call_of(data)
        if self.book and attempt and call:
            self.book.come(call, attempt, str(data.get("model") or "")[:LONGEST])
        return data

    async def async_filter_deployments(
        self, model: str, healthy_deployments: list[Any], messages: Any, request_kwargs: Any = None, *_: Any, **__: Any
    ) -> list[Any]:
        """Comes after the queue's own, so the waiting is over."""
        if self.book:
            self.book.sent(call_of(request_kwargs))
        return healthy_deployments

    async def async_post_call_success_hook(self, data: Any, user_api_key_dict: Any, response: Any) -> Any:
        self._over(data)
        return response

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any = None, *_: Any, **__: Any
    ) -> None:
        status = getattr(original_exception, "status_code", None) or getattr(original_exception, "code", None)
        self._over(request_data)
        if self.book:
            self.book.write(call_of(request_data), {"status": str(status or "failed")[:LONGEST]})

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Any
    ) -> AsyncIterator[Any]:
        try:
            async for item in response:
                yield item
        finally:
            self._over(request_data)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        told = kwargs.get("standard_logging_object") or {}
        if self.book:
            facts = {"status": "ok", **placed(kwargs.get("litellm_params") or {}), **used(told)}
            self.book.write(call_of(kwargs), facts)

    def _over(self, data: Any) -> None:
        """It ended. What it used is told beside, a moment later, or never: then the line says just that it was."""
        call = call_of(data)
        if self.book and call:
            self.book.over(call)
            asyncio.get_running_loop().call_later(LATE, self.book.write, call, {"status": "unknown"})


requests = FleetRequests(os.environ.get(WHERE))

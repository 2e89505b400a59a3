"""Runs inside LiteLLM: a request waits for a free slot on its node instead of being refused or piling up there.

LiteLLM's own cap per deployment refuses what is over it and frees the slot of a stream too early. Here a node runs at
most `max_parallel` requests of a model at once, over all aliases; the others wait in the order they came. Of several
nodes that could take a request, the one with most room is chosen, and one that has just failed only when there is no
other.

Nothing of fleet can be imported here, only the standard library and LiteLLM.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

PENALTY = 30.0  # seconds a node is avoided after it failed
PROBE = "x-fleet-probe"  # a header: fleet asks only to see whether an answer comes
GRACE = 60.0  # seconds after its time limit when a slot that nobody gave back is taken back


@dataclass(frozen=True, slots=True)
class Candidate:
    """One deployment as the queue sees it; a cap of None is no cap."""

    key: str
    node: str
    model_cap: int | None
    node_cap: int | None


@dataclass(slots=True)
class Lease:
    candidate: Candidate
    expires: float


@dataclass(slots=True)
class Waiter:
    candidates: tuple[Candidate, ...]
    seconds: float
    chosen: asyncio.Future[Candidate]


@dataclass(slots=True)
class Slots:
    """Who runs where, and who waits; one instance, used from one event loop."""

    clock: Callable[[], float] = time.monotonic
    leases: dict[str, Lease] = field(default_factory=dict)
    waiting: dict[str, Waiter] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)

    async def take(self, call: str, candidates: Iterable[Candidate], seconds: float) -> Candidate:
        """A slot for the call, at once or when one is free. Asking again gives the same one, where it still fits."""
        offered = tuple(candidates)
        held = self.leases.get(call)
        if held and held.candidate in offered:
            return held.candidate
        self.give_back(call)
        fresh = Waiter(offered, seconds, asyncio.get_running_loop().create_future())
        waiter = self.waiting.setdefault(call, fresh)  # asked twice at once, a call still waits only once
        self.serve()
        try:
            while not waiter.chosen.done():
                # Wakes by itself now and then, in case a slot was never given back.
                await asyncio.wait([waiter.chosen], timeout=1.0)
                self.serve()
            return waiter.chosen.result()
        except asyncio.CancelledError:
            self.give_back(call)
            raise
        finally:
            self.waiting.pop(call, None)

    def give_back(self, call: str, *, failed: bool = False) -> None:
        lease = self.leases.pop(call, None)
        if lease is None:
            return
        if failed:
            self.failed[lease.candidate.node] = self.clock() + PENALTY
        else:
            self.failed.pop(lease.candidate.node, None)
        self.serve()

    def serve(self) -> None:
        """Hand out what is free, to those who came first. One whose nodes are full holds up nobody else."""
        now = self.clock()
        for call in [call for call, lease in self.leases.items() if lease.expires < now]:
            del self.leases[call]
        for call, waiter in self.waiting.items():
            if waiter.chosen.done():
                continue
            chosen = self.pick(waiter.candidates, now)
            if chosen:
                self.leases[call] = Lease(chosen, now + waiter.seconds + GRACE)
                waiter.chosen.set_result(chosen)

    def pick(self, candidates: Iterable[Candidate], now: float) -> Candidate | None:
        """The candidate with a free slot that has not just failed and has least to do; None when all are full."""
        free = [candidate for candidate in candidates if self.has_room(candidate)]
        return min(free, key=lambda c: (self.failed.get(c.node, 0) > now, self.on_node(c.node)), default=None)

    def has_room(self, candidate: Candidate) -> bool:
        of_model = sum(lease.candidate.key == candidate.key for lease in self.leases.values())
        return (candidate.model_cap is None or of_model < candidate.model_cap) and (
            candidate.node_cap is None or self.on_node(candidate.node) < candidate.node_cap
        )

    def on_node(self, node: str) -> int:
        return sum(lease.candidate.node == node for lease in self.leases.values())


def candidate(deployment: Mapping[str, Any]) -> Candidate | None:
    """What the generated file says of a deployment; None for one that is not ours."""
    info = deployment.get("model_info") or {}
    if "node" not in info:
        return None
    key = f"{info['node']}/{deployment.get('litellm_params', {}).get('model')}"
    return Candidate(key, info["node"], info.get("model_slots"), info.get("node_slots"))


def call_of(data: Mapping[str, Any] | None) -> str | None:
    found = (data or {}).get("litellm_call_id") or ((data or {}).get("metadata") or {}).get("litellm_call_id")
    return str(found) if found else None


class Busy(Exception):
    """Said to a probe instead of letting it wait; 423, so that LiteLLM does not try again."""

    status_code = 423


def is_probe(data: Mapping[str, Any] | None) -> bool:
    headers = ((data or {}).get("proxy_server_request") or {}).get("headers") or {}
    return PROBE in {str(name).lower() for name in headers}


def is_the_nodes_fault(problem: object) -> bool:
    """A request that the node understood and refused says nothing against the node."""
    status = getattr(problem, "status_code", None)
    return not (isinstance(status, int) and 400 <= status < 500)


class FleetSlots(CustomLogger):  # type: ignore[misc]
    """The hooks of LiteLLM that take a slot and give it back."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots()

    async def async_filter_deployments(
        self, model: str, healthy_deployments: list[Any], messages: Any, request_kwargs: Any = None, *_: Any, **__: Any
    ) -> list[Any]:
        call = call_of(request_kwargs)
        ours = {found: each for each in healthy_deployments if (found := candidate(each))}
        if call is None or not ours:
            return healthy_deployments
        if is_probe(request_kwargs) and not any(map(self.slots.has_room, ours)):
            raise Busy("fleet: busy with other requests")
        seconds = max(float(each.get("litellm_params", {}).get("timeout") or 600) for each in ours.values())
        return [ours[await self.slots.take(call, ours, seconds)]]

    async def async_post_call_success_hook(self, data: Any, user_api_key_dict: Any, response: Any) -> Any:
        self._done(data)
        return response

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any = None, *_: Any, **__: Any
    ) -> None:
        self._done(request_data, failed=is_the_nodes_fault(original_exception))

    async def async_post_call_failure_deployment_hook(
        self, request_data: Any, exception: Any = None, *_: Any, **__: Any
    ) -> None:
        self._done(request_data, failed=is_the_nodes_fault(exception))

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Any
    ) -> AsyncIterator[Any]:
        broken = False
        try:
            async for item in response:
                yield item
        except Exception as problem:
            broken = is_the_nodes_fault(problem)
            raise
        finally:
            self._done(request_data, failed=broken)

    def _done(self, data: Any, *, failed: bool = False) -> None:
        call = call_of(data)
        if call:
            self.slots.give_back(call, failed=failed)


slots = FleetSlots()

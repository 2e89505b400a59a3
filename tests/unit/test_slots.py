"""The queue inside the gateway: caps hold, first come first served, nothing is held for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from standins.callbacks import load

slots = load("fleet_slots")
ONE = slots.Candidate("big/m", "big", 1, 1)
SMALL = slots.Candidate("small/m", "small", 1, 1)
OTHER_ON_BIG = slots.Candidate("big/other", "big", 1, 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_over_the_cap_a_request_waits_and_those_who_came_first_go_first() -> None:
    async def story() -> None:
        queue, order = slots.Slots(), []

        async def work(name: str) -> None:
            await queue.take(name, [ONE], 10)
            order.append(name)

        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        await settle()
        assert order == ["a"]
        queue.give_back("a")
        await settle()
        assert order == ["a", "b"]
        queue.give_back("b")
        await asyncio.gather(*tasks)
        assert order == ["a", "b", "c"]

    run(story())


def test_the_cap_of_a_node_is_shared_by_its_models() -> None:
    async def story() -> None:
        queue = slots.Slots()
        await queue.take("a", [ONE], 10)
        waiting = asyncio.create_task(queue.take("b", [OTHER_ON_BIG], 10))
        await settle()
        assert not waiting.done()
        queue.give_back("a")
        assert await waiting == OTHER_ON_BIG

    run(story())


def test_a_full_node_holds_up_nobody_on_another() -> None:
    async def story() -> None:
        queue = slots.Slots()
        await queue.take("a", [ONE], 10)
        waiting = asyncio.create_task(queue.take("b", [ONE], 10))
        await settle()
        assert await queue.take("c", [SMALL], 10) == SMALL
        waiting.cancel()

    run(story())


def test_of_two_nodes_the_free_one_is_taken_and_a_failed_one_last() -> None:
    async def story() -> None:
        clock = Clock()
        queue = slots.Slots(clock)
        assert await queue.take("a", [ONE, SMALL], 10) == ONE
        assert await queue.take("b", [ONE, SMALL], 10) == SMALL
        queue.give_back("a", failed=True)
        queue.give_back("b")
        assert await queue.take("c", [ONE, SMALL], 10) == SMALL
        queue.give_back("c")
        assert await queue.take("d", [ONE], 10) == ONE, "the only one is used all the same"
        clock.now += slots.PENALTY + 1
        queue.give_back("d", failed=False)
        assert await queue.take("e", [ONE, SMALL], 10) == ONE

    run(story())


def test_asking_twice_for_one_call_takes_one_slot() -> None:
    async def story() -> None:
        queue = slots.Slots()
        assert await queue.take("a", [ONE], 10) == await queue.take("a", [ONE], 10)
        assert len(queue.leases) == 1

    run(story())


def test_a_client_that_leaves_the_queue_is_forgotten() -> None:
    async def story() -> None:
        queue = slots.Slots()
        await queue.take("a", [ONE], 10)
        leaving = asyncio.create_task(queue.take("b", [ONE], 10))
        await settle()
        leaving.cancel()
        await settle()
        queue.give_back("a")
        assert (queue.leases, queue.waiting) == ({}, {})

    run(story())


def test_a_slot_that_nobody_gives_back_is_taken_back() -> None:
    async def story() -> None:
        clock = Clock()
        queue = slots.Slots(clock)
        await queue.take("lost", [ONE], 10)
        clock.now += 10 + slots.GRACE + 1
        assert await queue.take("next", [ONE], 10) == ONE

    run(story())


def test_no_cap_is_no_cap() -> None:
    async def story() -> None:
        queue = slots.Slots()
        cloud = slots.Candidate("cloud/m", "cloud", None, None)
        for n in range(50):
            await queue.take(str(n), [cloud], 10)
        assert queue.on_node("cloud") == 50

    run(story())


@pytest.mark.parametrize("deployment", [{}, {"model_info": None}, {"model_info": {"id": "x"}}])
def test_a_deployment_that_is_not_ours_is_left_alone(deployment: dict[str, Any]) -> None:
    assert slots.candidate(deployment) is None


def test_a_probe_does_not_wait_and_takes_nobodys_place() -> None:
    async def story() -> None:
        hooks = slots.FleetSlots()
        deployment = {
            "model_info": {"node": "big", "model_slots": 1, "node_slots": 1},
            "litellm_params": {"model": "m"},
        }
        marked = {"litellm_call_id": "p", "proxy_server_request": {"headers": {"X-Fleet-Probe": "1"}}}
        await hooks.async_filter_deployments("a", [deployment], [], {"litellm_call_id": "at work"})
        with pytest.raises(slots.Busy) as refused:
            await hooks.async_filter_deployments("a", [deployment], [], marked)
        assert refused.value.status_code == 423, "LiteLLM tries it once"
        await hooks.async_post_call_failure_hook(marked, refused.value)
        assert list(hooks.slots.leases) == ["at work"]
        assert hooks.slots.failed == {}, "a busy node has not failed"
        hooks.slots.give_back("at work")
        assert await hooks.async_filter_deployments("a", [deployment], [], marked) == [deployment]

    run(story())

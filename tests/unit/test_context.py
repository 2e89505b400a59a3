"""The context inside the gateway: which nodes have room for a prompt, and how long the answer may be."""

from __future__ import annotations

from typing import Any

import pytest

from standins.callbacks import load

context = load("fleet_context")


def deployment(tokens: int) -> dict[str, Any]:
    return {"model_info": {"context": tokens, "max_input_tokens": tokens * 3 // 4}}


SMALL, BIG = deployment(8000), deployment(32000)
CLOUD: dict[str, Any] = {"model_info": {}}


@pytest.mark.parametrize(
    ("size", "fitting"),
    [
        (4 * 6000, [SMALL, BIG]),
        (4 * 6001, [BIG]),
        (4 * 24001, [SMALL, BIG]),  # none of them: LiteLLM refuses it in its own words
    ],
)
def test_a_prompt_goes_to_a_node_that_has_room_for_it(size: int, fitting: list[dict[str, Any]]) -> None:
    assert context.that_fit([SMALL, BIG], size) == fitting
    assert context.that_fit([SMALL, CLOUD], 4 * 24001) == [CLOUD]


@pytest.mark.parametrize(
    ("deployments", "size", "asked", "given"),
    [
        ([BIG], 300, 32000, 31900),
        ([BIG], 300, 4096, 4096),
        ([SMALL, BIG], 300, 32000, 7900),
        ([BIG], 3 * 30000, 32000, 4000),  # by its bytes nearly full: an eighth is always left
        ([CLOUD], 300, 32000, 32000),
    ],
)
def test_an_answer_is_no_longer_than_the_prompt_leaves(
    deployments: list[dict[str, Any]], size: int, asked: int, given: int
) -> None:
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        request: dict[str, Any] = {name: asked}
        context.cap_answer(request, deployments, size)
        assert request == {name: given}


def test_an_answer_without_a_limit_gets_none() -> None:
    request: dict[str, Any] = {"max_tokens": None}
    context.cap_answer(request, [BIG], 300)
    assert request == {"max_tokens": None}


def test_all_of_a_prompt_is_counted_and_nothing_else() -> None:
    said = {
        "system": "s" * 100,
        "messages": [{"content": "é" * 100}],
        "tools": [{"name": "t" * 100}],
        "metadata": "m" * 900,
    }
    assert 400 < context.prompt_bytes(said) < 500

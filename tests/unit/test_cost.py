"""What attempts cost: prices, two accounts of one attempt, and which of them counts. Figures are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from fleet.core.work import Attempt, Usage
from fleet.evidence import prices
from fleet.evidence.cost import Basis, Source, dollars, exact, reckon, total
from fleet.evidence.requests import Request, Served, add

BASE = Attempt("t1.1", "t1", 1, "c", "m", "/", "me", 1000.0, started=1000.0)
SPRING = 1_767_225_600.0  # the first of January 2026


def a_cent_a_token(model: str, usage: Usage, at: float) -> Decimal | None:
    return Decimal(usage.total) / 100 if model == "listed" else None


def none_local(attempt: Attempt, model: str) -> bool:
    return model == "own"


def served(**facts: object) -> Served:
    known = {"alias": "a", "model": "m", "node": "n", "local": False, "requests": 1, "usage": Usage(90, 10)}
    return Served(**{**known, "untold": 0, "wait": 0.0, "last": 1001.0, **facts})  # type: ignore[arg-type]


def test_the_price_list_knows_what_a_cache_is_worth() -> None:
    """Claude Sonnet 4.5: 3 dollars a million read, 0.30 from the cache, 3.75 into it, 15 written."""
    usage = Usage(1_000_000, 10_000, 800_000, 100_000)
    assert prices.price("claude-sonnet-4-5", usage, SPRING) == Decimal("0.3") + Decimal("0.24") + Decimal(
        "0.375"
    ) + Decimal("0.15")
    assert prices.price("claude-sonnet-4-5", Usage(1_000_000, 0), SPRING) == 3, "no word of a cache: all at full price"


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("claude-sonnet-4-5-20250929", "3"),
        ("claude-sonnet-4-5[1m]", "3"),
        ("anthropic/claude-sonnet-4-5", "3"),
        ("openrouter/anthropic/claude-sonnet-4.5", "3"),
        ("gemini/gemini-2.5-pro", "1.25"),
        ("gpt-5-codex", "1.25"),
    ],
)
def test_a_model_is_found_under_the_names_that_agents_give_it(model: str, cost: str) -> None:
    assert prices.price(model, Usage(1_000_000, 0), SPRING) == Decimal(cost)


@pytest.mark.parametrize("model", ["", "sonnet", "qwen3-coder:30b", "claude-opus-99", "other models", "ollama/x", "/"])
def test_a_model_that_is_on_no_list_has_no_price_and_not_0(model: str) -> None:
    assert prices.price(model, Usage(1000, 1), SPRING) is None


@pytest.mark.parametrize(
    ("facts", "cost", "basis"),
    [
        ({"tokens": 100, "usage": {"m": Usage(90, 10)}, "cost": 0.1}, "0.1", {Basis.REPORTED}),
        ({"tokens": 100, "usage": {"listed": Usage(90, 10)}}, "1", {Basis.ESTIMATED}),
        ({"tokens": 100, "usage": {"listed": Usage(90, 10)}, "cost": 0.1}, "0.1", {Basis.REPORTED}),
        ({"tokens": 100, "usage": {"own": Usage(90, 10)}}, "0", {Basis.LOCAL}),
        ({"tokens": 100, "usage": {"own": Usage(90, 10)}, "cost": 7.5}, "0", {Basis.LOCAL}),
        ({"tokens": 100, "usage": {"m": Usage(90, 10)}}, None, {Basis.UNKNOWN}),
        ({"tokens": 100}, None, {Basis.UNKNOWN}),
        ({"cost": 0.25}, "0.25", {Basis.REPORTED}),
        (
            {"tokens": 3, "usage": {"listed": Usage(1, 0), "own": Usage(1, 0), "m": Usage(1, 0)}},
            "0.01",
            {Basis.ESTIMATED, Basis.LOCAL, Basis.UNKNOWN},
        ),
        (
            {"tokens": 4, "cost": 0.3, "usage": {"m": Usage(1, 1, cost=0.1), "listed": Usage(1, 1, cost=0.2)}},
            "0.3",
            {Basis.REPORTED},
        ),
        ({"tokens": 4, "cost": 0.3, "usage": {"m": Usage(1, 1), "listed": Usage(1, 1)}}, "0.3", {Basis.REPORTED}),
    ],
)
def test_what_an_agent_tells_is_priced(facts: dict[str, object], cost: str | None, basis: set[Basis]) -> None:
    found = reckon(replace(BASE, **facts), (), a_cent_a_token, none_local)  # type: ignore[arg-type]
    assert found.counted is not None
    assert (found.cost, set(found.counted.basis)) == (None if cost is None else Decimal(cost), basis)
    assert (found.counted.source, found.difference) == (Source.AGENT, "")
    assert found.whole is (Basis.UNKNOWN not in basis)


def test_who_told_nothing_cost_something_unknown() -> None:
    found = reckon(BASE, (), a_cent_a_token, none_local)
    assert (found.counted, found.cost, found.whole) == (None, None, False)


@pytest.mark.parametrize(
    ("tokens", "cost", "seen", "counts", "sum_", "difference"),
    [
        (100, 1.0, served(usage=Usage(90, 10, cost=1.02)), "gateway", "1.02", ""),
        (100, 1.0, served(usage=Usage(90, 10, cost=2.0)), "gateway", "2",
         "the agent says $1.00, the gateway $2.00, which counts"),
        (100, 0.31, served(local=True), "gateway", "0", "the agent says $0.31, the gateway $0.00, which counts"),
        (105, 1.0, served(usage=Usage(90, 10, cost=1.0)), "gateway", "1", ""),
        (1000, 1.0, served(usage=Usage(90, 10, cost=0.1)), "agent", "1",
         "the gateway saw 100 of 1000 tokens: the agent's word counts"),
        (None, None, served(usage=Usage(90, 10, cost=0.1)), "gateway", "0.1", ""),
        (100, None, served(model="listed"), "gateway", "1", ""),
        (100, 1.0, served(last=999.0), "agent", "1", ""),
    ],
)  # fmt: skip
def test_the_gateways_account_counts_when_it_saw_all(
    tokens: int | None, cost: float | None, seen: Served, counts: str, sum_: str, difference: str
) -> None:
    usage = {} if tokens is None else {"m": Usage(tokens, 0)}
    attempt = replace(BASE, tokens=tokens, cost=cost, usage=usage)
    found = reckon(attempt, [seen], a_cent_a_token, none_local)
    assert found.counted is not None
    assert (found.counted.source.value, found.cost, found.difference) == (counts, Decimal(sum_), difference)


def test_a_request_whose_end_nobody_told_makes_the_sum_a_part() -> None:
    found = reckon(
        BASE, [served(usage=Usage(90, 10, cost=1.0)), served(usage=Usage(), untold=1)], a_cent_a_token, none_local
    )
    assert (found.cost, found.whole) == (Decimal(1), False)
    assert found.gateway is not None
    assert found.gateway.requests == 2


def test_requests_of_one_kind_are_added_up_and_those_without_a_price_apart() -> None:
    kinds: dict[tuple[object, ...], Served] = {}
    one = Request(10.0, "t1.1", "a", "ok", 0.5, 2.0, "m", "n", False, 100, 10, 50, None, 0.1)
    left = replace(one, status="499", prompt=None)
    refused = Request(12.0, "t1.1", "a", "400")
    for request in (one, replace(one, at=11.0, cost=0.2), replace(one, cost=None), left, refused):
        add(kinds, request)
    found = {(kind.model, kind.usage.cost is None): kind for kind in kinds.values()}
    priced, unpriced, failed = found["m", False], found["m", True], found["", True]
    assert (priced.requests, priced.usage.prompt, priced.untold, priced.last) == (3, 200, 1, 11.0)
    assert exact(priced.usage.cost or 0) == Decimal("0.4")
    assert (unpriced.requests, unpriced.usage) == (1, Usage(100, 10, 50))
    assert (failed.requests, failed.usage.total, failed.untold) == (1, 0, 0)


def test_sums_have_no_dust() -> None:
    assert total(exact(0.1) for _ in range(10)) == 1
    assert total([exact(0.1), None, exact(0.2)]) == Decimal("0.3")
    assert total([None, None]) is None
    assert [dollars(Decimal(one)) for one in ("0", "0.0312", "0.1", "12.345", "1234.5")] == [
        "$0.00", "$0.0312", "$0.10", "$12.34", "$1234.50",
    ]  # fmt: skip

"""Which model of this machine suits which role."""

from __future__ import annotations

import pytest

from fleet.core.fleet import Kind, Node
from fleet.nodes import Found, ServedModel, pair, usual_places
from fleet.nodes.local import bits_per_weight, weight
from fleet.nodes.ollama import billions

NODE = Node("local-ollama", Kind.OLLAMA, "http://127.0.0.1:11434")


@pytest.mark.parametrize(
    ("words", "expected"),
    [("7.6B", 7.6), ("134.52M", 0.13452), ("qwen2.5-coder:32b", 32.0), ("1.5T", 1500.0), ("latest", None), ("", None)],
)
def test_parameters_are_read_in_billions(words: str, expected: float | None) -> None:
    assert billions(words) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "bits"), [("Q4_K_M", 4), ("F16", 16), ("BF16", 16), ("IQ3_XS", 3), ("MXFP4", 4), ("", 4.5), ("qwen", 4.5)]
)
def test_quantisation_is_read_as_bits(words: str, bits: float) -> None:
    assert bits_per_weight(words) == bits


def names(*models: ServedModel) -> tuple[str, str] | None:
    found = pair([Found(NODE, models)])
    return (found.small[1].name, found.big[1].name) if found else None


def test_the_smallest_plans_and_the_biggest_implements() -> None:
    models = [ServedModel(f"m:{n}b", parameters=n) for n in (14.0, 7.0, 32.0)]
    assert names(*models) == ("m:7.0b", "m:32.0b")


def test_at_equal_parameters_more_bits_are_bigger() -> None:
    four, eight = (ServedModel(q, parameters=7, quantisation=q) for q in ("Q4_0", "Q8_0"))
    assert names(eight, four) == ("Q4_0", "Q8_0")


def test_one_model_serves_both_and_none_serves_none() -> None:
    assert names(ServedModel("only:3b")) == ("only:3b", "only:3b")
    assert names() is None


def test_size_on_disk_stands_in_for_untold_parameters() -> None:
    assert weight(ServedModel("mystery", bytes=9_000_000_000))[0] == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:5000", "http://127.0.0.1:5000"),
        (":5000", "http://127.0.0.1:5000"),
        ("box:5000", "http://box:5000"),
        ("https://box", "https://box:443"),
        ("http://box", "http://box:80"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, endpoint: str) -> None:
    assert usual_places({"OLLAMA_HOST": host})[0].endpoint == endpoint

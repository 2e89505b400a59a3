from __future__ import annotations

import secrets

import pytest

from fleet.gateway.environment import bad_release
from fleet.gateway.keys import weakness


@pytest.mark.parametrize(
    "key", ["", "sk-1234", "sk-local-dev", "x" * 60, "sk-" + "ab" * 20, "sk-local dev" * 5, "sk-change-me-please-now"]
)
def test_a_weak_key_is_refused(key: str) -> None:
    assert weakness(key)


@pytest.mark.parametrize("_", range(50))
def test_a_random_key_is_strong(_: int) -> None:
    assert weakness(f"sk-fleet-{secrets.token_urlsafe(32)}") is None


@pytest.mark.parametrize(
    ("release", "bad"), [("1.82.7", True), ("1.82.8", True), ("1.83.9", True), ("1.84.0", False), ("1.106.2", False)]
)
def test_known_bad_releases_of_litellm(release: str, bad: bool) -> None:
    assert (bad_release(release) is not None) is bad

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.core.text import clean


@given(st.text(max_size=400))
def test_cleaned_text_is_one_printable_line(text: str) -> None:
    shown = clean(text)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) <= 200


def test_escape_sequences_lose_their_escape() -> None:
    assert (
        clean("a\x1b]0;owned\x07b\u202ec")
        == "a\N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"
    )

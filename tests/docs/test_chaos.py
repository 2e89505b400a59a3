"""The guide to chaos is true: it names every agent, and says what each one does."""

from __future__ import annotations

from pathlib import Path

from fleet.chaos.script import TRAITS, Behaviour

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs/guides/chaos.md"


def test_the_guide_says_what_every_agent_does() -> None:
    text = GUIDE.read_text()
    rows = {one: next((line for line in text.splitlines() if line.startswith(f"| `{one}` |")), "") for one in Behaviour}
    assert [one for one, row in rows.items() if TRAITS[one].does not in row] == []

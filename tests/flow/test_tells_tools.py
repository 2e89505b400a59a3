"""A declared coder that tells its tool calls, and claims work without one: it is refused where it is known to tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch

RESULT = json.dumps({"kind": "result", "ok": True, "text": "All done."})
CALL = json.dumps({"kind": "tool_called", "tool": "write", "call": "c1", "text": "work.txt"})
REASON = "it called no tool, so what it says it did was not done by it"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


def says(*lines: str) -> dict[str, object]:
    told = "; ".join(f"echo '{line}'" for line in lines)
    return {"argv": ["/bin/sh", "-c", f"cat >/dev/null; echo x >work.txt; {told}"], "events": "jsonl"}


def proof(home: Scratch, coder: str) -> tuple[str, str]:
    place = home.place(f"{coder}-{len(home.tasks())}", git=True)
    task = home.add("work", "--coder", coder, "--check", "test -f work.txt", "--attempts", "1", cwd=place)
    home.drain()
    receipt = home.receipt(task)
    return receipt["verdict"], receipt["reason"]


def test_whoever_is_declared_to_tell_tool_calls_is_held_to_it(home: Scratch) -> None:
    coders = {"tells": says(RESULT) | {"tools": True}, "works": says(CALL, RESULT) | {"tools": True}}
    home.settle("coder=tells", coders=coders)
    assert proof(home, "tells") == ("refused", REASON)
    assert proof(home, "works")[0] == "verified"
    refused = home.fleet("config", "set", "coders.tells.events=text")
    assert (refused.code, "tools" in refused.err) == (2, True)


@pytest.mark.long
def test_whoever_has_told_one_is_held_to_it_from_then_on_unless_it_is_said_not_to_be(home: Scratch) -> None:
    home.settle("coder=mine", coders={"mine": says(RESULT), "other": says(RESULT)})
    assert proof(home, "mine")[0] == "verified", "nobody knows yet whether it tells"
    home.settle(coders={"mine": says(CALL, RESULT)})
    assert proof(home, "mine")[0] == "verified"
    home.settle(coders={"mine": says(RESULT)})
    assert proof(home, "mine") == ("refused", REASON)
    assert proof(home, "other")[0] == "verified"
    home.settle("coders.mine.tools=false")
    assert proof(home, "mine")[0] == "verified"

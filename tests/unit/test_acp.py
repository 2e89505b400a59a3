"""What an agent's messages mean that speaks the Agent Client Protocol: whatever is in them, in whatever order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.coders.acp import Turn, chosen, models, refused
from fleet.core.work import Event, EventKind

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "usage_update", "plan")
KEYS = ("toolCallId", "status", "rawInput", "content", "rawOutput", "messageId", "used", "size", "cost", "title")


def tool(update: str = "tool_call_update", **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": update, "toolCallId": "c", **more}


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}


def heard(*updates: dict[str, Any]) -> list[Event]:
    turn = Turn()
    return [*(event for update in updates for event in turn.hear(update)), *turn.pause()]


@pytest.mark.parametrize(
    ("updates", "tool_name", "text"),
    [
        # Claude Code announces a call without its input
        ([tool("tool_call", name="Write", kind="edit", rawInput={}), tool(rawInput={"path": "x"})], "Write", "x"),
        # OpenCode with half of it
        (
            [tool("tool_call", kind="fetch", rawInput={"cwd": "/"}), tool(status="in_progress", rawInput={"url": "u"})],
            "fetch",
            "u",
        ),
        # others tell nothing but a title
        ([tool("tool_call", title="Reading x", status="in_progress")], "tool", "Reading x"),
        ([tool("tool_call", title="Reading x"), tool(status="completed")], "tool", "Reading x"),
    ],
)  # fmt: skip
def test_a_call_is_told_once_with_its_input(updates: list[dict[str, Any]], tool_name: str, text: str) -> None:
    events = heard(*updates, tool(status="completed"), tool(status="completed"), tool(rawInput={"path": "y"}))
    assert events == [
        Event(EventKind.TOOL_CALLED, tool=tool_name, text=text, call="c"),
        Event(EventKind.TOOL_ENDED, call="c", ok=True),
    ]


def test_a_call_that_is_told_of_only_when_permission_is_asked_is_told() -> None:
    asked = {"toolCall": {"toolCallId": "c", "kind": "edit", "title": "Write x", "rawInput": {"path": "x"}}}
    assert Turn().asked(asked) == [Event(EventKind.TOOL_CALLED, tool="edit", text="x", call="c")]


def test_pieces_are_one_message_until_another_begins_or_something_is_done() -> None:
    one, two = says("a", messageId="1"), says("b", messageId="1")
    assert [event.text for event in heard(one, two, says("c", messageId="2"))] == ["ab", "c"]
    usage = {"sessionUpdate": "usage_update", "used": 1}
    assert [event.text for event in heard(one, usage, two) if event.text] == ["ab"]
    assert [event.kind for event in heard(one, tool(status="failed"), two)][::3] == [EventKind.SAID, EventKind.SAID]
    assert len(heard(*[says("x" * 10_000)] * 20)) > 1, "what never ends is not kept for ever"


def test_thoughts_are_noticed_and_not_told() -> None:
    thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}
    assert [event.text for event in heard(thought, thought, says("a"), thought)] == ["thinking", "a", "thinking"]


def test_a_price_that_nobody_knows_and_a_currency_that_is_no_dollar_are_no_cost() -> None:
    def spent(*costs: tuple[float, str]) -> list[float | None]:
        told = [{"sessionUpdate": "usage_update", "cost": {"amount": n, "currency": unit}} for n, unit in costs]
        return [event.spent for event in heard(*told)]

    assert spent((0, "USD"), (2, "EUR"), (1, "USD"), (3, "USD"), (1, "USD")) == [None, None, 1.0, 2.0, None]


@pytest.mark.parametrize(
    ("options", "allow", "reject"),
    [
        (["allow_always", "allow_once", "reject_once"], "allow_once", "reject_once"),
        (["allow_always", "reject_always"], "allow_always", "reject_always"),
        (["reject_once"], None, "reject_once"),
        ([], None, None),
    ],
)
def test_a_permission_is_answered_once_rather_than_for_good(
    options: list[str], allow: str | None, reject: str | None
) -> None:
    offered = [{"kind": kind, "optionId": kind} for kind in options]
    assert (chosen(offered, "allow"), chosen(offered, "reject")) == (allow, reject)
    assert chosen("no list", "allow") is None


def test_a_model_is_chosen_by_option_or_by_the_older_way() -> None:
    option = {"id": "m", "category": "model", "type": "select", "currentValue": "small"}
    assert models({"configOptions": [{"id": "mode", "category": "mode"}, option]}) == ("small", {"configId": "m"})
    assert models({"models": {"currentModelId": "small"}}) == ("small", {"modelId": None})
    assert models({}) == (None, {})


@pytest.mark.parametrize(
    ("code", "message", "data", "last", "text", "status"),
    [
        (-32603, "Internal error", {"details": "401 bad key"}, "", "Internal error: 401 bad key", 401),
        (-32603, "Rejected (429)", {"errorKind": "rate_limit"}, "Rejected (429)", "Rejected (429)", 429),
        (-32603, "Slow down", {"errorKind": "rate_limit"}, "", "Slow down", 429),
        (-32000, "Log in first", None, "The key is spent", "Log in first (The key is spent)", 401),
        (503, "overloaded", None, "", "overloaded", 503),
        (-32603, "", 5, "", "it did not say what", None),
        (-32603, "400 lines are too many", None, "", "400 lines are too many", None),
    ],
)  # fmt: skip
def test_what_a_provider_answered_is_found(
    code: int, message: str, data: object, last: str, text: str, status: int | None
) -> None:
    assert refused(code, message, data, last) == (text, status)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), ANYTHING), max_size=6), st.data())
def test_anything_can_stand_anywhere_in_a_message(updates: list[dict[str, Any]], data: st.DataObject) -> None:
    turn = Turn()
    for update in updates:
        events = turn.hear({"sessionUpdate": data.draw(st.sampled_from(KINDS) | ANYTHING), **update})
        events += turn.asked({"toolCall": update})
        assert all(event.spent is None or event.spent > 0 for event in events)
    answer = data.draw(st.dictionaries(st.sampled_from(("stopReason", "usage")), ANYTHING))
    assert turn.end(answer)[-1].ok is False

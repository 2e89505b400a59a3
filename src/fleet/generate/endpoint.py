"""What every CLI that speaks an OpenAI protocol must know of the endpoint it talks to."""

from __future__ import annotations

from fleet.core.fleet import Fleet

HEADER, ATTEMPT = "x-fleet-attempt", "FLEET_ATTEMPT"  # which attempt a request to the gateway is of, and who knows it


def api_url(fleet: Fleet) -> str:
    return f"{fleet.base_url}/v1"


def key_env(fleet: Fleet) -> str | None:
    """The variable that holds the key: the gateway's, or in direct mode the node's own, if it has one."""
    if not fleet.is_direct:
        return fleet.gateway.master_key_env
    return fleet.node_of(fleet.models[next(iter(fleet.agents.values())).model]).api_key_env


def contexts(fleet: Fleet) -> dict[str, int]:
    """The context window behind each name that is asked for; the smallest, where several models share the name."""
    windows: dict[str, int] = {}
    for model in fleet.within_reach():
        asked = fleet.asked(model)
        windows[asked] = min(model.context, windows.get(asked, model.context))
    return windows


def longest_answer(context: int) -> int:
    """Tokens kept free for one answer: a quarter of the window, and never more than local models write well."""
    return min(8192, context // 4)


def claude_answer_tokens(context: int) -> int:
    """Tokens that Claude Code may ask for in one answer; unless they are few, it sends nothing at a small context."""
    return context // 8

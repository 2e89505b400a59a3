"""Runs inside LiteLLM: a request keeps within the context of the model that it goes to.

LiteLLM refuses a prompt that cannot fit, but looks at it only after a node was chosen, and leaves the length of the
answer as the client asks for it: vLLM refuses an answer that is longer than what the prompt leaves. Here the prompt is
estimated by its bytes, which costs next to nothing; LiteLLM counts its tokens afterwards.

Nothing of fleet can be imported here, only the standard library and LiteLLM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

BYTES_PER_TOKEN = 4.0  # of prompts of coding agents; measured: 4.4
FEWEST_BYTES_PER_TOKEN = 3.0  # of dense code, so that an answer is not asked for that does not fit
ANSWER_SHARE = 8  # an eighth of the context is always left, see max_input_tokens in the generated file
PROMPT_PARTS = ("system", "instructions", "messages", "input", "tools")
ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# How Ollama refuses a prompt over its context. Claude Code does not shorten its conversation at these words.
NOT_UNDERSTOOD = "input length exceeds the context length"


def prompt_bytes(request: Mapping[str, Any]) -> int:
    parts = [request[part] for part in PROMPT_PARTS if request.get(part)]
    return len(json.dumps(parts, ensure_ascii=False, default=str).encode(errors="replace"))


def that_fit(deployments: Sequence[Mapping[str, Any]], size: int) -> list[Mapping[str, Any]]:
    """The deployments whose context has room for a prompt of so many bytes; all of them when none has."""
    limits = [(each, (each.get("model_info") or {}).get("max_input_tokens")) for each in deployments]
    fitting = [each for each, limit in limits if limit is None or size / BYTES_PER_TOKEN <= limit]
    return fitting or list(deployments)


def cap_answer(request: MutableMapping[str, Any], deployments: Sequence[Mapping[str, Any]], size: int) -> None:
    """Ask for no longer an answer than the smallest of the contexts leaves."""
    contexts = [info["context"] for each in deployments if "context" in (info := each.get("model_info") or {})]
    if not contexts:
        return
    smallest = min(contexts)
    left = max(smallest // ANSWER_SHARE, int(smallest - size / FEWEST_BYTES_PER_TOKEN))
    for name in ANSWER_LIMITS:
        asked = request.get(name)
        if isinstance(asked, int) and asked > left:
            request[name] = left


class FleetContext(CustomLogger):  # type: ignore[misc]
    """The hooks of LiteLLM before a node is chosen, and after one has refused."""

    async def async_filter_deployments(
        self, model: str, healthy_deployments: list[Any], messages: Any, request_kwargs: Any = None, *_: Any, **__: Any
    ) -> list[Any]:
        if not isinstance(request_kwargs, dict):
            return healthy_deployments
        size = prompt_bytes({"messages": messages, **request_kwargs})
        fitting = that_fit(healthy_deployments, size)
        cap_answer(request_kwargs, fitting, size)
        return fitting

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any = None, *_: Any, **__: Any
    ) -> None:
        """Put the refusal of a node into words at which Claude Code shortens its conversation and goes on."""
        if NOT_UNDERSTOOD in str(original_exception):
            original_exception.message = f"prompt is too long: {original_exception}"


context = FleetContext()

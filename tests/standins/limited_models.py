"""Servers that refuse as vLLM and llama.cpp do: a prompt over the context, an answer over what the prompt leaves."""

from __future__ import annotations

import json

from standins.agent_models import Answer, Mind, Refuse
from standins.model_server import Asked

BYTES_PER_TOKEN = 4.4  # of what Claude Code sends, as a real model counted it


def vllm(mind: Mind, context: int) -> Mind:
    def limited(asked: Asked) -> Answer:
        prompt, answer = sizes(asked)
        head = f"This model's maximum context length is {context} tokens"
        if prompt > context:
            return _bad_request(f"{head}. However, your request has {prompt} input tokens.")
        if prompt + answer > context:
            left = f"({answer} > {context} - {prompt})"
            return _bad_request(
                f"'max_tokens' is too large: {answer}. {head} and your request has {prompt} input tokens {left}."
            )
        return mind(asked)

    return limited


def llamacpp(mind: Mind, context: int) -> Mind:
    def limited(asked: Asked) -> Answer:
        prompt, answer = sizes(asked)
        if prompt + answer > context:
            words = "the request exceeds the available context size, try increasing it"
            return Refuse(400, "exceed_context_size_error", words)
        return mind(asked)

    return limited


def sizes(asked: Asked) -> tuple[int, int]:
    """Tokens of the prompt, and of the answer that is asked for."""
    said = json.dumps([asked.body.get("messages"), asked.body.get("tools")])
    return int(len(said) / BYTES_PER_TOKEN), int(asked.body.get("max_tokens") or 0)


def _bad_request(words: str) -> Refuse:
    return Refuse(400, "BadRequestError", words)

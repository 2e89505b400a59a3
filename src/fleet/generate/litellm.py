"""The file that LiteLLM reads. Why each setting is as it is: docs/guides/gateway.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.core.fleet import Fleet, Kind, Model, Node
from fleet.generate.base import NOTICE, File
from fleet.generate.endpoint import claude_answer_tokens
from fleet.generate.roles import defaults
from fleet.generate.yaml import dump

PATH = "litellm_config.yaml"
# `openai/` is not here: on /v1/messages LiteLLM sends it to /v1/responses, which few servers have.
PREFIX = {
    Kind.OLLAMA: "ollama_chat",
    Kind.VLLM: "hosted_vllm",
    Kind.LLAMACPP: "hosted_vllm",
    Kind.OPENAI: "hosted_vllm",
    Kind.LMSTUDIO: "lm_studio",
    Kind.OPENROUTER: "openrouter",
    Kind.ANTHROPIC: "anthropic",
}
CATCH_ALL = "claude-*"
COUNTING_ERROR = 0.12  # LiteLLM counts with a tokenizer of its own, and so much too low
# Claude Code asks every model to think, and LiteLLM makes this parameter of it, which servers refuse for a model that
# cannot. Without it, Ollama thinks with the models that can.
UNASKED = ["reasoning_effort"]


def render(fleet: Fleet) -> list[File]:
    return [File(PATH, f"# {NOTICE}\n{dump(config(fleet))}".encode())]


def config(fleet: Fleet) -> dict[str, Any]:
    shared = shared_aliases(fleet)
    return {
        "model_list": list(_model_list(fleet, shared)),
        "litellm_settings": {"drop_params": True, "telemetry": False},
        "general_settings": {
            "master_key": f"os.environ/{fleet.gateway.master_key_env}",
            "background_health_checks": False,
            "cancel_on_disconnect": True,
        },
        "router_settings": {
            "routing_strategy": "simple-shuffle",
            "enable_pre_call_checks": True,
            "num_retries": 1,
            "timeout": max(model.timeout for model in fleet.models.values()),
            # LiteLLM never sets a dead node aside, so a call that failed is tried on each node of its group by name.
            **(
                {"fallbacks": [{alias: [own_name(m) for m in group]} for alias, group in shared.items()]}
                if shared
                else {}
            ),
        },
    }


def own_name(model: Model) -> str:
    """The name of one deployment alone, for an alias that several share."""
    return f"{model.alias}@{model.node}/{model.name}"


def shared_aliases(fleet: Fleet) -> dict[str, list[Model]]:
    """Each alias that several models have, and these."""
    groups: dict[str, list[Model]] = {}
    for model in fleet.models.values():
        groups.setdefault(model.alias, []).append(model)
    return {alias: group for alias, group in groups.items() if len(group) > 1}


def _model_list(fleet: Fleet, shared: dict[str, list[Model]]) -> Iterator[dict[str, object]]:
    for model in fleet.models.values():
        yield _deployment(model.alias, model, fleet)
    for group in shared.values():
        for model in group:
            yield _deployment(own_name(model), model, fleet)
    # Claude Code also asks for names of its own (dated ones, and opus): they stay on these machines too.
    yield _deployment(CATCH_ALL, defaults(fleet).heavy, fleet)


def _deployment(name: str, model: Model, fleet: Fleet) -> dict[str, object]:
    node = fleet.node_of(model)
    return {
        "model_name": name,
        "litellm_params": {
            "model": f"{PREFIX[node.kind]}/{model.served}",
            "api_base": _api_base(node),
            "api_key": f"os.environ/{node.api_key_env}" if node.api_key_env else "none",
            "timeout": model.timeout,
            **_limits(model, node),
        },
        "model_info": {
            "id": f"{name}={model.name}@{node.name}",
            "node": node.name,
            **_slots(model, fleet.models_on(node)),
            # Without the provider LiteLLM does not find a model again that only one deployment has, nor its limit.
            "litellm_provider": PREFIX[node.kind],
            "max_input_tokens": max_input_tokens(model.context),
            "disable_background_health_check": True,
            **(
                {}
                if node.is_cloud
                else {"context": model.context, "input_cost_per_token": 0, "output_cost_per_token": 0}
            ),
        },
    }


def _limits(model: Model, node: Node) -> dict[str, object]:
    """What keeps a request within the model: its context and its answer, and what it cannot do left out."""
    if node.is_cloud:
        return {}
    if node.kind is not Kind.OLLAMA:
        return {"additional_drop_params": UNASKED}
    return {
        "num_ctx": model.context,
        "keep_alive": model.keep_alive,
        "additional_drop_params": UNASKED,
        # What does not fit is refused; Ollama would cut the beginning away, the system prompt with it.
        "extra_body": {"truncate": False, "shift": False},
    }


def max_input_tokens(context: int) -> int:
    """The longest prompt that leaves room for an answer, as LiteLLM counts it."""
    return int((context - claude_answer_tokens(context)) * (1 - COUNTING_ERROR))


def _slots(model: Model, neighbours: list[Model]) -> dict[str, object]:
    """How many requests the model, and all models of its node together, may run at once; read by the gateway."""
    caps = [neighbour.max_parallel for neighbour in neighbours]
    if model.max_parallel is None:
        return {}
    return {"model_slots": model.max_parallel, "node_slots": max(cap for cap in caps if cap is not None)}


def _api_base(node: Node) -> str:
    return node.endpoint if node.kind in (Kind.OLLAMA, Kind.ANTHROPIC) else f"{node.endpoint}/v1"

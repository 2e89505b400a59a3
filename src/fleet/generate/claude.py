"""The subagents of Claude Code: one Markdown file a role, front matter at byte 0 or it is not read."""

from __future__ import annotations

from fleet.core.fleet import Agent, Fleet
from fleet.generate.base import NOTICE, File
from fleet.generate.endpoint import claude_answer_tokens, contexts
from fleet.generate.roles import defaults
from fleet.generate.yaml import front_matter


def render(fleet: Fleet) -> list[File]:
    return [File(f".claude/agents/{agent.name}.md", _file(fleet, agent)) for agent in fleet.agents.values()]


def _file(fleet: Fleet, agent: Agent) -> bytes:
    fields: dict[str, object] = {
        "name": agent.name,
        "description": agent.description.strip(),
        "model": fleet.asked(fleet.models[agent.model]),
    }
    if agent.tools:
        fields["tools"] = ", ".join(agent.tools)
    return front_matter(NOTICE, fields, agent.prompt)


def exports(fleet: Fleet) -> dict[str, str | None]:
    """Variables for Claude Code; None means that the variable must not be set.

    CLAUDE_CODE_SUBAGENT_MODEL would overrule the model of every subagent and so undo the routing by role.
    ANTHROPIC_API_KEY would be sent along with every request, to a machine it was not meant for.
    Without its context Claude Code believes in 200,000 tokens or a million, and never makes its conversation shorter.
    To a name with sonnet, opus or haiku in it, it says nearly twice as much before the first prompt, unless forbidden.
    """
    chosen = defaults(fleet)
    context = contexts(fleet)[fleet.asked(chosen.heavy)]
    return {
        "ANTHROPIC_BASE_URL": fleet.base_url,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": fleet.asked(chosen.top),
        "ANTHROPIC_DEFAULT_SONNET_MODEL": fleet.asked(chosen.heavy),
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": fleet.asked(chosen.small),
        "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(context),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(claude_answer_tokens(context)),
        "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_SUBAGENT_MODEL": None,
        "ANTHROPIC_API_KEY": None,
    }


KEY_VARIABLES = ("ANTHROPIC_AUTH_TOKEN",)

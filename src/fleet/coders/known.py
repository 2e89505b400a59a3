"""The coders that this machine knows: those that runtime.toml declares, ours, and those that packages bring."""

from __future__ import annotations

from fleet.coders import find
from fleet.coders.base import Coder
from fleet.coders.command import Declared
from fleet.config.runtime import Runtime
from fleet.config.runtime_schema import PromptBy


def find_coder(name: str, runtime: Runtime) -> Coder:
    """The coder of this name: one that runtime.toml declares, one of ours, or one that a package brings."""
    part = runtime.coders.get(name)
    return _declared(name, runtime) if part is not None and part.argv else find(name, declared(runtime))


def declared(runtime: Runtime) -> dict[str, Coder]:
    """The coders that runtime.toml makes of settings alone."""
    return {name: _declared(name, runtime) for name in runtime.coders if runtime.coders[name].argv}


def _declared(name: str, runtime: Runtime) -> Coder:
    from fleet.coders.acp import Acp

    part = runtime.coders[name]
    if part.prompt is PromptBy.ACP:
        return Acp(name, part.argv or (), part.permissions.value, part.context_limit)
    return Declared(
        name=name, argv=part.argv or (), prompt=part.prompt.value, events=part.events.value,
        model_flag=part.model_flag, resume_flag=part.resume_flag, context_limit=part.context_limit,
        interactive=part.interactive, tools=part.tools,
    )  # fmt: skip

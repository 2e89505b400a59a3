"""Begin agents on branches: one, one prompt several times, several prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from fleet.batches.create import Hear, Made
from fleet.batches.create import create as make
from fleet.batches.site import Site
from fleet.batches.wanted import Wanted, Who, agents, fanout, multi
from fleet.core import BadConfig, FleetError
from fleet.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class How:
    """What a create, a fanout and a multi can all be told."""

    agent: str | None = None
    model: str | None = None
    base: str | None = None
    quick: bool = False
    atomic: bool = False
    onto: str | None = None
    after: tuple[str, ...] = ()


def create(site: Site, branch: str, prompt: str, how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    who = _who(site, how)
    if len(who) > 1:
        raise BadConfig("one branch has one agent", hint="several: fleet fanout N --agent claude,codex")
    wanted = Wanted(branch, prompt, who[0].coder, who[0].model, how.base)
    return _made(site, [wanted], how, hear, done)


def fan_out(
    site: Site, count: int, prefix: str | None, prompt: str, how: How, hear: Hear, done: Callable[[Made], None]
) -> list[Made]:
    """One prompt to several agents, each on a branch of its own."""
    wanted = fanout(count, prefix, secrets.token_hex(4), prompt, _who(site, how), how.base)
    return _made(site, wanted, how, hear, done)


def several(site: Site, pairs: Sequence[str], how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    """Several prompts, each to an agent on a branch of its own."""
    wanted = multi(pairs, f"multi-{secrets.token_hex(4)}", _who(site, how), how.base)
    return _made(site, wanted, how, hear, done)


def _who(site: Site, how: How) -> list[Who]:
    """The coders that were named, or the project's, or this machine's; whose model is only the machine's coder's."""
    runtime = site.house.runtime
    found = agents(how.agent or site.workspace.agent or runtime.coder, how.model)
    own = runtime.model or None
    return [replace(one, model=one.model or (own if one.coder == runtime.coder else None)) for one in found]


def _made(site: Site, wanted: Sequence[Wanted], how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    """Make them all; with `atomic`, none when one of them cannot be made."""
    made = make(site, [replace(one, quick=how.quick, onto=how.onto, after=how.after) for one in wanted], hear, done)
    if how.atomic and any(one.problem for one in made):
        return [_undone(site, one) for one in made]
    return made


def _undone(site: Site, made: Made) -> Made:
    """The same after it was ended; one that cannot be ended is left, and says why."""
    from fleet.batches.end import end  # what nobody pays for whose agents can all be made

    if made.attempt is not None:
        try:
            end(site, made.attempt, "another of its batch could not be made")
        except FleetError as problem:
            return replace(made, problem=problem)
    return made

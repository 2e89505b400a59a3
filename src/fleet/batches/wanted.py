"""What people ask for when they begin attempts themselves: branches, prompts, coders. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from fleet.core import BadConfig
from fleet.core.frozen import dataclass
from fleet.core.text import clean

MOST = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """One attempt to be begun: a branch, and what its agent is told first, if anything."""

    branch: str
    prompt: str = ""
    coder: str = ""
    model: str | None = None
    base: str | None = None
    batch: str = ""
    quick: bool = False
    onto: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Who:
    """A coder, and the model it is to think with."""

    coder: str
    model: str | None = None


def agents(text: str, model: str | None) -> list[Who]:
    """Who is meant by `claude`, by `claude,codex` or by `claude:opus,claude:sonnet`."""
    found = []
    for part in text.split(","):
        coder, _, own = part.strip().partition(":")
        if not coder:
            raise BadConfig(f"{clean(text)!r} names no agent between two commas", hint="--agent claude,codex:MODEL")
        found.append(Who(coder, own or model))
    return found


def fanout(
    count: int, prefix: str | None, token: str, prompt: str, who: Sequence[Who], base: str | None
) -> list[Wanted]:
    """One prompt several times: PREFIX-A1, PREFIX-A2 … The coders are dealt out in turn."""
    if not 1 <= count <= MOST:
        raise BadConfig(f"a fanout is of 1 to {MOST} agents, not of {count}")
    batch = prefix or f"fanout-{token}"
    dealt = [who[n % len(who)] for n in range(count)]
    return [Wanted(f"{batch}-A{n}", prompt, one.coder, one.model, base, batch) for n, one in enumerate(dealt, start=1)]


def multi(pairs: Sequence[str], batch: str, who: Sequence[Who], base: str | None) -> list[Wanted]:
    """Several prompts, each on a branch of its own: `branch:prompt`. No branch of git's has a colon in its name."""
    if len(pairs) > MOST:
        raise BadConfig(f"{len(pairs)} agents are too many at once; {MOST} are the most")
    found: list[Wanted] = []
    for n, pair in enumerate(pairs):
        branch, colon, prompt = pair.partition(":")
        if not colon or not branch.strip() or not prompt.strip():
            raise BadConfig(
                f"{clean(pair, 80)!r} is not a branch and a prompt", hint='fleet multi fix-auth:"Fix the login"'
            )
        one = who[n % len(who)]
        found.append(Wanted(branch.strip(), prompt.strip(), one.coder, one.model, base, batch))
    return found


def must_differ(wanted: Sequence[Wanted]) -> None:
    """Refuse a branch that is asked for twice, and two that git cannot have beside each other."""
    seen: set[str] = set()
    for one in wanted:
        if one.branch in seen:
            raise BadConfig(f"the branch {clean(one.branch)} is asked for twice")
        seen.add(one.branch)
    for one in wanted:
        for parent in PurePosixPath(one.branch).parents:
            if str(parent) in seen:
                raise BadConfig(f"there cannot be a branch {clean(one.branch)} beside {clean(str(parent))}")

"""Which models stand behind the aliases of a LiteLLM: as the running one says, and as fleet.yaml wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.core.fleet import Fleet
from fleet.core.text import clean
from fleet.generate import litellm
from fleet.host.http import Cause, Http, Unanswered


@dataclass(frozen=True, slots=True)
class Deployment:
    """One model behind an alias: LiteLLM's name for it, the address that it is asked at, and with which context."""

    alias: str
    model: str
    endpoint: str
    context: int | None

    @property
    def where(self) -> str:
        """For people: `demo:7b on http://10.0.0.7:11434, context 32768`."""
        context = f", context {self.context}" if self.context else ""
        return f"{self.model.partition('/')[2] or self.model} on {self.endpoint}{context}"


def wanted(fleet: Fleet) -> tuple[Deployment, ...]:
    return tuple(_deployments(litellm.config(fleet)["model_list"]))


def ask(url: str, key: str) -> tuple[Deployment, ...] | Unanswered:
    """What the gateway at an address serves, or why it does not say."""

    async def get() -> object:
        async with Http(3.0, tls=False) as http:
            return (await http.get(f"{url}/v1/model/info", {"authorization": f"Bearer {key}"})).json()

    try:
        answer = asyncio.run(get())
    except Unanswered as problem:
        # LiteLLM looks a key that it does not know up in a database, has none, and calls that a bad request.
        return Unanswered(Cause.UNAUTHORISED, "another key") if problem.status == 400 else problem
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return Unanswered(Cause.MISSING_KEY, 'the answer has no list "data"')
    return tuple(_deployments(item for item in listed if isinstance(item, dict)))


def names(found: Iterable[Deployment]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.alias for one in found))


def difference(alias: str, fleet: Fleet, running: Iterable[Deployment]) -> str | None:
    """Why a running gateway does not answer an alias, or by another model than fleet.yaml says; None when it does."""
    mine = {one for one in wanted(fleet) if one.alias == alias}
    theirs = {one for one in running if one.alias == alias}
    if not theirs:
        return "the running gateway does not know the alias"
    other = sorted(one.where for one in theirs - mine)
    return f"the running gateway has an older file, and asks {' and '.join(other)}" if other else None


def _deployments(entries: Iterable[Mapping[str, object]]) -> Iterable[Deployment]:
    for entry in entries:
        found = entry.get("litellm_params")
        params = found if isinstance(found, dict) else {}
        context = params.get("num_ctx")
        yield Deployment(
            clean(str(entry.get("model_name"))),
            clean(str(params.get("model"))),
            clean(str(params.get("api_base"))),
            context if isinstance(context, int) else None,
        )

"""The conversation: greet the agent, begin or take up a session, give it its prompt, answer what it asks.

The SDK of the protocol carries the requests and shapes what is sent. What comes back is read as strangers' data is
everywhere here: agents are ahead of any schema, and a field that is not what it should be counts as missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from acp.core import Connection, RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AllowedOutcome,
    CancelNotification,
    DeniedOutcome,
    EnvVariable,
    Implementation,
    InitializeRequest,
    LoadSessionRequest,
    McpServerStdio,
    NewSessionRequest,
    PromptRequest,
    RequestPermissionResponse,
    SetSessionConfigOptionSelectRequest,
    TextContentBlock,
)
from acp.utils import serialize_params
from pydantic import BaseModel

from fleet import __version__
from fleet.coders.acp import Turn, chosen, models, refused
from fleet.coders.base import ASK_SERVER
from fleet.coders.bridge.wire import Wire
from fleet.coders.stream import Fields, dumped, fields, other, session, short, word
from fleet.core.work import Event, EventKind

Tell = Callable[[Event], None]
# Some agents run a `/command` or put in the content of an `@file` that they find in the last block of a prompt.
BEGIN = "Now begin."

logging.disable()  # the SDK would write tracebacks; what goes wrong is told as an event


@dataclass(frozen=True, slots=True)
class Order:
    """What the bridge was asked to do."""

    cwd: str
    environment: Mapping[str, str]
    permissions: str = "allow"
    model: str | None = None
    session: str | None = None
    ask: tuple[str, ...] = ()
    patience: float = 120.0  # seconds for every answer but that to a prompt


class Failed(Exception):
    """The conversation cannot go on; the message says why, and calls the agent `it`."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Talk:
    def __init__(self, wire: Wire, order: Order, tell: Tell) -> None:
        self._wire, self._order, self._tell = wire, order, tell
        self._connection = Connection(self._asked, wire)
        self._session = ""
        self._turn: Turn | None = None  # while a prompt is worked on; what is told before is a replay
        self._cancelled = False

    async def work(self, prompt: str) -> bool:
        """From the first word to the last; whether the agent says that its turn ended well."""
        can_load = await self._greet()
        answer = await self._take_up(can_load) if self._order.session else await self._begin()
        model = await self._choose(answer)
        kept = session(self._session) if can_load else None
        self._tell(Event(EventKind.SESSION, session=kept, model=model))
        if kept is None:
            self._tell(other("the agent cannot take up a session again: another attempt begins a new one"))
        return await self._give(prompt)

    async def cancel(self) -> bool:
        """Ask the agent to stop; whether it has anything to stop. It answers its prompt then, and so `work` ends."""
        self._cancelled = True
        if self._turn is None:
            return False
        self._tell(other("session/cancel"))
        stop = CancelNotification(session_id=self._session)
        await self._connection.send_notification("session/cancel", serialize_params(stop))
        return True

    async def close(self) -> None:
        await self._connection.close()

    # ---- what we ask

    async def _greet(self) -> bool:
        """Whether sessions can be taken up again."""
        us = Implementation(name="fleet", version=__version__)
        # No files and no terminals are offered: the agent uses its own tools, as it does everywhere.
        answer = await self._ask("initialize", InitializeRequest(protocol_version=PROTOCOL_VERSION, client_info=us))
        version = answer.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            raise Failed(f"it speaks version {dumped(version)} of the protocol, fleet speaks {PROTOCOL_VERSION}")
        return fields(answer.get("agentCapabilities")).get("loadSession") is True

    async def _begin(self) -> Fields:
        order = self._order
        answer = await self._ask("session/new", NewSessionRequest(cwd=order.cwd, mcp_servers=self._servers()))
        begun = answer.get("sessionId")
        if not isinstance(begun, str) or not begun:
            raise Failed("it did not name the session that it began")
        self._session = begun
        return answer

    async def _take_up(self, can_load: bool) -> Fields:
        """It is told what became of its work, and that only makes sense to whoever did it: no new session is begun."""
        self._session = self._order.session or ""
        if not can_load:
            raise Failed(f"it cannot take up the session {self._session} again")
        load = LoadSessionRequest(cwd=self._order.cwd, mcp_servers=self._servers(), session_id=self._session)
        return await self._ask("session/load", load)

    def _servers(self) -> list[Any]:
        """The MCP server whose tool asks a person, with what fleet tells every program of an attempt."""
        if not self._order.ask:
            return []
        told = {name: value for name, value in self._order.environment.items() if name.startswith("FLEET_")}
        env = [EnvVariable(name=name, value=value) for name, value in told.items()]
        command, *args = self._order.ask
        return [McpServerStdio(name=ASK_SERVER, command=command, args=args, env=env)]

    async def _choose(self, answer: Fields) -> str | None:
        """The model in use, once the wanted one was asked for."""
        current, way = models(answer)
        wanted = self._order.model
        if wanted is None or wanted == current:
            return current
        try:
            if not way:
                raise Failed("the agent offers no choice")
            await self._set_model(wanted, way)
        except Failed as problem:
            self._tell(other(f"the model {wanted} was not chosen: {problem}"))
            return current
        return wanted

    async def _set_model(self, wanted: str, way: Fields) -> None:
        if "modelId" in way:
            await self._ask("session/set_model", {"sessionId": self._session, "modelId": wanted})
        else:
            option = way.get("configId") or "model"
            select = SetSessionConfigOptionSelectRequest(config_id=option, session_id=self._session, value=wanted)
            await self._ask("session/set_config_option", select)

    async def _give(self, prompt: str) -> bool:
        blocks: list[Any] = [TextContentBlock(type="text", text=text) for text in (prompt, BEGIN)]
        self._turn = Turn()
        try:
            answer = await self._request("session/prompt", PromptRequest(prompt=blocks, session_id=self._session), None)
            events = self._turn.end(answer)
        except RequestError as problem:
            words = self._turn.pause()
            text, status = refused(problem.code, str(problem), problem.data, self._turn.said)
            events = [*words, Event(EventKind.RESULT, text=text, ok=False, status=status)]
        self._tell_all(events)
        return events[-1].ok is True

    async def _ask(self, method: str, request: BaseModel | Fields) -> Fields:
        """One request that is answered soon, and not with an error."""
        try:
            return await self._request(method, request, self._order.patience)
        except RequestError as problem:
            text, status = refused(problem.code, str(problem), problem.data, "")
            raise Failed(f"{method}: {text}", status) from None

    async def _request(self, method: str, request: BaseModel | Fields, patience: float | None) -> Fields:
        params = serialize_params(request) if isinstance(request, BaseModel) else request
        try:
            async with asyncio.timeout(patience):
                return fields(await self._connection.send_request(method, params))
        except TimeoutError:
            raise Failed(f"it did not answer {method} within {patience:g} s") from None
        except ConnectionError as problem:
            raise Failed(f"{self._wire.problem or problem} before it answered {method}") from None

    # ---- what the agent asks and tells

    async def _asked(self, method: str, params: object, is_notification: bool) -> object:
        match method:
            case "session/update":
                self._tell_all(self._turn.hear(fields(fields(params).get("update"))) if self._turn else ())
            case "session/request_permission" if not is_notification:
                return self._permit(fields(params))
            case _ if not is_notification:
                raise RequestError.method_not_found(method)
            case _:
                self._tell(other(short(method)))
        return None

    def _tell_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._tell(event)

    def _permit(self, request: Fields) -> RequestPermissionResponse:
        """By policy; once it was asked to stop the agent is permitted nothing, as the protocol says."""
        option = None if self._cancelled else chosen(request.get("options"), self._order.permissions)
        what = word(fields(request.get("toolCall")).get("title")) or "it did not say what"
        self._tell_all(self._turn.asked(request) if self._turn else ())
        if option is None:
            self._tell(Event(EventKind.PERMISSION, text=short(f"permission not given: {what}"), ok=False))
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        self._tell(other(short(f"permission, {self._order.permissions}: {what}")))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))
